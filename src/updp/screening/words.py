"""Descriptions cleaned by what is known to be safe: words of radiography stay, everything else goes.

A study description is a handful of words. Nothing has to be recognised as a name to be removed from it: a word stays
if it is in ``descriptor_words.txt``, or is a number of one or two digits, and no detector objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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


def known_pattern(identifiers: Sequence[str], least: int = 3) -> re.Pattern[str] | None:
    """A pattern that finds any of a patient's own identifiers as whole words, ignoring case."""
    # one character of Han, Kana or Hangul can be a whole name part
    wanted = {text for text in identifiers if len(text) >= least or (text and not text.isascii())}
    if not wanted:
        return None
    longest_first = sorted(wanted, key=lambda text: (-len(text), text))
    return re.compile(
        "|".join(rf"(?<!\w){re.escape(text)}(?!\w)" if text.isascii() else re.escape(text) for text in longest_first),
        re.IGNORECASE,
    )


def _covered(text: str, detector: Detector | None, known: re.Pattern[str] | None) -> list[tuple[int, int]]:
    spans = [(m.start(), m.end()) for m in known.finditer(text)] if known else []
    if detector is not None:
        spans += [(int(span.start), int(span.end)) for span in detector.spans(text)]
    return sorted(spans)


def clean_descriptor(text: str, detector: Detector | None, known: re.Pattern[str] | None) -> str:
    """The safe words of a description; an empty text if there are none, or if there is no detector to ask."""
    if detector is None:
        return ""
    safe = descriptor_words()
    spans = _covered(text, detector, known)
    kept: list[str] = []
    for token in _WORD.finditer(text):
        word = token.group()
        if any(start < token.end() and token.start() < end for start, end in spans):
            continue
        parts = re.split(r"[-'’]", word.lower())
        if word in _JOINING:
            if kept and kept[-1] not in _JOINING:
                kept.append(word)
        elif all(part in safe or (part.isascii() and part.isdigit() and len(part) <= 2) for part in parts):
            kept.append(word)
    while kept and kept[-1] in _JOINING - {")"}:
        kept.pop()
    return " ".join(kept)


def clean_narrative(text: str, detector: Detector | None, known: re.Pattern[str] | None) -> str:
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
