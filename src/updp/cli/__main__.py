"""`python -m updp.cli` is `updp`."""

from updp.cli import main

main()
