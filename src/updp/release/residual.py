"""The receiver's second opinion on released text: what still looks like an identifier.

It shares nothing with the detector that cleaned the reports: no pattern, no word list, no tagger. Text is cut at white
space and each piece is judged by its characters (counts of digits, signs, capitals) and by the piece before it. A
receiver has no key, so what comes from the public pools of surrogates (names, invented towns, ranges set aside for
fiction) is passed over, and so are dates unless the release says that it has none (``mode="tag"``).
"""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal


@dataclass(frozen=True, slots=True)
class Residue:
    """A place that looks like an identifier, and which kind of one."""

    start: int
    end: int
    category: str


_TITLES = frozenset(("dr", "mr", "mrs", "ms", "miss", "prof", "doctor", "professor"))
_FIELDS = frozenset(
    ("name", "patient", "surname", "mrn", "ssn", "dob", "accession", "phone", "tel", "fax", "address", "email")
)
_AFTER = frozenset(("md", "m.d", "rn", "do", "d.o", "phd", "np"))
_NOT_NAMES = frozenset(
    (
        "aware",
        "notified",
        "informed",
        "paged",
        "called",
        "who",
        "and",
        "the",
        "on",
        "at",
        "from",
        "in",
        "will",
        "was",
        "is",
        "has",
    )
)
_MONTHS = frozenset(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec"))
_OPEN, _CLOSE = "([{<\"'#*", ")]}>\"',;:.!?*"
_HOLES = ("___", "XXXX", "[**")


def residual_spans(text: str, *, mode: Literal["surrogate", "tag"] = "surrogate") -> list[Residue]:
    """Every place of ``text`` that looks like an identifier left behind."""
    pieces = list(_pieces(text))
    found: list[Residue] = []
    for i, (start, end, word) in enumerate(pieces):
        before = pieces[i - 1][2].lower().rstrip(".:") if i else ""
        if any(c.isdigit() for c in word):  # a number, perhaps one of ours, but no name
            kind = _judge_digits(word, mode)
        else:
            kind = _judge_signs(word)
            if kind is None and word[0].isupper():
                kind = _judge_name(pieces, i, before, text)
        if kind is not None:
            found.append(Residue(start, end, kind))
    return found


def _pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """White-space pieces of ``text`` without the punctuation around them."""
    at = 0
    for raw in text.split():
        start = text.index(raw, at)
        at = start + len(raw)
        end = at
        while start < end and text[start] in _OPEN and not text.startswith(_HOLES, start):
            start += 1
        while end > start and text[end - 1] in _CLOSE:
            end -= 1
        if start < end and not text.startswith(_HOLES, start):
            yield start, end, text[start:end]


def _judge_signs(word: str) -> str | None:
    if "@" in word and "." in word.partition("@")[2]:
        return None if word.lower().endswith("@example.org") else "email"
    if "://" in word or word.lower().startswith("www."):
        return None if word.lower().startswith("https://example.org/") else "url"
    return None


def _judge_digits(word: str, mode: str) -> str | None:
    signs = _judge_signs(word)
    if signs or "@" in word or "://" in word:
        return signs
    digits = "".join(c for c in word if c.isdigit())
    letters = "".join(c for c in word if c.isalpha())
    if len(digits) < 5 or not word.isascii():
        return None
    parts = [p for p in word.replace("/", "-").replace(".", "-").split("-") if p]
    if (
        all(p.isdigit() for p in parts)
        and len(parts) == 3
        and sorted(map(len, parts)) in ([1, 1, 4], [1, 2, 4], [2, 2, 4], [2, 2, 2])
    ):
        return "date" if mode == "tag" else None
    if _is_written_date(parts):
        return "date" if mode == "tag" else None
    if len(parts) == 3 and [len(p) for p in parts] == [3, 2, 4]:
        return None if parts[0] == "000" else "ssn"
    if len(parts) == 4 and "." in word and all(p.isdigit() and int(p) < 256 for p in parts) and word.count(".") == 3:
        return None if word.startswith("192.0.2.") else "ip"
    if letters.upper() == "ZZ" or (word[0] in "ps" and len(word) == 16 and word.isalnum() and word.islower()):
        return None  # numbers of ours begin so; pseudonyms have that form
    if digits.startswith("000") and len(digits) == 5:
        return None
    if digits[-4:-2] == "01" and digits[:-4].endswith("55"):
        return None  # the end of a telephone number set aside for fiction
    if ":" in word or "%" in word or any(u in letters.lower() for u in ("mm", "cm", "mg", "ml", "kg")):
        return None
    if mode == "surrogate" and len(digits) == 8 and not letters and digits[:2] in ("19", "20"):
        return None  # a date without signs, moved like the others
    if len(letters) <= 6 and (len(digits) >= 6 or (letters and len(digits) == 5)):
        return "phone" if len(digits) in (7, 10, 11) and len(parts) > 1 and not letters else "id"
    return None


def _is_written_date(parts: list[str]) -> bool:
    """14-Mar-2019, 12/1976: a month and a year, a day or not."""
    if len(parts) == 2:
        return all(p.isdigit() for p in parts) and sorted(map(len, parts)) in ([1, 4], [2, 4])
    return len(parts) == 3 and parts[1][:3].lower() in _MONTHS and parts[0].isdigit() and parts[2].isdigit()


def _judge_name(pieces: list[tuple[int, int, str]], i: int, before: str, text: str) -> str | None:
    start, end, word = pieces[i]
    lower = _letters(word)
    if len(lower) < 2 or lower in _NOT_NAMES or _is_surrogate(word):
        return None
    after = pieces[i + 1][2] if i + 1 < len(pieces) else ""
    joined = i > 0 and text[pieces[i - 1][1] : start].strip() in ("", ".")
    if before in _TITLES and joined and i and pieces[i - 1][2][0].isupper() and not pieces[i - 1][2].isupper():
        return "name"
    given = _given()
    if after.lower().rstrip(".") in _AFTER and after[0].isupper() and lower in given:
        return "name"
    if lower in given and after and after[0].isupper() and after[1:].islower() and text[end : pieces[i + 1][0]] == " ":
        return None if _is_surrogate(after) or len(after) < 3 else "name"
    if before in _FIELDS and i and text[pieces[i - 1][1] : start].strip() == ":" and lower in given:
        return "name"
    return None


def _letters(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalpha())


def _data(name: str) -> bytes:
    return (resources.files("updp.reports") / "data" / name).read_bytes()


@lru_cache(maxsize=1)
def _given() -> frozenset[str]:
    return frozenset(gzip.decompress(_data("residual_names.txt.gz")).decode().split("\n")) - _pool() - _MONTHS


@lru_cache(maxsize=1)
def _pool() -> frozenset[str]:
    """Words of the public pools of surrogates."""
    names = json.loads(gzip.decompress(_data("surrogate_names.json.gz")))
    made = tomllib.loads(_data("surrogate_places.toml").decode())
    towns = {root.lower() + ending for root in made["roots"] for ending in made["town_endings"]}
    streets = {w.lower() for w in (*made["streets"], *made["street_endings"])}
    return frozenset(n.lower() for pool in names.values() for n in pool) | towns | streets


def _is_surrogate(word: str) -> bool:
    joined = word.removesuffix("'s")
    for sign in "^,<>":
        joined = joined.replace(sign, "-")
    parts = [_letters(p) for p in joined.split("-")]
    return all(p in _pool() or len(p) < 2 for p in parts)
