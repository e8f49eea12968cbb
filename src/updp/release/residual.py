"""The receiver's second opinion on released text: what still looks like an identifier.

It shares nothing with the detector that cleaned the reports: no pattern, no word list, no tagger. Where that one looks
for what names look like, this one looks at every word with a capital in the middle of a sentence: a plain word, a
term or a surrogate may stand there, anything else is a name or a place. Numbers are judged by their characters. A
receiver has no key, so what comes from the public pools of surrogates (names, invented towns, ranges set aside for
fiction) is passed over, and so are dates unless the release says that it has none (``mode="tag"``).
"""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Residue:
    """A place that looks like an identifier, and which kind of one."""

    start: int
    end: int
    category: str


Piece = tuple[int, int, str]

_OPEN, _CLOSE = "([{<\"'#*", ")]}>\"',;:.!?*"
_HOLES = ("___", "XXXX", "[**")
_TAG = re.compile(r"\[[A-Z]+(?:-[A-Z]+)*\]")
_STOPS = frozenset(".!?:;\n-*)|/")


def residual_spans(text: str, *, mode: Literal["surrogate", "tag"] = "surrogate") -> list[Residue]:
    """Every place of ``text`` that looks like an identifier left behind."""
    found: list[Residue] = []
    for start in range(0, len(text) or 1, _PASSAGE):
        found += _passage(text, start, min(len(text), start + _PASSAGE), mode)
    out: list[Residue] = []
    for residue in sorted(set(found), key=lambda r: (r.start, -r.end)):
        if not out or residue.start >= out[-1].end:
            out.append(residue)
    return out


#: Text is judged this many characters at a time; patterns see a little beyond.
_PASSAGE = 50_000


def _passage(text: str, low: int, high: int, mode: str) -> Iterator[Residue]:
    pieces = list(_pieces(text, low, high))
    letters = [_letters(word) for _, _, word in pieces]
    for i, (start, end, word) in enumerate(pieces):
        if any(c.isdigit() for c in word):  # a number, perhaps a surrogate, but no name
            kind = _judge_digits(word, mode) or _judge_noise(word, pieces, i, mode)
        else:
            kind = _judge_signs(word)
            if kind is None and not _HOLE_INSIDE.search(word):
                kind = _judge_word(text, pieces, letters, i, mode)
        if kind is not None:
            yield Residue(start, end, kind)
    for pattern, kind in _patterns(mode):
        for match in pattern.finditer(text, max(0, low - 40), min(len(text), high + 40)):
            groups = pattern.groupindex
            if "two" in groups and any(_letters(w) in _words() for w in re.split(r"[,^ -]+", match["two"])):
                continue  # "COPD, DYSPNEA"
            if "house" in groups and _letters(match["house"]) in _pool(mode):
                continue
            if "head" not in groups or _is_named(match["head"], mode):
                value = match.span("v") if "v" in groups else match.span()
                if not _is_surrogate(text[slice(*value)], mode):
                    yield Residue(*value, kind)


_HOLE_INSIDE = re.compile(r"XXX|__")


@lru_cache(maxsize=2)
def _patterns(mode: str) -> list[tuple[re.Pattern[str], str]]:
    """The patterns of the table with their categories; those for dates only where there should be none."""
    out = []
    for row in _residual()["pattern"]:
        if row.get("dated") and mode != "tag":
            continue
        source = row["regex"]
        for name in ("streets", "tails", "statenames", "fields"):
            # An underscore stands for a space inside a name.
            words = [re.escape(w.replace("_", " ")) for w in sorted(_table()[name])]
            source = source.replace(f"<{name.upper()}>", "|".join(words))
        out.append((re.compile(source), row["category"]))
    return out


def _pieces(text: str, low: int, high: int) -> Iterator[Piece]:
    """White-space pieces of ``text`` that begin in a passage, without the punctuation around them."""
    for match in _NO_SPACE.finditer(text, low, high):
        start, end = match.span()
        if start == low and low and not text[low - 1].isspace():
            continue  # its beginning was in the passage before
        while end < len(text) and end == high and not text[end].isspace() and end - start < 200:
            end += 1
            high = end
        while (
            start < end and text[start] in _OPEN and not text.startswith(_HOLES, start) and not _TAG.match(text, start)
        ):
            start += 1
        while end > start and text[end - 1] in _CLOSE:
            end -= 1
        if start < end and not text.startswith(_HOLES, start) and text[start] != "[":
            yield start, end, text[start:end]


_NO_SPACE = re.compile(r"\S+")


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
    if mode == "surrogate" and letters.upper() == "ZZ":
        return None  # surrogate numbers begin so
    if word[0] in "ps" and len(word) == 16 and word.isalnum() and word.islower():
        return None  # pseudonyms have that form
    if digits.startswith("000") and len(digits) == 5:
        return None
    if digits[-4:-2] == "01" and digits[:-4].endswith("55"):
        return None  # the end of a telephone number set aside for fiction
    if ":" in word or "%" in word or letters.lower() in _UNITS:
        return None
    if (
        mode == "surrogate"
        and digits[:2] in ("19", "20")
        and (letters in ("", "T", "TZ"))
        and len(digits) in (8, 12, 14)
    ):
        return None  # a date without signs, moved like the others
    if len(letters) <= 6 and (len(digits) >= 6 or (letters and len(digits) == 5)):
        return "phone" if len(digits) in (7, 10, 11) and len(parts) > 1 and not letters else "id"
    return None


#: Letters of a measure; "MCM857748568" is none.
_UNITS = frozenset(["mm", "cm", "mg", "ml", "kg", "mmx", "cmx", "mmhg", "mcg", "xmm", "xcm", "xxmm", "xxcm"])


def _judge_noise(word: str, pieces: list[Piece], i: int, mode: str) -> str | None:
    """A name with a digit for a letter, read right."""
    if not 3 < len(word) < 16 or not (word[0].isupper() or word[0] == "0"):
        return None
    digits = [c for c in word if c.isdigit()]
    if len(digits) > 2 or not all(c in "0158" for c in digits) or not any(c.islower() for c in word):
        return None
    read = [word.lower().translate(table) for table in _MISREAD]
    if any(r in _words() for r in read):
        return None
    before = pieces[i - 1][2].lower().rstrip(".") if i else ""
    return "name" if before in _table()["titles"] or any(r in _names(mode) for r in read) else None


_MISREAD = (str.maketrans("0158", "olsb"), str.maketrans("0158", "oisb"))


def _is_written_date(parts: list[str]) -> bool:
    """14-Mar-2019, 12/1976: a month and a year, a day or not."""
    if len(parts) == 2:
        return all(p.isdigit() for p in parts) and sorted(map(len, parts)) in ([1, 4], [2, 4])
    return len(parts) == 3 and parts[1].lower() in _table()["months"] and parts[0].isdigit() and parts[2].isdigit()


def _judge_word(text: str, pieces: list[Piece], letters: list[str], i: int, mode: str) -> str | None:
    start, end, word = pieces[i]
    lower = letters[i]
    table, names = _table(), _names(mode)
    if (
        len(lower) < 2
        or _is_surrogate(word, mode)
        or lower in table["small"]
        or lower in table["months"] | table["weekdays"]
    ):
        return None
    before = letters[i - 1] if i else ""
    gap = text[pieces[i - 1][1] : start] if i else "\n"
    behind = text[end : end + 1]
    capital = word[0].isupper()
    titled = before in table["titles"] and gap.strip() in ("", ".") and "\n\n" not in gap
    if titled and (capital or lower in names) and not (pieces[i - 1][2].isupper() and len(before) == 2):
        return "name" if capital or lower not in _words() else None
    if not capital:
        return None
    after = pieces[i + 1][2] if i + 1 < len(pieces) else ""
    joined = bool(after) and text[end : pieces[i + 1][0]] in (" ", ", ", ",")
    if joined and after.rstrip(".") in table["credentials"] and lower in names:
        return "name"
    if gap.strip() == ":" and before in table["fields"] and (lower in names or lower not in _words()):
        return "name" if not word.isupper() or lower in names else None
    if word.isupper() and len(lower) > 1:
        went = any(x in table["whereabouts"] for x in letters[max(0, i - 5) : i])
        if 2 < len(word) < 7 and before in _AT and lower not in table["services"]:
            closed = behind in tuple(".,;") or _letters(after) in table["small"]
            return "institution" if (went and lower not in _words()) or (before == "at" and closed) else None
        return None
    if _is_eponym(lower, after, before, mode):
        return None
    parts = [p for p in re.split(r"[-/]", word.lower()) if p]
    listed = lower in names or (len(parts) > 1 and all(p in names for p in parts))
    plain = lower in _words() or (
        len(parts) > 1 and (all(p in _words() or len(p) < 2 for p in parts) or word[1] in "-/")
    )
    opens = not i or gap[:1] in _STOPS or "\n" in gap or any(c in _STOPS for c in gap)
    if opens and i and before in table["titles"]:
        opens = False
    if not opens:
        if (
            before in _AT
            and (
                before == "at"
                or (before == "from" and _followed(pieces, text, i))
                or any(x in table["whereabouts"] for x in letters[max(0, i - 5) : i])
            )
            and lower not in table["services"]
        ):
            return "location"
        if not plain:
            return "name"
        if before == "by" and _named_by(pieces, text, i):
            return "name"
        if before in _NAMING and lower in _given(mode) and _named_by(pieces, text, i):
            return "name"
        return "name" if listed and _beside(pieces, letters, i, text, mode) else None
    if plain:
        return "name" if lower in _given(mode) and _beside(pieces, letters, i, text, mode) else None
    if listed:
        return "name" if behind != ":" else None
    if letters[i + 1 : i + 2] and letters[i + 1] in table["does"] and after.islower() and not _ADJECTIVE.search(lower):
        return "name"
    return "name" if _beside(pieces, letters, i, text, mode) else None


#: Endings of words for a service or a kind, not of names; terms end so too.
_ADJECTIVE = re.compile(
    r"(?:al|ous|ive|ic|ics|ary|ory|ology|ment|ness|tion|sis|ia|itis|oma|graphy|gram|scopy|care|team)$"
)
#: Behind these a label or a list gives somebody's name.
_NAMING = frozenset(("under", "reads", "says", "with", "told", "named", "labelled", "labeled", "patient", "called"))
_AT = frozenset(("at", "from", "to", "in", "near"))


def _beside(pieces: list[Piece], letters: list[str], i: int, text: str, mode: str) -> bool:
    """Whether another word with a capital that may be a name stands beside this one, a space or initial between."""
    for j in (i - 1, i + 1):
        if not 0 <= j < len(pieces):
            continue
        low, high = sorted((i, j))
        if text[pieces[low][1] : pieces[high][0]] not in (" ", ", ", ". "):
            continue
        other = pieces[j][2]
        if not other[0].isupper() or (other.isupper() and len(other) > 1) or _is_surrogate(other, mode):
            continue
        if len(letters[j]) == 1 or letters[j] in _names(mode) or letters[j] not in _words():
            return True
    return False


def _followed(pieces: list[Piece], text: str, i: int) -> bool:
    """Whether another word with a capital follows, a space or a comma between: "seen by Drew Lake"."""
    if i + 1 >= len(pieces):
        return False
    after = pieces[i + 1][2]
    return text[pieces[i][1] : pieces[i + 1][0]] in (" ", ", ") and after[0].isupper() and not after.isupper()


def _named_by(pieces: list[Piece], text: str, i: int) -> bool:
    """Whether two words with a capital behind "by" close a clause: somebody did it, however plain the words are."""
    if not _followed(pieces, text, i):
        return False
    words = [_letters(pieces[j][2]) for j in (i, i + 1)]
    behind = text[pieces[i + 1][1] : pieces[i + 1][1] + 4]
    closed = behind[:1] in tuple(".,;)\n") or behind in ("", " and", " abo") or behind[:3] in (" at", " on", " in")
    return closed and not any(_ADJECTIVE.search(w) or w in _table()["services"] for w in words)


def _is_eponym(lower: str, after: str, before: str, mode: str) -> bool:
    table = _table()
    if before in table["titles"] or before in _given(mode):
        return False
    return lower in table["eponyms"] or _letters(after) in table["heads"]


def _is_named(head: str, mode: str) -> bool:
    """Whether something in the head of an institution's name tells it from others."""
    words = [_letters(w) for w in head.split()]
    rare = [w for w in words if w and w not in _table()["generic"]]
    return (
        bool(rare)
        and not all(w in _pool(mode) for w in rare)
        and any(w not in _words() or w in _names(mode) for w in rare)
    )


def _letters(word: str) -> str:
    return "".join(c for c in word.lower().removesuffix("'s") if c.isalpha() or c in "'/")


def _data(name: str) -> bytes:
    return (resources.files("updp.reports") / "data" / name).read_bytes()


@lru_cache(maxsize=1)
def _residual() -> dict[str, Any]:
    return tomllib.loads(_data("residual.toml").decode())


@lru_cache(maxsize=1)
def _table() -> dict[str, frozenset[str]]:
    return {name: frozenset(words.split()) for name, words in _residual()["words"].items()}


@lru_cache(maxsize=2)
def _given(mode: str) -> frozenset[str]:
    return frozenset(_lines("residual_names.txt.gz")) - _pool(mode) - _table()["months"]


@lru_cache(maxsize=2)
def _names(mode: str) -> frozenset[str]:
    """Given names and surnames of another source than the first detector's."""
    return _given(mode) | (frozenset(_lines("residual_surnames.txt.gz")) - _pool(mode) - _table()["months"])


@lru_cache(maxsize=1)
def _words() -> frozenset[str]:
    """Words that may have a capital without being a name."""
    return frozenset(_lines("residual_words.txt.gz"))


def _lines(name: str) -> list[str]:
    return gzip.decompress(_data(name)).decode().split("\n")


@lru_cache(maxsize=2)
def _pool(mode: str) -> frozenset[str]:
    """Words of the public pools of surrogates; a release with tags has none."""
    if mode == "tag":
        return frozenset()
    names = json.loads(gzip.decompress(_data("surrogate_names.json.gz")))
    made = tomllib.loads(_data("surrogate_places.toml").decode())
    towns = {root.lower() + ending for root in made["roots"] for ending in made["town_endings"]}
    streets = {w.lower() for w in (*made["streets"], *made["street_endings"])}
    return frozenset(n.lower() for pool in names.values() for n in pool) | towns | streets


_SURROGATE = re.compile(
    r"90\+|(?:ZZ|zz)\d{2,14}|@?zz\d{4}|000-\d\d-\d{4}|000\d\d|.*55\W?01\d\d|.*@example\.org|"
    r"(?:https://)?example\.org(?:/\d{6})?|2001:db8::[0-9a-f]+|00:00:5E:00:53:\w\w|192\.0\.2\.\d+",
    re.DOTALL,
)


def _is_surrogate(value: str, mode: str) -> bool:
    """Whether a value is a tag or comes from the public pools of surrogates."""
    if _TAG.fullmatch(value):
        return True
    if mode == "tag":
        return False
    if _SURROGATE.fullmatch(value):
        return True
    joined = value.removesuffix("'s")
    for sign in "^,<>/\"()' ":
        joined = joined.replace(sign, "-")
    parts = [p for p in (_letters(p).replace("'", "") for p in joined.split("-")) if len(p) > 1]
    return bool(parts) and all(p in _pool(mode) or p in _table()["titles"] for p in parts)
