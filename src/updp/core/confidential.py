"""Knowledge about a patient that one station hands to a later one, and that must not reach anything else.

A cleaned report is searched for the names that stood in the header. Those names travel in a ``Confidential``: it can
be read by the code that asks for it, and cannot be printed, logged, pickled, copied or written as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, SupportsIndex


class Confidential:
    """Words that stay inside the process."""

    __slots__ = ("__words",)

    def __init__(self, words: Iterable[str]) -> None:
        self.__words = tuple(words)

    def reveal(self) -> tuple[str, ...]:
        """The words themselves, for the station that needs them."""
        return self.__words

    def __repr__(self) -> str:
        return "<confidential>"

    def __format__(self, spec: str) -> str:
        return "<confidential>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("confidential words are not pickled, copied or written")
