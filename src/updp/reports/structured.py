"""A report restated: its terms, sides, negations and measurements in plain sentences, and nothing of its wording.

Who has seen a report knows it again by its wording, whatever was taken out. Here no sentence is edited: each is
written anew from the terms of the whitelist, measurements, words of doubt, degree and place and a few that link them,
in the order in which they stood, and the sentences come in an order of their own (what was found, how things look, what
was not found). A word that is on no list cannot leave, be it a name the detector missed. What
:mod:`updp.reports.retention` counts is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from updp.reports.lexicon import whitelist, word_class
from updp.reports.retention import MEASUREMENT, WORD

_TOKEN = re.compile(
    rf"(?P<measure>{MEASUREMENT.pattern})|\[[a-z-]+\]|\d+(?:[.,:/-]\d+)*|(?P<word>{WORD.pattern})|(?P<stop>[.;:!?\n])|(?P<comma>,)"
)
#: Words between two terms that say how they belong together.
_LINKS = word_class("links")
#: Terms that read as titles: "DR" is digital radiography too.
_TITLES = word_class("name_titles")
#: Behind one of these a new sentence begins, so that a negation reaches no further.
_TURNS = word_class("turns")


@lru_cache(maxsize=1)
def _terms() -> tuple[frozenset[str], dict[str, list[tuple[str, ...]]], frozenset[str], frozenset[str]]:
    """Single terms, phrases by their first word (the longest first), findings and negations."""
    groups = whitelist()
    single = set(word_class("qualities"))
    phrases: dict[str, list[tuple[str, ...]]] = {}
    for group, terms in groups.items():
        for term in terms:
            words = tuple(WORD.findall(term))
            if len(words) == 1 and group != "eponyms":  # by itself an eponym may be somebody's name
                single.update(words if words[0] not in _TITLES else ())
            elif len(words) > 1:
                phrases.setdefault(words[0], []).append(words)
    for longest in phrases.values():
        longest.sort(key=len, reverse=True)
    return frozenset(single), phrases, groups["pathology"], groups["negation"]


def restate(text: str) -> str:
    """``text`` as standard sentences; empty if it holds no term."""
    findings, negations = _terms()[2:]
    sentences = []
    for pieces in _clauses(text):
        made = _sentence(pieces)
        words = set(WORD.findall(made))
        if made:
            order = 2 if words & negations else 0 if words & findings else 1
            sentences.append((order, made))
    return " ".join(f"{made[0].upper()}{made[1:]}." for _, made in sorted(sentences))


#: A term or measurement that stays (True), a word or sign that links two (False), or "" for what was dropped.
_Piece = tuple[str, bool]


def _clauses(text: str) -> Iterator[list[_Piece]]:
    single, phrases, _, _ = _terms()
    tokens = list(_TOKEN.finditer(text.lower()))
    clause: list[_Piece] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        word = token["word"]
        i += 1
        if token["stop"] or word in _TURNS:
            yield clause
            clause = []
        elif token["measure"]:
            clause.append((" ".join(token["measure"].split()), True))
        elif word is None:
            clause.append((",", False) if token["comma"] else ("", False))
        elif phrase := _phrase(tokens, i - 1, phrases.get(word, ())):
            clause.append((" ".join(phrase), True))
            i += len(phrase) - 1
        elif word in single:
            clause.append((word, True))
        else:
            clause.append((word if word in _LINKS else "", False))
    yield clause


def _phrase(tokens: list[re.Match[str]], at: int, phrases: list[tuple[str, ...]] | tuple[()]) -> tuple[str, ...] | None:
    for phrase in phrases:
        if tuple(t["word"] for t in tokens[at : at + len(phrase)]) == phrase:
            return phrase
    return None


def _sentence(pieces: list[_Piece]) -> str:
    """The terms of a clause, one link between two of them; a comma where anything else was left out."""
    out = ""
    link, gap = "", False
    for word, stays in pieces:
        if not stays:
            link, gap = word or link, gap or not word
            continue
        if out:
            sign = "" if link and link != "," else "," if gap or link else ""
            out += f"{sign} {link} " if link and link != "," else f"{sign} "
        out += word
        link, gap = "", False
    return out
