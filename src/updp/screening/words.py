"""Descriptions cleaned by what is known to be safe: words of radiography stay, everything else goes.

A study description is a handful of words. Nothing has to be recognised as a name to be removed from it: a word stays
if it is in ``descriptor_words.txt``, or is a number of one or two digits, and no detector objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

from updp.screening.tables import read_text

_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*|\S", re.UNICODE)
_JOINING = frozenset("/,;:.+-&()")
MASK = "REMOVED"


class Detector(Protocol):
    """Whatever finds protected health information in text; spans have ``start`` and ``end``."""

    def spans(self, text: str) -> Iterable[Any]: ...


@lru_cache(maxsize=1)
def descriptor_words() -> frozenset[str]:
    """The words a description may keep."""
    lines = read_text("descriptor_words.txt").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def _joined(text: str, left: int) -> bool:
    """Whether two neighbouring characters belong to one word: two letters, or two digits."""
    if left < 0 or left + 1 >= len(text):
        return False
    a, b = text[left], text[left + 1]
    return (a.isalpha() and b.isalpha()) or (a.isdigit() and b.isdigit())


class Known:
    """A patient's own identifiers, found in text as whole words whatever the case."""

    def __init__(self, identifiers: Sequence[str], least: int = 3) -> None:
        # one character of Han, Kana or Hangul can be a whole name part
        wanted = {text.lower() for text in identifiers if len(text) >= least or (text and not text.isascii())}
        self.words = tuple(wanted)

    def __contains__(self, text: str) -> bool:
        return next(self.find(text), None) is not None

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where they stand."""
        lower = text.lower()
        if len(lower) != len(text):  # a letter whose small form is two: places would no longer agree
            lower = "".join(c if len(c.lower()) != 1 else c.lower() for c in text)
        for word in self.words:
            start = lower.find(word)
            while start >= 0:
                end = start + len(word)
                # Han and Kana have no spaces between words
                if not word.isascii() or not (_joined(lower, start - 1) or _joined(lower, end - 1)):
                    yield start, end
                start = lower.find(word, start + 1)


def _covered(text: str, detector: Detector | None, known: Known) -> list[tuple[int, int]]:
    spans = list(known.find(text))
    if detector is not None:
        spans += [(int(span.start), int(span.end)) for span in detector.spans(text)]
    return sorted(spans)


def clean_descriptor(text: str, detector: Detector | None, known: Known) -> str:
    """The safe words of a description; an empty text if there are none, or if there is no detector to ask."""
    if detector is None:
        return ""
    safe = descriptor_words()
    spans = _covered(text, detector, known)
    kept: list[str] = []
    out, end = "", -1
    for token in _WORD.finditer(text):
        word = token.group()
        if any(start < token.end() and token.start() < end for start, end in spans):
            continue
        parts = re.split(r"[-'’]", word.lower())
        if word in _JOINING:
            stays = bool(kept) and kept[-1] not in _JOINING
        else:
            stays = all(part in safe or (part.isascii() and part.isdigit() and len(part) <= 2) for part in parts)
        if stays:
            kept.append(word)
            out += word if token.start() == end else f" {word}"
            end = token.end()
    return out.strip().rstrip("".join(_JOINING - {")"}) + " ")


def clean_narrative(text: str, detector: Detector | None, known: Known) -> str:
    """Free text with every detected span cut out; without a detector nothing of it stays."""
    if detector is None:
        return ""
    out, at = [], 0
    for start, end in _covered(text, detector, known):
        if start > at:
            out.append(text[at:start])
        at = max(at, end)
    out.append(text[at:])
    return re.sub(r"[ \t]{2,}", " ", "".join(out)).strip()
