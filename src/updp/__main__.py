"""`python -m updp` is `updp`."""

from updp.cli import main

if __name__ == "__main__":
    main()
