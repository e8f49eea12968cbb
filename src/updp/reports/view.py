"""A plain reading of a report's text in which every character remembers where it came from.

Markup (HTML, RTF), look-alike letters, full-width digits, soft hyphens and zero-width marks hide identifiers from
patterns and word lists. Detection reads this plain view; every span is then carried back to the characters of the
original, so that spans always index the text as it was given. Plain ASCII costs one test.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import NamedTuple

from updp.reports.lexicon import read_data, word_class

#: Letters of other alphabets that are drawn like a Latin one (a short selection of Unicode's confusables).
_LOOKALIKES = str.maketrans(
    {line[0]: line[1] for line in read_data("lookalikes.txt").decode().splitlines() if len(line) == 2}
)
_DROP = frozenset(
    "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)
_MARKUP = re.compile(
    r"<(?:!--|/?[A-Za-z][A-Za-z0-9:-]{0,20})(?=[\s/>-])[^<>]{0,2000}>"  # a tag or comment
    r"|&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,10});"  # a character reference
)
_RTF = re.compile(r"\\'([0-9A-Fa-f]{2})|\\u(-?\d{1,6}) ?\??|\\([a-z]{1,32})(-?\d{1,10})? ?|\\([^a-z])|[{}]")
#: A run of ASCII, or one other character.
_RUN = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f]", re.DOTALL)
_BREAKS = frozenset(("p", "br", "div", "tr", "td", "th", "li", "h1", "h2", "h3", "table", "ul", "ol", "pre"))
#: Tags that only change how letters look.
_WITHIN = word_class("inline_tags")


class View(NamedTuple):
    """``text`` to read, and where in the original each of its characters begins and ends."""

    text: str
    starts: list[int] | None = None  # None: at the same places
    stops: list[int] | None = None

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original that ``[start, end)`` of the view came from."""
        if self.starts is None or self.stops is None:
            return start, end
        return self.starts[start], self.stops[end - 1]


def plain(text: str) -> View:
    """The plain view of ``text``."""
    rich = text.lstrip()[:6].lower().startswith("{\\rtf")
    tagged = "<" in text or "&" in text
    if text.isascii() and not rich and not (tagged and _MARKUP.search(text)):
        return View(text)
    if not rich and not (tagged and _MARKUP.search(text)):
        folded: dict[str, str | int | None] = {c: _fold(c) for c in set(text) if c >= "\x80" and c not in _DROP}
        if all(isinstance(c, str) and len(c) == 1 for c in folded.values()) and _DROP.isdisjoint(text):
            return View(text.translate(str.maketrans(folded)))  # letter for letter: every place stays
    out: list[str] = []
    starts: list[int] = []
    stops: list[int] = []

    def put(characters: str, start: int, stop: int) -> None:
        for c in characters:
            out.append(c)
            starts.append(start)
            stops.append(stop)

    def put_text(start: int, end: int) -> None:
        for match in _RUN.finditer(text, start, end):
            a, b = match.span()
            if text[a] < "\x80":
                out.append(match.group())
                starts.extend(range(a, b))
                stops.extend(range(a + 1, b + 1))
            elif text[a] not in _DROP:
                put(_fold(text[a]), a, b)
            elif a and text[a - 1].islower() and text[b : b + 1].isupper():
                put(" ", a, b)  # two words that only a mark without width keeps apart

    end = 0
    if rich or tagged:
        for match in (_RTF if rich else _MARKUP).finditer(text):
            put_text(end, match.start())
            end = match.end()
            put(_rtf(match) if rich else _html(match), match.start(), end)
    put_text(end, len(text))
    return View("".join(out), starts, stops)


def _fold(c: str) -> str:
    if c in "\u2010\u2011\u2012\u2013\u2014\u2212":
        return "-"
    if c in "\u2018\u2019\u02bc\u00b4`":
        return "'"
    if c in "\u201c\u201d":
        return '"'
    digit = unicodedata.decimal(c, None)  # of any script
    if digit is not None:
        return str(digit)
    folded = unicodedata.normalize("NFKC", c)
    if folded.isspace():
        return " " if c not in "\u2028\u2029\x85" else "\n"
    base = "".join(x for x in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(x)) or folded
    return "" if unicodedata.combining(c) else base.translate(_LOOKALIKES)


def _html(match: re.Match[str]) -> str:
    found = match.group()
    if found.startswith("&"):
        return "".join(_fold(c) if c >= "\x80" else c for c in html.unescape(found)) or " "
    name = found.strip("</>! ").split()[0].lower().rstrip("/") if found.strip("</>! ") else ""
    # A tag of a language nobody knows parts a name and a day; one that only changes letters stands inside a name.
    return "\n" if name in _BREAKS else "" if name in _WITHIN or name.startswith("!--") else " "


def _rtf(match: re.Match[str]) -> str:
    if match.group(1):
        return _fold(bytes.fromhex(match.group(1)).decode("cp1252", "replace"))
    if match.group(2):
        return _fold(chr(int(match.group(2)) % 65536))
    if match.group(3):
        return (
            "\n"
            if match.group(3) in ("par", "line", "row", "sect", "page")
            else " "
            if match.group(3) in ("tab", "cell")
            else ""
        )
    if match.group(5):
        return match.group(5) if match.group(5) in "{}\\" else " " if match.group(5) == "~" else ""
    return ""
