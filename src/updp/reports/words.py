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


def collapse(tokens: Tokens, found: Sequence[Span]) -> list[tuple[int, int, list[str]]]:
    """Make a single stand-in word of every span a pattern is sure of. Says from where to where words were put in the
    place of others, one after the other.
    """
    sure = [(f.start, -f.end, i) for i, f in enumerate(found) if f.score >= 0.8 and f.category != "location"]
    spans: list[tuple[int, int, str]] = []
    reach = 0
    for start, end, i in sorted(sure):
        if start >= reach:
            reach = -end
            spans.append((start, reach, _STAND_IN.get(found[i].category, "<id>")))
    words, starts, ends = tokens.words, tokens.starts, tokens.ends
    changes: list[tuple[int, int, list[str]]] = []
    for start, end, mark in reversed(spans):  # from behind, so that places before stay as they are
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if first >= last:
            continue
        made, begin, stop = [mark], [start], [end]
        if starts[first] < start:  # the pattern begins inside this word
            made.insert(0, words[first][: start - starts[first]])
            begin.insert(0, starts[first])
            stop.insert(0, start)
        if ends[last - 1] > end:
            made.append(words[last - 1][end - starts[last - 1] :])
            begin.append(end)
            stop.append(ends[last - 1])
        words[first:last], starts[first:last], ends[first:last] = made, begin, stop
        changes.append((first, last, made))
    return changes
