"""The words of a text with their places: what every layer reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|_+|\n|[^\w\s]")


class Tokens:
    """The words of a text with their places."""

    __slots__ = ("ends", "starts", "words")

    words: list[str]
    starts: list[int]
    ends: list[int]

    def __init__(self, text: str) -> None:
        spans = [match.span() for match in WORD.finditer(text)]
        self.words = [text[a:b] for a, b in spans]
        self.starts = [a for a, _ in spans]
        self.ends = [b for _, b in spans]

    def __len__(self) -> int:
        return len(self.words)


class Located(Protocol):
    """Anything with a place, a category and a score."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def category(self) -> str: ...
    @property
    def score(self) -> float: ...


#: What a pattern found stands as one word in the sequence: the tagger sees "<date>" and not its digits.
_STAND_IN = {
    "date": "<date>",
    "time": "<time>",
    "phone": "<phone>",
    "fax": "<phone>",
    "email": "<mail>",
    "url": "<mail>",
    "ip": "<mail>",
    "age": "<age>",
    "address": "<address>",
    "unit": "<unit>",
    "hole": "<hole>",
}


def collapse(tokens: Tokens, found: Iterable[Located]) -> Tokens:
    """``tokens`` with every span a pattern is sure of as a single stand-in word."""
    spans: list[tuple[int, int, str]] = []
    for f in sorted(found, key=lambda f: (f.start, f.start - f.end)):
        if f.score >= 0.8 and (not spans or f.start >= spans[-1][1]):
            spans.append((f.start, f.end, _STAND_IN.get(f.category, "<id>")))
    if not spans:
        return tokens
    out = Tokens.__new__(Tokens)
    words, starts, ends = [], [], []
    at = 0
    stop, open_until, mark = spans[0][0], -1, ""
    for word, start, end in zip(tokens.words, tokens.starts, tokens.ends, strict=True):
        if start < open_until:
            continue
        while at < len(spans) and spans[at][1] <= start:
            at += 1
        if at < len(spans) and end > spans[at][0]:
            stop, open_until, mark = spans[at]
            if start < stop:  # the pattern begins inside this word
                words.append(word[: stop - start])
                starts.append(start)
                ends.append(stop)
            words.append(mark)
            starts.append(stop)
            ends.append(open_until)
            if end > open_until:
                words.append(word[open_until - start :])
                starts.append(open_until)
                ends.append(end)
            continue
        words.append(word)
        starts.append(start)
        ends.append(end)
    out.words, out.starts, out.ends = words, starts, ends
    return out
