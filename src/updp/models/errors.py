"""Errors of models: a pack that cannot be used, and a package or file that is not there."""

from __future__ import annotations


class PackError(ValueError):
    """A pack that cannot be used; the message says which file and what to do."""


class MissingRequirement(RuntimeError):
    """A package or file that a measure or a loss needs is not there; the message names it."""
