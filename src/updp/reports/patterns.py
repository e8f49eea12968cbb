"""The pattern layer: numbers, dates, addresses and names with the words that announce them (``data/patterns.toml``).

A pattern is data; what a regular expression cannot say is a test in ``checks``. Every pattern is
linear in the length of the text, and most are not tried at all: a pattern says what must be there before it is worth a
try.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from updp.reports.checks import CHECKS, DATE_SIGNS, digits
from updp.reports.lexicon import LayerMissing, read_data
from updp.reports.words import Span, Tokens

#: What leads up to a place is read this far back.
_BACK = 28
_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern of the table, compiled."""

    name: str
    category: str
    score: float
    regex: re.Pattern[str]
    shape: str  # "title" or "upper": read lines without capitals as if they had them
    before: re.Pattern[str] | None
    next: re.Pattern[str] | None
    soon: bool  # a word for a street must follow before long
    sign: bool  # it may begin with the bracket or plus sign before a number
    final: bool  # nothing else is tried at the same word or number
    values: tuple[str, ...]
    check: Callable[[re.Match[str], str], bool] | None


@dataclass(frozen=True, slots=True)
class Announcer:
    """What a word says about the number behind it."""

    category: str
    score: float
    digits: int


class _Anchored(dict[str, tuple[Pattern, ...]]):
    """The patterns of an anchor: sample of the text beside it to those that are worth a try there."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.patterns = tuple(patterns)

    def __missing__(self, sample: str) -> tuple[Pattern, ...]:
        if len(self) > _REMEMBERED:
            self.clear()
        signed = sample.endswith(_SIGNED)
        worth = [p for p in self.patterns if p.next is None or (signed and p.sign) or p.next.match(sample)]
        made = self[sample] = tuple(worth)
        return made


class Patterns:
    """All patterns and announcers of the table."""

    def __init__(self) -> None:
        try:
            import ahocorasick
        except ImportError as error:
            raise LayerMissing("patterns need pyahocorasick: pip install pyahocorasick") from error
        self._automaton = ahocorasick.Automaton()
        try:
            self._load(tomllib.loads(read_data("patterns.toml").decode()))
        except (tomllib.TOMLDecodeError, KeyError, ValueError, re.error) as error:
            raise LayerMissing("the pattern table is damaged; reinstall updp") from error

    def _load(self, table: dict[str, Any]) -> None:
        fragments = table["fragments"]
        streets = [w for name, words in fragments.items() if name.endswith("street") for w in words.split("|")]
        self._streets = frozenset([cased for w in streets for cased in (w, w.lower(), w.upper())])
        self._anywhere: list[tuple[Pattern, bool, re.Pattern[str] | None, tuple[int, ...] | None]] = []
        #: Phrase to what it calls for: the place of a pattern in ``_anywhere``, or INSTITUTION.
        self.cues: dict[str, list[int]] = {}
        numbers: list[list[Pattern]] = [[] for _ in range(_LONGEST + 1)]
        codes: list[Pattern] = []
        by_anchor: dict[str, list[Pattern]] = {}
        for row in table["pattern"]:
            source = row["regex"]
            for name, fragment in fragments.items():
                source = source.replace("{" + name + "}", fragment)
            flags = re.NOFLAG if row.get("case") else re.IGNORECASE
            regex = re.compile(source, flags)
            pattern = Pattern(
                row["name"],
                row["category"],
                row["score"],
                regex,
                row.get("shape", ""),
                re.compile(f"(?:^|(?<![A-Za-z]))(?:{row['before']})$", re.IGNORECASE) if "before" in row else None,
                re.compile(row["next"], flags | re.DOTALL) if "next" in row else None,
                row.get("soon", False),
                row.get("sign", False),
                row.get("final", False),
                tuple(g for g in ("v", "v2") if g in regex.groupindex),
                CHECKS[row["check"]] if "check" in row else None,
            )
            if row["at"] == "text":
                needs = {n.lower() for n in row.get("needs", ())}
                for phrase in {n.replace("?", letter) for n in needs for letter in ascii_lowercase}:
                    self.cues.setdefault(phrase, []).append(len(self._anywhere))
                probe = re.compile(row["probe"]) if "probe" in row else None
                within = () if row.get("within") == "stretch" else tuple(row["within"]) if "within" in row else None
                self._anywhere.append((pattern, "needs" in row, probe, within))
            elif row["at"] == "number":
                for lead in row["lead"].split():
                    for size in range(6, _LONGEST + 1) if lead == "6+" else (int(lead),):
                        numbers[size].append(pattern)
            elif row["at"] == "code":
                codes.append(pattern)
            else:
                by_anchor.setdefault(row["at"], []).append(pattern)
        self._numbers = [_Anchored(patterns) for patterns in numbers]
        self._codes = _Anchored(codes)
        self._words: dict[str, _Anchored] = {}
        for anchor, words in table["anchors"].items():
            here = _Anchored(by_anchor[anchor])
            for word in words.split():
                other = self._words.get(word)
                self._words[word] = here if other is None else _Anchored((*other.patterns, *here.patterns))
        self._fillers = frozenset(table["announcers"]["fillers"].split())
        self._numbering = frozenset(table["announcers"]["numbering"].split())
        self._announcers: dict[str, Announcer] = {}
        self._numbered: dict[str, Announcer] = {}
        for row in table["announcer"]:
            made = Announcer(row["category"], row["score"], row["digits"])
            self._announcers.update((" ".join(w.split()), made) for w in row["words"])
            self._numbered.update((w, made) for w in row["numbered"])
        self._announcing = {re.split(r"[ /'-]", w)[-1] for w in (*self._announcers, *self._numbered)}
        self._leading = self._fillers | self._announcing | {"\n"}
        self.institution = re.compile(table["institution"]["name"])
        for phrase in table["institution"]["words"]:
            self.cues.setdefault(phrase, []).append(INSTITUTION)
        for phrase, cues in self.cues.items():
            self._automaton.add_word(phrase, cues)
        self._automaton.make_automaton()
        self._unasked = [at for at, (_, needy, _, _) in enumerate(self._anywhere) if not needy]

    def called(self, lower: str) -> dict[int, list[int]]:
        """The cues that stand in a text in small letters, inside words too, each with the places where it ends."""
        out: dict[int, list[int]] = {}
        for last, cues in self._automaton.iter(lower):
            for cue in cues:
                out.setdefault(cue, []).append(last)
        return out

    def tries(self, word: str) -> bool:
        """Whether anything is tried where a word in small letters stands."""
        return word in self._words or "0" <= word[0] <= "9"

    def find(
        self,
        text: str,
        tokens: Tokens,
        shaped: tuple[str, str],
        cues: Mapping[int, list[int]],
        sites: Iterable[int],
    ) -> list[Span]:
        """Everything any pattern finds; spans of different patterns may overlap. ``shaped`` is what :func:`shapes`
        makes of the text, ``cues`` what the phrases of ``self.cues`` that stand in it call for, with their places;
        ``sites`` are the words to look at, all with :meth:`tries` among them.
        """
        out: list[Span] = []
        self._shapes = shaped
        self._hashed = "#" in text
        for at in (*self._unasked, *cues):
            if at == INSTITUTION:
                continue
            pattern, _, probe, within = self._anywhere[at]
            if probe is None or any([probe.match(text, place + 1) for place in cues[at]]):
                if within is None:
                    stretches = [(0, len(text))]
                elif within:
                    stretches = _windows(cues[at], *within)
                else:
                    stretches = _stretches(text, cues[at])
                for low, high in stretches:
                    for match in pattern.regex.finditer(text, low, high):
                        _keep(pattern, match, text, out)
        words, starts, ends = tokens.words, tokens.starts, tokens.ends
        for i in sites:
            word = words[i]
            if "0" <= word[0] <= "9":
                self._at_digits(text, tokens, i, out)
                continue
            anchored = self._words.get(word.lower())
            if anchored is None or (out and starts[i] < out[-1].end and self._inside_date(text, tokens, i, out[-1])):
                continue
            end = ends[i]
            patterns = anchored[text[end : end + 2]]
            if patterns:
                self._at_word(patterns, text, tokens, i, out)
        return out

    def _at_digits(self, text: str, tokens: Tokens, i: int, out: list[Span]) -> None:
        """A run of digits opens a number, belongs to a code that opens before it, or goes on with either."""
        words, starts, ends = tokens.words, tokens.starts, tokens.ends
        at = starts[i]
        if at == 0:
            if i + 1 < len(words) and words[i + 1] == "." and len(words[i]) == 1:
                return
            self._at_number(text, tokens, i, at, out)
            return
        previous = text[at - 1]
        if previous in " \n(":
            self._at_number(text, tokens, i, at - 1 if previous == "(" else at, out)
            return
        if previous in "./:-," and at > 1 and text[at - 2].isdigit():
            return
        first = i
        while (
            first
            and starts[first] == ends[first - 1]
            and i - first < 5
            and (words[first - 1][0].isalnum() or words[first - 1] in "-/")
        ):
            first -= 1
        while first < i and not words[first][0].isalnum():
            first += 1
        if first < i and words[first][0].isalpha():
            at = starts[first]
            if at and text[at - 1] in "@_.":
                return
            for pattern in self._codes[text[at : at + 3]]:
                match = pattern.regex.match(self._shapes[1] if pattern.shape else text, at)
                if match:
                    _keep(pattern, match, text, out)
            self._announced(text, tokens, first, at, out)
            return
        if previous.isalnum():
            return
        self._at_number(text, tokens, i, at - 1 if previous in "(+" else at, out)

    def _at_word(self, patterns: Iterable[Pattern], text: str, tokens: Tokens, i: int, out: list[Span]) -> None:
        at = tokens.starts[i]
        for pattern in patterns:
            if pattern.soon and not self._street_soon(tokens, i):
                continue
            match = pattern.regex.match(text, at)
            if (
                match
                and (pattern.before is None or pattern.before.search(text[max(0, at - _BACK) : at]))
                and _keep(pattern, match, text, out)
                and pattern.final
            ):
                return

    def _at_number(self, text: str, tokens: Tokens, i: int, at: int, out: list[Span]) -> None:
        start, end = tokens.starts[i], tokens.ends[i]
        size = min(end - start, _LONGEST)
        if out and start < out[-1].end and self._inside_date(text, tokens, i, out[-1]):
            self._announced(text, tokens, i, at, out)
            return
        sample = text[start] + text[end : end + 2]
        if self._hashed and "#" in text[max(0, start - 2) : start]:
            sample += "#"
        if at != start:
            sample += _SIGNED
        streets: bool | None = None
        for pattern in self._numbers[size][sample]:
            if pattern.soon:
                if streets is None:
                    streets = self._street_soon(tokens, i)
                if not streets:
                    continue
            read = self._shapes[0] if pattern.shape else text
            match = (pattern.regex.match(read, at) if pattern.sign else None) or pattern.regex.match(read, start)
            if match:
                begin = match.start()
                if (
                    (pattern.before is None or pattern.before.search(text[max(0, begin - _BACK) : begin]))
                    and _keep(pattern, match, text, out)
                    and pattern.final
                ):
                    return
        behind = text[end : end + 1]
        if behind.isalpha() or (behind == "-" and size > 3):
            for pattern in self._codes[""]:
                match = pattern.regex.match(self._shapes[1] if pattern.shape else text, start)
                if match:
                    _keep(pattern, match, text, out)
        self._announced(text, tokens, i, at, out)

    def _street_soon(self, tokens: Tokens, i: int) -> bool:
        return not self._streets.isdisjoint(tokens.words[i + 1 : i + _SOON])

    def _inside_date(self, text: str, tokens: Tokens, i: int, found: Span) -> bool:
        """Whether word ``i`` goes on with a date that ends there: whatever else begins at the word lies in the date."""
        return (
            found.category == "date"
            and found.start < tokens.starts[i]
            and tokens.ends[i] <= found.end
            and not _GOES_ON.match(text, found.end)
            and not self._street_soon(tokens, i)
        )

    def _announced(self, text: str, tokens: Tokens, i: int, at: int, out: list[Span]) -> None:
        """The number at word ``i``, if the words before it say what it is."""
        words, starts, ends = tokens.words, tokens.starts, tokens.ends
        j = i - 1
        if j >= 0 and text[at] in "(+" and starts[j] >= at:
            j -= 1
        if j < 0 or (words[j].lower() not in self._leading and not words[j].isupper()):
            return
        numbered = named = newline = False
        for _ in range(8):
            if j < 0:
                break
            word = words[j].lower()
            if word in self._fillers:
                numbered = numbered or word in self._numbering
                named = named or word in ("id", "#", "number")
                j -= 1
            elif word == "\n" and not newline and j and words[j - 1] in (":", "#"):
                newline = True
                j -= 1
            else:
                break
        found = None
        why = ""
        if j >= 0 and at - ends[j] < 40:
            word = words[j].lower()
            if word == "x" and j and words[j - 1].isdigit():
                return  # "512 x 512"
            found, why = self._lookup(words, j, word, numbered)
            if (
                found is None
                and words[j].isupper()
                and len(words[j]) < 5
                and starts[j] == at - 1 - len(words[j])
                and not numbered
            ):
                # "plate ABC 1234": the letters before the number belong to it.
                k = j - 1
                while k >= 0 and words[k].lower() in self._fillers and j - k < 5:
                    k -= 1
                if k >= 0:
                    found, why = self._lookup(words, k, words[k].lower(), True)
                    joined = text[starts[j] + len(words[j])] in "./_-"
                    if found is not None and (joined or found.category in _LETTERED_NUMBERS):
                        at = starts[j]
                    else:
                        found = None
        if found is None:
            if not named:
                return
            found, why = Announcer("id", 0.9, 4), "id"
        match = _VALUES.get(found.category, _VALUE).match(text, at)
        if match is None and text[at] == "(" and found.category not in ("phone", "fax"):
            match = _VALUES.get(found.category, _VALUE).match(text, at + 1)
        if match is None:
            return
        value = match.group().rstrip(" .-/")
        if digits(value) < found.digits or _UNIT.match(text, match.start() + len(value)):
            return
        if found.category not in ("phone", "fax") and _is_date(value):
            return
        out.append(Span(match.start(), match.start() + len(value), found.category, found.score, f"number after {why}"))

    def _lookup(self, words: list[str], j: int, word: str, numbered: bool) -> tuple[Announcer | None, str]:
        if word not in self._announcing:
            return None, word
        if j:
            phrase = f"{words[j - 1].lower()} {word}"
            found = self._announcers.get(phrase)
            if found:
                return found, phrase
            if j > 1 and words[j - 1] in "/-'":
                phrase = f"{words[j - 2].lower()}{words[j - 1]}{word}"
                found = self._announcers.get(phrase)
                if found:
                    return found, phrase
        found = self._announcers.get(word)
        if found is None and numbered:
            found = self._numbered.get(word)
        return found, word


#: Numbers before which letters may stand, a space between.
_LETTERED_NUMBERS = ("vehicle", "licence", "account", "address", "health_plan", "ssn", "mrn", "id")
#: A cue that stands for the names of institutions.
INSTITUTION = -1
_LONGEST = 15
#: Stands in a sample for the bracket or plus sign before a number.
_SIGNED = "\0"
_GOES_ON = re.compile(r"\w|.{0,2}\d", re.DOTALL)
#: Words behind a number among which its street must be named.
_SOON = 14
#: Digits one by one, or groups of them with the same sign between.
_GROUPS = (
    r"(?:\d ){3,11}\d(?![\dA-Za-z/]|\.\d)|"
    r"\d{1,4}(?P<sign>[ ._/-])\d{2,6}(?:(?P=sign)\d{1,6}){0,4}(?![\dA-Za-z]|/\d)"
)
_CODED = (
    r"(?:[A-Za-z]{2,3}/)?[A-Za-z]{0,5}[-/._]?\d[\dA-Za-z]{0,20}(?:[-/._]{1,2}[\dA-Za-z]{1,12}){0,5}|[A-Za-z]{1,5}\d[\dA-Za-z/-]{1,20}|"
    r"[A-Z]{2,5}(?:-[A-Z0-9]{1,8}){0,3}-\d{2,12}"
)
#: Letters and digits in groups: "U 04471902", "4HN7 R22 WK19".
_LETTERS_FIRST = (
    r"(?:[A-Z]{1,4} \d{3,10}(?: \d{1,6}){0,3}|[A-Z]{1,4} \d{1,4}(?: \d{1,6}){1,3}|"
    r"\d[A-Z][A-Z\d]{1,3}(?: [A-Z\d]{2,5}){1,3})(?![\dA-Za-z])"
)
_VALUE = re.compile(rf"(?:{_GROUPS}|{_CODED})(?![\dA-Za-z])")
_PHONE = re.compile(
    r"(?:\+\d{1,3}[\s.-]?)?\(?\d{1,5}\)?(?:(?:[.-]|\s(?:-\s)?)\(?\d{2,5}\)?){1,4}(?!\d)|\(\d{3}\)\s?\d{3}[\s.-]?\d{4}|\+?\d{3,15}(?![\d/:])"
)
_VALUES = {
    "phone": _PHONE,
    "fax": _PHONE,
    "ssn": re.compile(r"\d[\d /.-]{3,22}\d(?!\d)|[A-Z]{2}\s?\d{2}\s?\d{2}\s?\d{2}\s?[A-Z]"),
    "address": re.compile(r"[A-Za-z]{0,2}\d[\dA-Za-z]{1,5}(?:[ -]\d[\dA-Za-z]{1,3})?(?![\dA-Za-z])"),
    "vehicle": re.compile(r"[A-Z0-9]{1,4}(?:[ -][A-Z0-9]{2,4}){1,2}(?![A-Za-z0-9])|[A-Z0-9]{5,17}(?![A-Za-z0-9])"),
    **dict.fromkeys(
        ["licence", "health_plan", "id", "accession"],
        re.compile(rf"{_LETTERS_FIRST}|(?:{_GROUPS}|{_CODED})(?![\dA-Za-z])"),
    ),
    "account": re.compile(rf"{_LETTERS_FIRST}|\d{{4}}(?:[ -]\d{{2,7}}){{2,4}}(?!\d)|(?:{_CODED})(?![\dA-Za-z])"),
}
_UNIT = re.compile(
    r"\s?(?:mm|cm|mg|ml|mcg|%|years?|yrs?|yo\b|y/o|days?|weeks?|months?|hours?|hrs?\b|minutes|views?|of \d|am\b|pm\b|"
    r"a\.m|p\.m|:\d\d)",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d{2})|(?:19|20)\d{2}([/.-])\d{1,2}\2\d{1,2}|\d{1,2}/\d{1,4}")


def _is_date(value: str) -> bool:
    """Whether what follows "MRN" or the like is rather a date (of the visit, of birth) than a number."""
    if not _DATE.fullmatch(value):
        return False
    numbers = [int(n) for n in DATE_SIGNS.split(value)]
    day, month = numbers[-2:] if numbers[0] > 31 else numbers[:2]
    return (0 < min(day, month) <= 12 and max(day, month) <= 31) or "/" in value


def shapes(text: str) -> tuple[str, str]:
    """``text`` with lines that know only one case written with capitals first, and with small ones all in capitals."""
    if not text.isascii():
        return text, text
    if text.islower() or text.isupper():
        return text.title(), text.upper()
    lines = text.split("\n")
    odd = [len(line) > 7 and (line.islower() or line.isupper()) for line in lines]
    if not any(odd):
        return text, text
    titled = [line.title() if flag else line for line, flag in zip(lines, odd, strict=True)]
    upper = [line.upper() if flag else line for line, flag in zip(lines, odd, strict=True)]
    return "\n".join(titled), "\n".join(upper)


def _windows(places: list[int], before: int, behind: int) -> list[tuple[int, int]]:
    """So much before and behind each place; what overlaps is one stretch."""
    low, high = max(0, places[0] - before), places[0] + behind
    out: list[tuple[int, int]] = []
    for place in places:
        if place - before > high:
            out.append((low, high))
            low = place - before
        high = place + behind
    out.append((low, high))
    return out


def _stretches(text: str, places: list[int]) -> list[tuple[int, int]]:
    """What stands without a space around each place, or with a single one beside it."""
    out: list[tuple[int, int]] = []
    for place in places:
        if out and place < out[-1][1]:
            continue
        low = place - 1 if place and text[place - 1] == " " else place
        low = max(text.rfind(" ", 0, low), text.rfind("\n", 0, low), text.rfind("\t", 0, low)) + 1
        high = _SPACE.search(text, place + 2 if text[place + 1 : place + 2] == " " else place)
        out.append((low, high.start() if high else len(text)))
    return out


_SPACE = re.compile(r"\s")


def _keep(pattern: Pattern, match: re.Match[str], text: str, out: list[Span]) -> bool:
    """Take what a pattern has found if its check agrees."""
    if pattern.check is not None and not pattern.check(match, text):
        return False
    start, end = match.span()
    for group in pattern.values:
        if match[group] is not None:
            start, end = match.span(group)
    last = text[end - 1]
    while end > start and last in " \t\n,;":
        end -= 1
        last = text[end - 1]
    if last == "." and (pattern.category != "time" or text[end - 3 : end - 2] != "."):
        end -= 1  # the full stop of the sentence; "a.m." keeps its own
    if pattern.category == "url":
        end = start + len(text[start:end].rstrip(").,;:'\""))
    if end > start:
        out.append(Span(start, end, pattern.category, pattern.score, pattern.name))
    return True
