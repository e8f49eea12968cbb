"""The words of a text with their places: what every layer reads."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

_WORD = re.compile(r"([^\W\d_]+(?:'[^\W\d_]+)*|\d+|_+|\n|[^\w\s])")
#: The same for ASCII, where a plain class of characters is quicker, and few words have an apostrophe.
_ASCII_WORD = re.compile(r"([A-Za-z]++(?:'[A-Za-z]++(?:'[A-Za-z]++)*+|)|[0-9]++|[^\w \t\r\f\v\x1c-\x1f]|_++)", re.ASCII)


class Tokens:
    """The words of a text with their places."""

    __slots__ = ("ends", "starts", "words")

    words: list[str]
    starts: list[int]
    ends: list[int]

    def __init__(self, text: str) -> None:
        pieces = (_ASCII_WORD if text.isascii() else _WORD).split(text)  # a gap, a word, a gap, ...
        bounds = list(accumulate(map(len, pieces)))
        self.words = pieces[1::2]
        self.starts = bounds[:-1:2]
        self.ends = bounds[1::2]

    def __len__(self) -> int:
        return len(self.words)


class Span(NamedTuple):
    """Something that identifies, or a hole where something did: its place, what it is, how sure that is and who said
    so. Layers give places in the plain view, the detector in the text as it was given.
    """

    start: int
    end: int
    category: str
    score: float
    why: str


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
    "institution": "<inst>",
}


def collapse(tokens: Tokens, found: Sequence[Span]) -> Tokens:
    """``tokens`` with every span a pattern is sure of as a single stand-in word."""
    sure = [(f.start, -f.end, i) for i, f in enumerate(found) if f.score >= 0.8 and f.category != "location"]
    spans: list[tuple[int, int, str]] = []
    reach = 0
    for start, end, i in sorted(sure):
        if start >= reach:
            reach = -end
            spans.append((start, reach, _STAND_IN.get(found[i].category, "<id>")))
    if not spans:
        return tokens
    out = Tokens.__new__(Tokens)
    words: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0  # the first word not yet taken over
    for start, end, mark in spans:
        first, last = bisect_right(tokens.ends, start, at), bisect_left(tokens.starts, end, at)
        words += tokens.words[at:first]
        starts += tokens.starts[at:first]
        ends += tokens.ends[at:first]
        if first < last:
            begin = tokens.starts[first]
            if begin < start:  # the pattern begins inside this word
                words.append(tokens.words[first][: start - begin])
                starts.append(begin)
                ends.append(start)
            words.append(mark)
            starts.append(start)
            ends.append(end)
            if tokens.ends[last - 1] > end:
                words.append(tokens.words[last - 1][end - tokens.starts[last - 1] :])
                starts.append(end)
                ends.append(tokens.ends[last - 1])
        at = max(at, last)
    words += tokens.words[at:]
    starts += tokens.starts[at:]
    ends += tokens.ends[at:]
    out.words, out.starts, out.ends = words, starts, ends
    return out
