"""Sections of a radiology report: from running text to ``findings``, ``impression``, ``indication`` and so on.

Shared by every source that has free-text reports. A heading is a known name in capitals before a colon, anywhere; a
known name in any case at the start of a line; or unknown words in capitals at the start of a line. No text is left out:
text without any heading is ``findings``, text before the first is ``preamble``, text under unknown headings is
``other``, heading included. Section names come from a fixed list, because a heading can be a person's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class Piece(NamedTuple):
    """A stretch of a report; ``heading + body`` of all pieces, joined, is the text."""

    name: str  # the section it belongs to
    heading: str  # as written, colon included; kept out of the section's text
    body: str


@cache
def _tables() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files("updp.sources").joinpath("sections.json").read_text("utf-8"))
    return found


@cache
def _names() -> dict[str, str]:
    """Every known heading in lower case, and the section it opens."""
    return {synonym: name for name, synonyms in _tables()["sections"].items() for synonym in synonyms}


@cache
def _heading() -> re.Pattern[str]:
    known = "|".join(re.escape(name).replace(r"\ ", "[ ]") for name in sorted(_names(), key=len, reverse=True))
    capitals = known.upper()
    # At the start of a line: known words in any case, or one to eight words in capitals. Elsewhere: known words in
    # capitals, so that "prior study: none" in a sentence stays where it is.
    return re.compile(
        rf"(?:^[ \t]*(?:(?i:(?P<line>{known}))|(?P<unknown>[A-Z][A-Z0-9(),/&.'-]*(?:[ ][A-Z0-9(),/&.'-]+){{0,7}}))"
        rf"|(?<![^\s.;,])(?P<inline>{capitals}))[ \t]*:",
        re.MULTILINE,
    )


def section_name(words: str) -> str | None:
    """The section a heading opens, None if the heading is not known."""
    return _names().get(" ".join(words.lower().split()).rstrip(":").strip())


def split(text: str) -> list[Piece]:
    """The text cut at its headings, in order and without loss."""
    cuts: list[tuple[int, int, str]] = []  # start, end of heading, section
    current = "preamble"
    for match in _heading().finditer(text):
        words = match["line"] or match["inline"] or match["unknown"]
        name = section_name(words)
        if name is None:
            plain = words.lower()
            if plain in _tables()["inside"]:
                continue
            if re.findall(r"[a-z-]+", plain) and set(re.findall(r"[a-z-]+", plain)) & set(_tables()["film_words"]):
                # "CHEST, PA AND LATERAL: ..." titles the findings, unless a section with a name of its own is open.
                if current not in ("preamble", "findings", "comparison", "technique", "examination", "other"):
                    continue
                name = "findings"
            else:
                name = "other"
            cuts.append((match.start(), match.start(), name))  # the heading's words stay in the text
        else:
            cuts.append((match.start(), match.end(), name))
        current = name
    if not cuts:
        return [Piece("findings", "", text)]
    pieces = [Piece("preamble", "", text[: cuts[0][0]])] if cuts[0][0] else []
    ends = [start for start, _, _ in cuts[1:]] + [len(text)]
    pieces += [
        Piece(name, text[start:body], text[body:end]) for (start, body, name), end in zip(cuts, ends, strict=True)
    ]
    return pieces


def parse(text: str) -> dict[str, str]:
    """A report's sections by name, in reading order; a section that occurs twice is joined by a blank line."""
    return gather((piece.name, piece.body) for piece in split(text))


def gather(pieces: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Named stretches of text as sections; blank ones are left out."""
    out: dict[str, str] = {}
    for name, body in pieces:
        if body := body.strip():
            out[name] = f"{out[name]}\n\n{body}" if name in out else body
    return out


def section_of_code(value: str, meaning: str) -> str | None:
    """The section of a coded SR heading (PS3.16 CID 7001 and the LOINC section codes), by code or else by its words."""
    found: str | None = _tables()["codes"].get(value.strip())
    return found or section_name(meaning)
