"""The pattern layer: numbers, dates, addresses and names with the words that announce them (``data/patterns.toml``).

A pattern is data; what a regular expression cannot say (a date that exists, a street that is no CT scan) is one of the
checks below. Every pattern is linear in the length of the text, and most are not tried at all: a pattern says what must
be there before it is worth a try.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from updp.reports.lexicon import LayerMissing, names, read_data, vocabulary, whitelist, word_class

_NEEDS: dict[str, re.Pattern[str]] = {
    "hole": re.compile(r"XXX|___|\[\*\*|\*\*\*\*|[\[<]\s?(?:red|rem|del|dei|ano)", re.IGNORECASE),
    "bracket": re.compile(r"\["),
    "digit1": re.compile(r"\d[A-Za-z]{0,2},?\s{0,2}-?[A-Za-z]|[A-Za-z#]\s?\d"),
    "digit": re.compile(r"\d[\d/.:, ()-]{0,3}\d|[A-Za-z:#]\s?\d\S*[\dA-Za-z]"),
    "digit6": re.compile(r"\d{6}"),
    "month": re.compile(r"(?<![a-z])(?:jan|feb|mar(?:ch)?\b|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE),
    "weekday": re.compile(r"(?<![a-z])(?:mon|tue|wed|thu|fri|sat|sun)", re.IGNORECASE),
    "halfday": re.compile(r"\d\s?[ap]\.?m", re.IGNORECASE),
    "at": re.compile(r"@"),
    "dot": re.compile(r"[A-Za-z0-9-]\.[A-Za-z]{2}|://"),
    "dotted": re.compile(r"[a-z][._][a-z]{3}"),
    "slash": re.compile(r"[A-Z][/:][A-Za-z]"),
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern of the table, compiled."""

    name: str
    category: str
    score: float
    needs: str
    regex: re.Pattern[str]
    check: Callable[[re.Match[str], str], bool] | None


@dataclass(frozen=True, slots=True)
class Found:
    """What a layer found, in the plain view's places."""

    start: int
    end: int
    category: str
    score: float
    why: str


class Patterns:
    """All patterns of the table."""

    def __init__(self) -> None:
        try:
            table = tomllib.loads(read_data("patterns.toml").decode())
            fragments = table["fragments"]
            self.needs = dict(_NEEDS)
            self.patterns = []
            for row in table["pattern"]:
                source = row["regex"]
                for name, fragment in fragments.items():
                    source = source.replace("{" + name + "}", fragment)
                needs = row["needs"]
                if needs.startswith("letter:") and needs not in self.needs:
                    self.needs[needs] = re.compile(
                        needs.removeprefix("letter:"), 0 if row.get("case") else re.IGNORECASE
                    )
                self.patterns.append(
                    Pattern(
                        row["name"],
                        row["category"],
                        row["score"],
                        needs,
                        re.compile(source, 0 if row.get("case") else re.IGNORECASE),
                        _CHECKS[row["check"]] if "check" in row else None,
                    )
                )
                if needs not in self.needs:
                    raise KeyError(needs)
        except (tomllib.TOMLDecodeError, KeyError, re.error) as error:
            raise LayerMissing("the pattern table is damaged; reinstall updp") from error

    def find(self, text: str) -> Iterator[Found]:
        """Everything any pattern finds in ``text``; spans of different patterns may overlap."""
        met: dict[str, bool] = {}
        for pattern in self.patterns:
            ready = met.get(pattern.needs)
            if ready is None:
                ready = met[pattern.needs] = self.needs[pattern.needs].search(text) is not None
            if not ready:
                continue
            for match in pattern.regex.finditer(text):
                if pattern.check is not None and not pattern.check(match, text):
                    continue
                start, end = _span(match)
                while end > start and text[end - 1] in " \t\n,;":
                    end -= 1
                if end > start:
                    yield Found(start, end, pattern.category, pattern.score, pattern.name)


def _span(match: re.Match[str]) -> tuple[int, int]:
    groups = match.re.groupindex
    for name in ("v", "v2"):
        if name in groups and match.span(name) != (-1, -1):
            return match.span(name)
    return match.span()


# -- checks ------------------------------------------------------------------------------------------------------------


def _date(match: re.Match[str], text: str) -> bool:
    parts = re.split(r"[/.-]", match.group())
    numbers = [int(p) for p in parts]
    if len(parts[0]) == 4:
        return True
    if match.group("a") == "." and len(parts[2]) == 2:
        # 1.2.15 is rather a paragraph than a date unless it can be one.
        return 1 <= numbers[0] <= 31 and 1 <= numbers[1] <= 12 and numbers[0] + numbers[1] > 3
    # 13/13/2019 is a date somebody mistyped; 120-80-60 is not one.
    return numbers[0] <= 31 and numbers[1] <= 31 and numbers[0] > 0


def _month(match: re.Match[str], text: str) -> bool:
    found = match.group()
    if re.match(r"may\s\d{1,2}$", found) and re.match(
        r"\s?(?:mm|cm|mg|ml|to|or|more|hours|days|weeks)", text[match.end() :]
    ):
        return False
    # "dec 5", "mar 3" in running small letters are rather slips than dates unless something more follows.
    return not re.match(r"(?:\d{1,2}\s?)?(?:mar|dec|sep|may)$", found)


def _month_alone(match: re.Match[str], text: str) -> bool:
    word = match.group("v") or match.group("v2")
    return not (
        word == word.lower()
        and word in ("may", "march", "mar", "dec", "sep", "jan", "jun", "aug", "august", "april", "june")
    )


def _slash_date(match: re.Match[str], text: str) -> bool:
    before = text[max(0, match.start() - 12) : match.start()].lower()
    first, second = match.group("v").split("/")[:2]
    rated = re.search(r"(?:grade|pain|rated?|score|strength|bp|power|stage)\W*$", before)
    word = match.group().split()[0].lower().rstrip(":")
    if word in ("in", "of", "to", "and", "by") and int(second) <= 10 and len(second) < 2:
        return False  # "3 of 3/5", "to 4/5"
    return not rated and int(first) <= 12


def _time(match: re.Match[str], text: str) -> bool:
    before = text[max(0, match.start() - 22) : match.start()].lower()
    return not re.search(
        r"(?:titer|titre|dilution|ratio|diluted|i:e|epinephrine|concentration)s?\W*(?:of|is|at|was)?\W*$", before
    )


def _url(match: re.Match[str], text: str) -> bool:
    found = match.group().lower()
    return "://" in found or found.startswith("www.") or not re.fullmatch(r"(?:e\.g|i\.e|p\.o|b\.i\.d|q\.d)\w*", found)


def _ip(match: re.Match[str], text: str) -> bool:
    found = match.group()
    if ":" in found and found.count(":") < 7 and "::" not in found and not re.search("[A-Fa-f]", found):
        return False  # a time with seconds, or a ratio
    return "." in found or found.count(":") >= 3 or "-" in found


def _phone(match: re.Match[str], text: str) -> bool:
    digits = re.sub(r"\D", "", match.group())
    if not 7 <= len(digits) <= 17:
        return False
    return not re.match(r"\s?(?:mg|ml|mcg|units|mm|cm|cc)\b", text[match.end() : match.end() + 7], re.IGNORECASE)


def _phone_cue(match: re.Match[str], text: str) -> bool:
    value = match.group("v")
    digits = re.sub(r"\D", "", value)
    cue = match.group().lower()
    if re.match(r"(?:call|ring|contact|page|x\b|cell|mobile)", cue) and len(digits) < (
        4 if re.match(r"page|x", cue) else 7
    ):
        return False
    if cue.startswith("x") and (
        match.start() == 0
        or not re.search(r"\d\s?,?\s?$|ext|phone|tel", text[max(0, match.start() - 8) : match.start()].lower())
    ):
        return len(digits) >= 4 and not re.match(r"\s?(?:mg|ml|days|mm|cm)", text[match.end() : match.end() + 6])
    # A date or a time behind "called" is one of those.
    return len(digits) >= 3 and not re.match(r"\d{1,2}[-.]\d{1,2}[-.]\d{2,4}$", value)


def _identifier(match: re.Match[str], text: str) -> bool:
    value = match.group("v")
    digits = sum(c.isdigit() for c in value)
    if re.match(
        r"\s?(?:mm|cm|mg|ml|mcg|%|years?|yrs?|yo\b|y/o|days?|weeks?|months?|hours?|views?|of \d)",
        text[match.end() : match.end() + 8],
        re.IGNORECASE,
    ):
        return False
    if re.fullmatch(r"[\d]{1,2}", value) or (
        re.fullmatch(r"(?:mm|cm|mg|x)?\d+(?:mm|cm|mg|ml|st|nd|rd|th)?", value.lower()) and digits < 3
    ):
        return False
    return (digits >= 2 and " " not in value.strip()) or digits >= 4


def _identifier_strict(match: re.Match[str], text: str) -> bool:
    value = match.group("v")
    cue = match.group()[: match.start("v") - match.start()]
    digits = sum(c.isdigit() for c in value)
    if not _identifier(match, text) or re.fullmatch(r"\d{1,3}(?:[.-]\d{1,2})?", value):
        return False
    return digits >= 5 or (bool(re.search(r"[:#=]|number|no\b", cue)) and digits >= 3)


def _username(match: re.Match[str], text: str) -> bool:
    value = match.group("v").lower()
    return value not in vocabulary() and not value.isdigit()


def _typist(match: re.Match[str], text: str) -> bool:
    head, tail = re.split(r"[/:]", match.group("v"))[:2]
    white = _white()
    if ":" in match.group("v") and not (tail.islower() and len(tail) <= 3):
        return False
    return (
        not (head.lower() in white and tail.lower() in white)
        and (tail.islower() or len(tail) <= 3)
        and head.lower() not in _NO_TYPIST
    )


_NO_TYPIST = word_class("no_typist")


def _code(match: re.Match[str], text: str) -> bool:
    value = match.group()
    if re.fullmatch(r"[TLCS]\d{1,2}-[TLCS]?\d{1,2}|\d+(?:mg|mm|cm|ml|g|kg|lb|u|mcg|iu|k)", value, re.IGNORECASE):
        return False
    return sum(c.isdigit() for c in value) >= 4 or "/" in value


def _groups(match: re.Match[str], text: str) -> bool:
    digits = re.sub(r"\D", "", match.group())
    return len(digits) >= 6 and not re.fullmatch(r"(?:19|20)\d\d-(?:19|20)\d\d", match.group())


def _word_number(match: re.Match[str], text: str) -> bool:
    word = re.match(r"[a-z]+", match.group())
    return word is not None and word.group() not in vocabulary() and word.group() not in _white()


def _dotted(match: re.Match[str], text: str) -> bool:
    """Two words with a full stop and no space between are a slip; two names are a log-in name."""
    known, words = names(), vocabulary()
    one, two = match.group("one"), match.group("two")
    if one in words and two in words:
        return False
    before = text[max(0, match.start() - 14) : match.start()].lower()
    cue = re.search(r"(?:by|user|login|username|as|id)\W{0,3}$", before)
    return bool(cue) or (max(known.get(two, "00U")[:2]) >= "2" and two not in words and one not in words and len(one) > 2)


def _rare_street(match: re.Match[str], text: str) -> bool:
    words = re.findall(r"[A-Za-z]+", match.group())[:-1]
    known, places_ = names(), vocabulary()
    return any(places_.get(w.lower(), "0") < "2" or max(known.get(w.lower(), "00U")[:2]) == "3" for w in words[:2])


def _address(match: re.Match[str], text: str) -> bool:
    words = re.findall(r"[A-Za-z]+", match.group())
    tail = text[match.end() : match.end() + 12]
    if any(w.lower() in _white_anatomy() for w in words):
        return False
    short = words[-1].lower() if words else ""
    if short in (
        "ct",
        "dr",
        "st",
        "pl",
        "way",
        "circle",
        "run",
        "park",
        "row",
        "walk",
        "close",
        "place",
        "drive",
        "square",
        "route",
    ):
        body = words[:-1]
        if not body or all(vocabulary().get(w.lower(), "0") == "3" for w in body):
            return False
        if short == "dr" and re.match(r"\.?\s[A-Z]", tail):
            return False  # "2 pm Dr. Jones"
    first = re.match(r"\d+", match.group())
    if re.match(r"\d{1,2}\s(?:am|pm|of|mg|ml|mm|cm|days?|weeks?|hours?|year|views?)\b", match.group(), re.IGNORECASE):
        return False
    return first is not None


def _street(match: re.Match[str], text: str) -> bool:
    words = match.group("v").split()
    plain_kind = words[-1] in ("Street", "Avenue", "Ave", "Road", "Rd", "Boulevard", "Blvd", "Lane", "Highway", "Hwy", "Parkway")
    # Of other kinds of street only those named after somebody or with a word nobody knows: "on Left Port" is none.
    return plain_kind or any(vocabulary().get(w.lower(), "0") < "2" or max(names().get(w.lower(), "00U")[:2]) == "3" for w in words[:-1])


def _state_zip(match: re.Match[str], text: str) -> bool:
    return re.split(r",?\s+\d", match.group("v"))[0].lower() in STATES


def _unit(match: re.Match[str], text: str) -> bool:
    found = match.group("v").lower()
    if re.fullmatch(r"(?:floor|room|bed|wing|bay|ward|rm|pod|building|tower|pavilion|bldg|cubicle)\s[a-z]", found):
        return (
            match.group("v").split()[-1].isupper() and text[match.start() : match.end()].split()[-1] != "A"
        ) or "ward" in found
    return bool(re.search(r"\d", found))


def _floor(match: re.Match[str], text: str) -> bool:
    tail = text[match.end() : match.end() + 14]
    # "123 West Street" is an address, and found as one.
    return not re.match(r"\s[A-Z0-9][\w']*\s(?:St|Ave|Rd|Bl|Dr|Ln|La|Ro)|\s(?:St|Ave|Rd|Blvd|Street|Road)", tail)


_CHECKS: dict[str, Callable[[re.Match[str], str], bool]] = {
    "date": _date, "month": _month, "month_alone": _month_alone, "slash_date": _slash_date, "time": _time, "url": _url, "ip": _ip,
    "phone": _phone, "phone_cue": _phone_cue, "identifier": _identifier, "identifier_strict": _identifier_strict, "username": _username,
    "typist": _typist, "code": _code, "groups": _groups, "word_number": _word_number, "dotted": _dotted, "rare_street": _rare_street, "address": _address, "street": _street, "state_zip": _state_zip, "unit": _unit, "floor": _floor,
}  # fmt: skip

STATES = word_class("states")


@lru_cache(maxsize=1)
def _white() -> frozenset[str]:
    return frozenset(t for terms in whitelist().values() for t in terms)


@lru_cache(maxsize=1)
def _white_anatomy() -> frozenset[str]:
    groups = whitelist()
    return frozenset(
        t
        for g in ("anatomy", "modality", "view", "pathology", "laterality", "measurement")
        for t in groups[g]
        if t not in _AMBIGUOUS
    )


_AMBIGUOUS = word_class("ambiguous_terms")
