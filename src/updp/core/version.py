"""The version of the program, as releases record it."""

__version__ = "0.1.0"
