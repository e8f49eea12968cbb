"""The pattern layer: what spares a try never spares a find, and words keep their places."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from updp.reports.gazetteer import Gazetteer
from updp.reports.patterns import Patterns, shapes
from updp.reports.words import Span, Tokens, collapse

WORDS = (
    "1 9 12 93 104 317 555 1944 2019 46204 48213377 20190304 0512 00 019 + ( ) / . , : - # x am pm hrs h y yo yr year "
    "years old M F male Mar March 4th 2nd of on in at to and MR MRN DOB SSN IN Ave Street St Oak oak East floor room "
    "bed Dr ext phone 192 168 GB IBAN A1 B2 SW1A mg mm cm T Z"
)
GAPS = ["", "", " ", " ", "  ", "-", "/", ".", ", ", "\n"]
TEXTS = st.lists(st.tuples(st.sampled_from(WORDS.split()), st.sampled_from(GAPS)), max_size=14).map(
    lambda parts: "".join(piece + gap for piece, gap in parts)
)


@pytest.fixture(scope="module")
def patterns() -> Patterns:
    return Patterns()


@pytest.fixture(scope="module")
def tireless() -> Patterns:
    """Patterns that are tried wherever their anchor stands."""
    made = Patterns()
    for anchored in (*made._numbers, made._codes, *made._words.values()):
        anchored.patterns = tuple([dataclasses.replace(p, next=None, soon=False) for p in anchored.patterns])
    made._anywhere = [(p, needy, probe, None) for p, needy, probe, _ in made._anywhere]
    return made


def find(patterns: Patterns, text: str) -> set[Span]:
    tokens = Tokens(text)
    return set(patterns.find(text, tokens, shapes(text), patterns.called(text.lower()), range(len(tokens))))


@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
@example(text="#1944\n")
@example(text="floor-1")
def test_what_spares_a_try_spares_no_find(patterns: Patterns, tireless: Patterns, text: str) -> None:
    assert find(patterns, text) == find(tireless, text)
    assert find(patterns, text.upper()) == find(tireless, text.upper())


@pytest.mark.parametrize(
    "text",
    [
        "mail " + "a" * 80 + "@example.org, jane.doe@mail.example.co.uk and again x_y@z.de",
        "see https://example.org/" + "p" * 290 + " and www.example.com/a, portal." + "b" * 60 + ".health",
    ],
)
def test_addresses_are_found_whole_near_their_sign(patterns: Patterns, tireless: Patterns, text: str) -> None:
    assert find(patterns, text) == find(tireless, text) != set()


@given(text=TEXTS)
def test_cues_are_found_wherever_they_stand(patterns: Patterns, text: str) -> None:
    lower = (text + " Oakview Clinic www.example.org [x]").lower()
    naive = {
        (cue, at + len(phrase) - 1)
        for phrase, cues in patterns.cues.items()
        for at in range(len(lower))
        if lower.startswith(phrase, at)
        for cue in cues
    }
    assert {(cue, place) for cue, places in patterns.called(lower).items() for place in places} == naive


GAZETTEER = Gazetteer(block=["Ward_7", "_x-ray", "o'Hara", "7 of 9"])


PARTS = "new York the netherlands 4 th of July ward 7 9 x ray o hara swan ganz _"


@given(
    words=st.lists(st.sampled_from(PARTS.split()), max_size=9),
    gaps=st.lists(st.sampled_from([" ", " ", "-", "_", "'", "", "\n"]), min_size=9, max_size=9),
)
@example(words=["st", "o", "hara", "ward", "7"], gaps=["'", "'", " ", "_", " ", " ", " ", " ", " "])
def test_a_phrase_is_found_wherever_it_stands_whole(words: list[str], gaps: list[str]) -> None:
    text = "".join(word + gap for word, gap in zip(words, gaps, strict=False))
    lower, tokens = text.lower(), Tokens(text)
    found, protected = GAZETTEER.find(text, lower, tokens, range(len(tokens)))
    naive = {
        (at, end)
        for at in range(len(lower))
        for end in range(at + 1, len(lower) + 1)
        if (entry := GAZETTEER._entries.get(lower[at:end]))
        and not lower[end : end + 1].isalnum()
        and not (at and lower[at - 1].isalnum())
        and (text[at].isupper() or text == lower or not entry.capital)
    }
    assert {(f.start, f.end) for f in found} | set(protected) == naive


@given(text=st.text(max_size=60))
def test_words_stand_where_they_say(text: str) -> None:
    tokens = Tokens(text)
    assert [text[a:b] for a, b in zip(tokens.starts, tokens.ends, strict=True)] == tokens.words
    assert "".join(tokens.words) == re.sub(r"[^\S\n]", "", text)


@given(text=TEXTS, a=st.integers(0, 40), size=st.integers(1, 20))
def test_words_under_a_find_become_one(text: str, a: int, size: int) -> None:
    b = min(len(text), a + size)
    found = Span(a, b, "date", 0.9, "")
    tokens = Tokens(text)
    collapse(tokens, [found] if a < b else [])
    assert tokens.starts == sorted(tokens.starts)
    marks = [(x, y) for word, x, y in zip(tokens.words, tokens.starts, tokens.ends, strict=True) if word == "<date>"]
    assert marks == ([(a, b)] if text[a:b].strip(" ") else [])
    for word, x, y in zip(tokens.words, tokens.starts, tokens.ends, strict=True):
        assert word == "<date>" or (text[x:y] == word and (y <= a or x >= b))
