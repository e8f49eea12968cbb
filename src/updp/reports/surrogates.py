"""Consistent stand-ins for identifiers, each a pure function of the hospital's key.

The same number or place gets the same surrogate in every report, header and film of a corpus, without a table that
would have to be kept, and so does the same person of the staff. Names of a patient and the family are drawn for that
patient alone, so that a name known of one patient says nothing of another who bears it. "Mr Smith", "John Smith",
"Smith, John" and "SMITH^JOHN" are replaced word by word, each word by a name drawn with the key, and initials follow
the names they abbreviate. Names come from a public pool of uncommon names, numbers, addresses and hosts from ranges set
aside for fiction, so that the receiver of a release knows a surrogate from a leak (``updp.release.residual``). Dates
move by the patient's own shift and keep their form.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
import unicodedata
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from updp.reports.categories import categories
from updp.reports.lexicon import names, read_data, surrogate_names, word_class

if TYPE_CHECKING:
    from updp.core.keys import Key

#: Identifiers made here begin with these letters; no issuer is known to.
ID_PREFIX = "ZZ"

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
#: Words of a name that say nothing about who it is, and stay.
_NOT_A_NAME = word_class("not_a_name")
_APART = re.compile(r"(?:[A-Z]\s{1,4}){3,}[A-Z]")
#: "M.D.", "Ph.D."
_DOTTED = re.compile(r"(?:[A-Za-z]{1,5}\.){1,4}[A-Za-z]{1,2}\b\.?")
#: Particles are swallowed by the surname they lead.
_PARTICLES = word_class("particles")
#: Letters under which the pool has names enough.
_LETTERS = "ABCDEGHJKLMNPRSTVW"
_TAG = re.compile(r"\[[A-Z]+(?:-[A-Z]+)*\]")


def tag(category: str) -> str:
    """The typed tag that stands for a category: ``[NAME]``."""
    return f"[{categories()[category].tag}]"


# -- people --------------------------------------------------------------------------------------------------------


def person(key: Key, full_name: str, sex: str | None = None, own: Container[str] | None = None, whose: str = "") -> str:
    """A name in place of ``full_name``, in the same form (order, commas, carets, capitals, titles, credentials).

    ``sex`` ("F" or "M") is the person's, and given names follow it; with ``own`` (see :func:`name_words`) only those do
    that are among these words. Otherwise a given name keeps the sex it is listed with. ``whose`` is the patient in
    whose papers the name stands; names of staff belong to nobody and are the same for all patients.
    """
    if _APART.fullmatch(full_name):  # "J O H N  S M I T H"
        full_name = " ".join(part.replace(" ", "") for part in re.split(r"\s{2,}", full_name))
    out: list[str] = []
    end = 0
    matches = list(_WORD.finditer(full_name))
    dotted = [m.span() for m in _DOTTED.finditer(full_name) if _fold(m.group()).replace(".", "") in _NOT_A_NAME]
    for i, match in enumerate(matches):
        word = match.group()
        plain = _fold(word)
        gap = full_name[end : match.start()]
        end = match.end()
        if plain.replace("'", "") in _NOT_A_NAME or any(a <= match.start() < b for a, b in dotted):
            out += [gap, word]
            continue
        follows = matches[i + 1] if i + 1 < len(matches) else None
        if plain in _PARTICLES and follows and full_name[end : follows.start()].strip(" -'") == "":
            # "van der Berg" and "Berg" are the same family: drop the particle and the gap behind it.
            out.append(gap)
            end = follows.start()
            continue
        if word.isupper() and 2 <= len(word) <= 3 and plain not in names():
            out += [gap, "".join(_initial(key, c, whose) for c in word)]
        else:
            of = sex if own is None or _bare(plain) in own else None
            out += [gap, _like(word, _one_name(key, plain, of, whose))]
    out.append(full_name[end:])
    return "".join(out)


def name_words(names: Iterable[str]) -> frozenset[str]:
    """The words of names, however they are written, for ``own`` of :func:`person`."""
    return frozenset(_bare(_fold(match.group())) for name in names for match in _WORD.finditer(name))


def _bare(plain: str) -> str:
    return plain.removesuffix("'s")


def initials(key: Key, letters: str, whose: str = "") -> str:
    """Initials in place of initials: the letters the person's surrogate begins with."""
    return "".join(_like(c, _initial(key, c, whose)) if c.isalpha() else c for c in letters)


def _one_name(key: Key, plain: str, sex: str | None, whose: str) -> str:
    if len(plain) == 1:
        return _initial(key, plain, whose)
    if plain.endswith("'s"):
        return _one_name(key, plain[:-2], sex, whose) + "'s"
    code = names().get(plain, "01U")
    given, surname, of = int(code[0]), int(code[1]), sex if sex in ("F", "M") else code[2]
    if given > surname or (given == surname and given > 1):
        kind = of if of in "FM" else "FM"[key.digest("surrogate sex", *_drawn_for(plain, whose))[0] & 1]
    else:
        kind = "surname"
    pool = _pool(kind)[_initial(key, plain[0], whose)]
    draw = int.from_bytes(key.digest("surrogate name", *_drawn_for(plain, whose))[:8], "big")
    chosen = pool[draw % len(pool)]
    return chosen if chosen.lower() != plain else pool[(draw + 1) % len(pool)]


def _initial(key: Key, letter: str, whose: str) -> str:
    letter = _fold(letter)[:1]
    return _LETTERS[key.digest("surrogate initial", *_drawn_for(letter, whose))[0] % len(_LETTERS)]


def _drawn_for(plain: str, whose: str) -> tuple[str, ...]:
    return (plain, whose) if whose else (plain,)


@lru_cache(maxsize=4)
def _pool(kind: str) -> Mapping[str, list[str]]:
    return {c: [n for n in surrogate_names()[kind] if n[0] == c] for c in _LETTERS}


# -- dates -----------------------------------------------------------------------------------------------------------

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_PIECE = re.compile(
    r"(?P<number>\d+)(?P<ordinal>(?:st|nd|rd|th)\b)?|(?P<word>[^\W\d_]+)|(?P<gap>[\W_]+)", re.IGNORECASE
)
#: Roughly when feasts fall; they move as dates do, and nobody needs the day.
_FEASTS: Mapping[str, tuple[int, int]] = {
    "christmas": (12, 25),
    "thanksgiving": (11, 24),
    "halloween": (10, 31),
    "easter": (4, 10),
    "new": (1, 1),
    "labor": (9, 4),
    "memorial": (5, 28),
    "independence": (7, 4),
    "valentine": (2, 14),
    "mother": (5, 10),
    "father": (6, 18),
    "patrick": (3, 17),
    "hanukkah": (12, 12),
    "passover": (4, 10),
    "diwali": (11, 3),
    "boxing": (12, 26),
    "veterans": (11, 11),
    "presidents": (2, 18),
    "martin": (1, 18),
    "columbus": (10, 11),
}


def date(key: Key, patient_id: str, when: dt.date | str, *, year: int | None = None) -> Any:
    """``when`` moved by the patient's shift: a ``date`` gives a ``date``, text gives text of the same form.

    Text may lack the day, the month or the year; ``year`` says which one is meant then. Text that is no date
    (13/13/2019) gives the tag, because nothing of it can be kept safely.
    """
    shift = key.shift(patient_id)
    if isinstance(when, dt.date):
        return when + shift
    return _shift_text(when, shift, year or 2019)


def date_year(text: str) -> int | None:
    """The four-digit year a date text names, if it does."""
    found = re.search(r"(?<!\d)(?:19|20)\d\d(?!\d)", text)
    return int(found.group()) if found else None


def _shift_text(text: str, shift: dt.timedelta, year: int) -> str:
    pieces = [(m.lastgroup, m) for m in _PIECE.finditer(text)]
    numbers: list[int] = []  # places of numbers in `pieces`
    month_at = -1
    feast: tuple[int, int] | None = None
    weekday = False
    for i, (_, match) in enumerate(pieces):
        if match["number"]:
            numbers.append(i)
        elif match["word"]:
            word = match["word"].lower()
            found = _month(word)
            if found and month_at < 0 and not (found == 5 and word != "may"):
                month_at = i
            feast = feast or _FEASTS.get(word.removesuffix("s"), _FEASTS.get(word))
            weekday = weekday or word[:3] in _WEEKDAYS
    roles = _roles([pieces[i][1]["number"] for i in numbers], month_at >= 0, text)
    if roles is None:
        return tag("date")
    values = {role: int(pieces[i][1]["number"]) for i, role in zip(numbers, roles, strict=True) if role}
    if month_at >= 0:
        values["m"] = _month(pieces[month_at][1]["word"].lower())
    if not values:
        if feast:
            moved = dt.date(year, *feast) + shift
            return f"{_MONTHS[moved.month - 1].capitalize()} {moved.day}"
        # Whole weeks keep a Monday a Monday, and what is told from another date has moved with it.
        return text if weekday or _RELATIVE.fullmatch(text.strip()) else tag("date")
    if feast and "m" not in values:
        moved = dt.date(_century(values.get("y", year)), *feast) + shift
        return f"{_MONTHS[moved.month - 1].capitalize()} {moved.year}"
    try:
        start = dt.date(
            _century(values.get("y", year)), values.get("m", 7), values.get("d", 15 if "m" in values else 1)
        )
        moved = start + shift
    except (ValueError, OverflowError):
        return tag("date")
    by_place = dict(zip(numbers, roles, strict=True))
    out = []
    for i, (_, match) in enumerate(pieces):
        if i == month_at:
            out.append(_like_month(match["word"], moved.month))
        elif by_place.get(i):
            out.append(_like_number(match["number"], by_place[i] or "", moved, month_at < 0))
            if match["ordinal"]:
                out.append(_like(match["ordinal"], _ordinal(moved.day)))
        else:
            out.append(match.group())
    return "".join(out)


_RELATIVE = re.compile(
    r"(?:last|next|previous|week before|month before) (?:week|weekend|month|year|last)", re.IGNORECASE
)
_WEEKDAYS = frozenset(["mon", "tue", "wed", "thu", "fri", "sat", "sun"])


def _month(word: str) -> int:
    for i, name in enumerate(_MONTHS):
        if word == name or (len(word) >= 3 and name.startswith(word)) or word == "sept" == name[:4]:
            return i + 1
    return 0


def _roles(numbers: list[str], has_month: bool, text: str) -> list[str | None] | None:
    """Which number is year, month, day; ``None`` for a number that is neither (a time behind the date) or no date."""
    sizes = [len(n) for n in numbers]
    if has_month:
        roles: list[str | None] = [None] * len(numbers)
        for i, n in enumerate(numbers):
            if len(n) == 4 and "y" not in roles:
                roles[i] = "y"
            elif len(n) <= 2 and "d" not in roles and 1 <= int(n) <= 31:
                roles[i] = "d"
            elif len(n) == 2 and "d" in roles and "y" not in roles and ":" not in text:
                roles[i] = "y"
        return roles
    if not numbers:
        return []
    rest: list[str | None] = [None] * (len(numbers) - 3)
    if sizes[0] == 8 and len(numbers) <= 2:
        return None  # compact dates are split by their caller
    if len(numbers) >= 3 and sizes[0] == 4 and max(sizes[1:3]) <= 2:
        if int(numbers[1]) > 12 >= int(numbers[2]):
            return ["y", "d", "m", *rest]
        return ["y", "m", "d", *rest]
    if len(numbers) >= 3 and max(sizes[:2]) <= 2 and sizes[2] in (2, 4):
        first, second = int(numbers[0]), int(numbers[1])
        if first > 12 and second > 12:
            return None
        # With full stops, and wherever the first number can be no month, the day comes first.
        day_first = first > 12 or ("." in text and second <= 12)
        return ["d", "m", "y", *rest] if day_first else ["m", "d", "y", *rest]
    if len(numbers) == 2:
        if sizes[0] == 4:
            return ["y", "m"] if sizes[1] <= 2 and 1 <= int(numbers[1]) <= 12 else ["y", None]
        if sizes[1] == 4 or int(numbers[1]) > 31:
            return ["m", "y"]
        if int(numbers[0]) > 12:
            return ["d", "m"]
        return ["m", "d"]
    if len(numbers) == 1:
        return ["y"] if sizes[0] == 4 or (sizes[0] == 2 and "'" in text) else ["d"] if sizes[0] <= 2 else None
    return None


def _century(year: int) -> int:
    return year if year > 99 else 2000 + year if year < 40 else 1900 + year


def _like_number(old: str, role: str, moved: dt.date, numeric: bool) -> str:
    if role == "y":
        return f"{moved.year % 100:02d}" if len(old) == 2 else f"{moved.year:04d}"
    value = moved.month if role == "m" else moved.day
    # Two digits stay two in numeric dates; beside a month's name only a leading zero asks for one.
    return f"{value:02d}" if len(old) == 2 and (numeric or old[0] == "0") else str(value)


def _like_month(old: str, month: int) -> str:
    name = _MONTHS[month - 1]
    if old.lower() not in _MONTHS or (len(old) == 3 and old.lower() != "may"):
        name = name[:3]
    return _like(old, name.capitalize())


def _ordinal(day: int) -> str:
    return "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def compact_date(key: Key, patient_id: str, text: str) -> str:
    """A DICOM-style date (YYYYMMDD), moved."""
    try:
        when = dt.date(int(text[:4]), int(text[4:6]), int(text[6:8]))
    except ValueError:
        return tag("date")
    return f"{when + key.shift(patient_id):%Y%m%d}" + text[8:]


_STAMP = re.compile(r"(?P<date>\d.*?)(?P<gap>T|\s+)(?P<clock>\d{1,2}:\d{2}(?::\d{2})?)(?P<rest>.*)", re.DOTALL)
_COMPACT = re.compile(
    r"(?P<date>(?:19|20)\d{6})(?P<gap>T?)(?P<clock>\d{2,6})?(?P<rest>(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)"
)


def _date_and_time(key: Key, patient_id: str, text: str, year: int | None) -> str:
    """A date moved, and the time behind it too: the seconds of a stamp would find it again."""
    if (found := _COMPACT.fullmatch(text)) and found["clock"]:
        digits = found["clock"].ljust(4, "0")
        moved = time(key, patient_id, f"{digits[:2]}:{digits[2:4]}").replace(":", "")
        clock = (moved + _digits(key, "seconds", text, 1).zfill(2))[: len(found["clock"])] if moved.isdigit() else ""
        return compact_date(key, patient_id, found["date"]) + found["gap"] + clock
    if found:
        return compact_date(key, patient_id, text)
    if found := _STAMP.fullmatch(text):
        clock = time(key, patient_id, found["clock"][:5].rstrip(":"))
        seconds = f":{int(_digits(key, 'seconds', text, 4)) % 60:02d}" if found["clock"].count(":") == 2 else ""
        rest = re.sub(r"^\.\d+", "", found["rest"])
        return f"{date(key, patient_id, found['date'], year=year)}{found['gap']}{clock}{seconds}{rest}"
    return str(date(key, patient_id, text, year=year))


def time(key: Key, patient_id: str, text: str) -> str:
    """A time of day, moved round the clock by an amount of the patient's own; the form stays."""
    found = re.search(r"(\d{1,2})([:.h]?)([0-5]\d)?", text)
    if not found:
        return tag("time")
    digits, colon = found.group(1), found.group(2)
    hour, minute = int(digits), int(found.group(3) or 0)
    half = re.search(r"([ap])\.?\s?m\b", text, re.IGNORECASE)
    if hour > 24 or (half and hour > 12):
        return tag("time")
    if half:
        hour = hour % 12 + (12 if half.group(1).lower() == "p" else 0)
    offset = 1 + int.from_bytes(key.digest("clock", patient_id)[:4], "big") % 1439
    total = (hour * 60 + minute + offset) % 1440
    hour, minute = divmod(total, 60)
    tail = text[found.end() :]
    if half:
        letter = _like(half.group(1), "P" if hour >= 12 else "A")
        at = half.start(1) - found.end()
        tail = tail[:at] + letter + tail[at + 1 :]
        hour = hour % 12 or 12
    shown = f"{hour:02d}" if digits.startswith("0") or (len(digits) == 2 and not half) else str(hour)
    if found.group(3) is None:
        return text[: found.start()] + shown + colon + tail
    return text[: found.start()] + shown + colon + f"{minute:02d}" + tail


# -- numbers, addresses, places --------------------------------------------------------------------------------------


def identifier(key: Key, value: str) -> str:
    """A number in place of a number: recognisable by its prefix, the same for the same characters and digits."""
    core = re.sub(r"[\W_]", "", value).upper()
    length = min(max(len(core) - len(ID_PREFIX), 6), 14)
    return ID_PREFIX + _digits(key, "identifier", core, length)


def _digits(key: Key, use: str, value: str, length: int) -> str:
    return str(int.from_bytes(key.digest("surrogate " + use, value)[:16], "big")).zfill(40)[-length:]


def _pick(key: Key, use: str, value: str, pool: list[str]) -> str:
    return pool[int.from_bytes(key.digest("surrogate " + use, value)[:8], "big") % len(pool)]


@lru_cache(maxsize=1)
def _invented() -> dict[str, list[str]]:
    return tomllib.loads(read_data("surrogate_places.toml").decode())


def location(key: Key, text: str) -> str:
    """An invented town."""
    made = _invented()
    plain = _fold(text)
    return _like(text, _pick(key, "root", plain, made["roots"]) + _pick(key, "end", plain, made["town_endings"]))


_KIND = re.compile(
    r"\b(?:hospitals?|hosp\.?|medical (?:center|centre|group)|health(?:care)? (?:center|centre|system|services)|"
    r"clinics?|infirmary|hospice|nursing home|care home|institute|university|college|school|imaging(?: center)?|"
    r"radiology(?: associates)?|cancer center|rehab(?:ilitation)?(?: center)?|pharmacy|laborator(?:y|ies)|associates|"
    r"center|centre)\b.*$",
    re.IGNORECASE | re.DOTALL,
)


def institution(key: Key, text: str) -> str:
    """An invented institution of the same kind: what is generic in the name ("Medical Center") stays."""
    kind = _KIND.search(text)
    tail = " " + kind.group() if kind else ""
    head = text[: kind.start()] if kind else text
    return location(key, head.strip() or text) + tail


def address(key: Key, text: str) -> str:
    """An invented street, or a postal code that no post office has."""
    made = _invented()
    plain = _fold(re.sub(r"\W+", " ", text)).strip()
    if re.fullmatch(r"\s*\d{5}(?:-\d{4})?\s*", text):
        return "000" + _digits(key, "zip", plain, 2)
    if not re.search(r"[^\W\d_]{3}", text):
        return "ZZ" + _digits(key, "postcode", plain, 2)
    street = _pick(key, "street", plain, made["streets"]) + " " + _pick(key, "way", plain, made["street_endings"])
    return f"{1 + int(_digits(key, 'house', plain, 2))} " + _like(re.sub(r"[\d\W]+", "", text) or "Aa", street)


def phone(key: Key, text: str) -> str:
    """A number from the range set aside for fiction (555-0100 to 555-0199), in the form of the old one."""
    digits = re.sub(r"\D", "", text)
    number = "555" + "01" + _digits(key, "phone", digits[-10:], 2)
    if len(digits) >= 10:
        number = digits[:-10] + "555" + number
    elif len(digits) < 7:
        number = _digits(key, "phone", digits, len(digits))
    else:
        number = "0" * (len(digits) - 7) + number
    stream = iter(number)
    return re.sub(r"\d", lambda _: next(stream), text)


def email(key: Key, text: str) -> str:
    """A mailbox at a host set aside for examples (RFC 2606)."""
    surname = _pick(key, "mail", text.lower(), list(surrogate_names()["surname"])).lower()
    return f"{surname}{_digits(key, 'mail', text.lower(), 2)}@example.org"


def url(key: Key, text: str) -> str:
    """An address at a host set aside for examples (RFC 2606)."""
    return "https://example.org/" + _digits(key, "url", text.lower(), 6)


def ip(key: Key, text: str) -> str:
    """An address from the blocks set aside for documentation (RFC 5737, 3849, 7042)."""
    host = int(_digits(key, "ip", text.lower(), 3)) % 254 + 1
    if "." in text:
        return f"192.0.2.{host}"
    return (
        f"00:00:5E:00:53:{host:02X}"
        if re.fullmatch(r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}", text)
        else f"2001:db8::{host:x}"
    )


def unit(key: Key, text: str) -> str:
    """A ward, room or bed with other digits."""
    digits = iter(_digits(key, "unit", _fold(text), 12))
    if not re.search(r"\d", text):
        return tag("unit")
    return re.sub(r"\d", lambda _: str(int(next(digits, "3")) % 9 + 1), text)


def surrogate(
    key: Key,
    category: str,
    text: str,
    *,
    patient_id: str,
    sex: str | None = None,
    own: Container[str] = frozenset(),
    year: int | None = None,
) -> str:
    """What stands for ``text`` of ``category`` in surrogate mode; the tag where nothing sensible can stand for it.

    ``sex`` is the patient's and ``own`` the words of the patient's name: nobody else's name follows that sex.
    """
    if category == "name":
        return person(key, text, sex, own, patient_id)
    if category == "staff":
        return person(key, text)
    if category == "date":
        return _date_and_time(key, patient_id, text, year)
    if category == "time":
        return time(key, patient_id, text)
    if category == "age":
        return "90+"
    if category == "ssn":
        return "000-" + "{}-{}".format(*(lambda d: (d[:2], d[2:]))(_digits(key, "ssn", re.sub(r"\D", "", text), 6)))
    if category == "username":
        return ID_PREFIX.lower() + _digits(key, "username", text.lower(), 4)
    made = {
        "phone": phone,
        "fax": phone,
        "email": email,
        "url": url,
        "ip": ip,
        "address": address,
        "location": location,
        "institution": institution,
        "unit": unit,
    }.get(category)
    if made:
        return made(key, text)
    if category in ("mrn", "accession", "health_plan", "account", "licence", "device", "vehicle", "id"):
        if re.sub(r"\W", "", text).lower() == re.sub(r"\W", "", patient_id).lower():
            return key.patient(patient_id)
        return identifier(key, text)
    return tag(category)


# -- form ------------------------------------------------------------------------------------------------------------


def _fold(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.replace("\u2019", "'"))
    return "".join(c for c in plain if not unicodedata.combining(c)).casefold()


def _like(old: str, new: str) -> str:
    letters = [c for c in old if c.isalpha()]
    if len(letters) > 1 and all(c.isupper() for c in letters):
        return new.upper()
    if letters and all(c.islower() for c in letters):
        return new.lower()
    return new
