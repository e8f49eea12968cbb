"""The error of a model pack that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


class PackError(ValueError):
    """A pack that cannot be used; the message says which file and what to do."""
