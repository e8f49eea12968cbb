"""UPDP: a new film from a prompt of allowed words (arXiv 2604.07128)."""
