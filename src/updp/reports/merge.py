"""One list of spans made of what several layers found, none overlapping another, in passages of a long text.

A long text is cut into passages that overlap a little, so that reading it costs in proportion to its length and
nothing is lost at a seam.
"""

from __future__ import annotations

import re

from updp.reports.categories import HOLE
from updp.reports.lexicon import vocabulary, word_class
from updp.reports.words import Span

#: A text longer than this is read in passages of about this length, which share so many characters.
_PASSAGE = 24_000
_SHARED = 300
_NEVER = word_class("never_names")
_WORDS = re.compile(r"\w+")


def cut(text: str) -> list[tuple[int, int]]:
    """Where the passages of ``text`` begin and end: at white space, where there is any near."""
    if len(text) <= _PASSAGE:
        return [(0, len(text))]
    out: list[tuple[int, int]] = []
    start = 0
    while True:
        end = start + _PASSAGE
        if end >= len(text):
            out.append((start, len(text)))
            return out
        end = max(text.rfind("\n", end - _SHARED, end), text.rfind(" ", end - _SHARED, end)) + 1 or end
        out.append((start, end))
        start = max(
            text.rfind("\n", end - 2 * _SHARED, end - _SHARED), text.rfind(" ", end - 2 * _SHARED, end - _SHARED)
        )
        start = start + 1 or end - _SHARED


def joined(text: str, before: list[Span], after: list[Span]) -> list[Span]:
    """The spans of two neighbouring passages as one list; where they overlap, both opinions are settled."""
    if not after:
        return before
    shared: list[Span] = []
    while before and before[-1].end > after[0].start:
        shared.append(before.pop())
    if not shared:
        before += after
        return before
    reach = shared[0].end
    late = [span for span in after if span.start >= reach]
    before += merge(text, shared, after[: len(after) - len(late)])
    before += late
    return before


#: When two layers disagree about overlapping words, the more specific kind names the span.
_RANK = {
    name: rank
    for rank, name in enumerate(
        [
            "hole",
            "email",
            "url",
            "ip",
            "ssn",
            "fax",
            "phone",
            "mrn",
            "accession",
            "health_plan",
            "account",
            "licence",
            "device",
            "vehicle",
            "username",
            "date",
            "time",
            "age",
            "address",
            "unit",
            "staff",
            "name",
            "institution",
            "location",
            "id",
        ]
    )
}


def _precedence(f: Span) -> tuple[bool, float, int, int]:
    """Holes first, then by score; between rule and tagger of equal score the rule; then the more specific kind."""
    return f.category != HOLE, 0.15 * (f.why == "tagger") - int(f.score * 10) / 10, _RANK[f.category], f.start - f.end


def merge(text: str, ruled: list[Span], tagged: list[Span]) -> list[Span]:
    """One list without overlaps: holes first, then what a rule is sure of, then the tagger."""
    found = sorted(ruled + tagged)
    taken: list[Span] = []
    i, n = 0, len(found)
    while i < n:
        first = found[i]
        reach = first.end
        j = i + 1
        while j < n and found[j].start < reach:
            reach = max(reach, found[j].end)
            j += 1
        best = first if j == i + 1 else min(found[i:j], key=_precedence)
        if best.start == first.start and best.end == reach:
            kept = _trimmed(text, best.start, reach)
            if kept:
                taken.append(Span(*kept, best.category, best.score, best.why) if kept != best[:2] else best)
        else:
            taken += _settle(text, found[i:j])
        i = j
    return taken


def _trimmed(text: str, a: int, b: int) -> tuple[int, int] | None:
    """A span without signs and spaces at its edges that say nothing."""
    while a < b and not text[a].isalnum() and text[a] not in "(+#[_*<":
        a += 1
    while a < b and not text[b - 1].isalnum() and text[b - 1] not in ")]_*>.":
        b -= 1
    return (a, b) if a < b else None


def _settle(text: str, found: list[Span]) -> list[Span]:
    """Spans that overlap each other: the first by precedence keeps its whole, the others what is left of them."""
    taken: list[Span] = []
    low = found[0].start
    used = bytearray(max([f.end for f in found]) - low)
    for start, end, category, score, why in sorted(found, key=_precedence):
        if used.find(1, start - low, end - low) < 0:
            pieces = [(start, end)]
            whole = True
        elif category == HOLE:
            continue
        else:
            pieces = []
            whole = False
            at = start - low
            while at < end - low:
                stop = used.find(1, at, end - low)
                stop = end - low if stop < 0 else stop
                if stop > at:
                    pieces.append((at + low, stop + low))
                at = used.find(0, stop, end - low) if stop < end - low else end - low
                at = end - low if at < 0 else at
        for piece in pieces:
            kept = _trimmed(text, *piece)
            if kept is None or (not whole and (kept[1] - kept[0] < 2 or _says_nothing(text[slice(*kept)]))):
                continue
            taken.append(Span(*kept, category, score, why))
            used[kept[0] - low : kept[1] - low] = b"\1" * (kept[1] - kept[0])
    taken.sort()
    return taken


def _says_nothing(piece: str) -> bool:
    """Whether what is left of a span after another took its part is plain words."""
    words = vocabulary()
    return all(words.get(w.lower(), "0") > "1" or len(w) < 2 or w.lower() in _NEVER for w in _WORDS.findall(piece))
