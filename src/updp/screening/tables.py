"""The tables of the header station: PS3.15 Table E.1-1, its options, and attribute Types by IOD.

The tables are data files (``screening/data``), made by ``tools/make_header_tables.py``; each names where it comes
from. This module reads them and answers two questions: which action a policy gives an attribute, and which Type the
attribute has in the object at hand, so that a compound action such as X/Z/D can be decided (PS3.15 E.1, E.3).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

Action = Literal["X", "Z", "D", "U", "K", "C", "X/Z", "X/D", "Z/D", "X/Z/D", "X/Z/U*"]
Type = Literal["1", "1C", "2", "2C", "3"]

_DATA = files("updp.screening") / "data"


@dataclass(frozen=True, slots=True)
class Row:
    """One attribute of the profile: its basic action and the options that may soften it."""

    tag: int
    keyword: str
    action: Action
    options: tuple[tuple[str, Literal["K", "C"]], ...] = ()  # (option, K or C)


def read_text(name: str) -> str:
    """A data file of this package."""
    return (_DATA / name).read_text("utf-8")


def read_tsv(name: str) -> list[list[str]]:
    """The rows of a table, without comments and heading."""
    lines = [line for line in read_text(name).splitlines() if line and not line.startswith("#")]
    return [line.split("\t") for line in lines[1:]]


@lru_cache(maxsize=1)
def edition() -> str:
    """The edition of the standard Table E.1-1 was taken from."""
    return read_text("e11.tsv").split("edition ", 1)[1].split(";", 1)[0]


@lru_cache(maxsize=1)
def profile() -> dict[int, Row]:
    """Table E.1-1 by tag, and the few further attributes of ``further.tsv``.

    The repeating groups (50xx, 60xx) and the private elements are rules of their own; see :func:`repeating`.
    """
    options: dict[str, list[tuple[str, Literal["K", "C"]]]] = {}
    for option, columns in json.loads(read_text("e11_options.json")).items():
        for how, keywords in columns.items():
            for keyword in keywords:
                options.setdefault(keyword, []).append((option, how))
    rows = {}
    for tag, keyword, action, *_ in read_tsv("e11.tsv") + read_tsv("further.tsv"):
        if "x" not in tag and tag != "ggggeeee":
            number = int(tag, 16)
            rows[number] = Row(number, keyword, action, tuple(options.get(keyword, ())))  # type: ignore[arg-type]
    return rows


@lru_cache(maxsize=1)
def repeating() -> dict[str, str]:
    """The rows of Table E.1-1 that stand for many tags: pattern and action."""
    return {tag: action for tag, _, action in read_tsv("e11.tsv") if "x" in tag or tag == "ggggeeee"}


@lru_cache(maxsize=1)
def method_codes() -> dict[str, tuple[str, str]]:
    """CID 7050: option -> (code value, code meaning)."""
    return {k: (v[0], v[1]) for k, v in json.loads(read_text("cid7050.json")).items() if k != "about"}


@lru_cache(maxsize=1)
def safe_private() -> dict[tuple[str, int, int], str]:
    """Private elements known to be safe: (creator, group, element within the block) -> VR."""
    return {(c, int(g, 16), int(e, 16)): vr for c, g, e, vr in read_tsv("safe_private.tsv")}


@lru_cache(maxsize=1)
def defined_terms() -> dict[int, frozenset[str]]:
    """The terms the standard defines for an attribute, by tag; ``#`` stands for any number of up to five digits."""
    from pydicom.datadict import tag_for_keyword

    terms = {}
    for keyword, words in read_tsv("defined_terms.tsv"):
        tag = tag_for_keyword(keyword)
        assert tag is not None, keyword
        terms[tag] = frozenset(words.split("|"))
    return terms


@lru_cache(maxsize=1)
def _iods() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_text("iod_types.json"))
    return found


def iod_of(sop_class_uid: str) -> str | None:
    """The information object of a SOP class, where its Types are known."""
    name = _iods()["sop_classes"].get(sop_class_uid)
    return str(name) if name else None


def iods() -> tuple[str, ...]:
    """The information objects whose Types are known."""
    return tuple(_iods()["iods"])


_STRICTNESS = {"3": 0, "2C": 1, "2": 2, "1C": 3, "1": 4}


@lru_cache(maxsize=64)
def types_of(iod: str | None) -> dict[str, Type]:
    """``'Keyword'`` or ``'Sequence>Keyword'`` -> Type in this IOD; the strictest anywhere if the IOD is not known.

    An attribute that is absent from the result is Type 3, or not part of the IOD at all.
    """
    tables = _iods()
    if iod is None:
        return dict(tables["strictest"])
    found: dict[str, Type] = {}
    for module in tables["iods"][iod]:
        for place, kind in tables["modules"].get(module, {}).items():
            found[place] = max(found.get(place, "3"), kind, key=_STRICTNESS.__getitem__)
    return found


def type_of(iod: str | None, parent: str, keyword: str) -> Type:
    """The Type of an attribute at the top of an object, or inside the items of sequence ``parent``."""
    types = types_of(iod)
    place = f"{parent}>{keyword}" if parent else keyword
    found = types.get(place) or (types.get(f"*>{keyword}") if parent else None)
    return found or "3"


def resolve(action: str, kind: Type) -> str:
    """The one action a compound action comes to for an attribute of this Type (PS3.15 Table E.1-1a).

    An X or Z that would break the object (Type 2 or 1 inside a sequence that stays) becomes Z or D: neither keeps any
    of the original value.
    """
    if action in ("U", "K", "C"):
        return action
    if action == "X/Z/U*":
        return "X" if kind == "3" else "Z" if kind in ("2", "2C") else "U*"
    if action == "D":
        return "D"
    required = "D" if kind in ("1", "1C") else "Z" if kind in ("2", "2C") else "X"
    if required == "X":
        return action.split("/")[0]
    return required
