"""Values of a table or header as they mean: sex, age, date, split."""

from __future__ import annotations

import datetime as dt
import re
from hashlib import blake2b

from updp.core.record import Sex, Split


def sex_of(value: object) -> Sex | None:
    text = str(value or "").strip().upper()
    return "F" if text in ("F", "FEMALE") else "M" if text in ("M", "MALE") else None


def age_of(value: object) -> int | None:
    """Whole years from ``58``, ``058Y``, ``058``; weeks, months and days count as zero. Absurd ages are unknown."""
    text = str(value if value is not None else "").strip().upper()
    if text[-1:] in ("D", "W", "M") and text[:-1].isdigit():
        text = str({"D": int(text[:-1]) // 365, "W": int(text[:-1]) // 52, "M": int(text[:-1]) // 12}[text[-1]])
    text = text.removesuffix("Y").removesuffix(".0")
    if not (text.isascii() and text.isdigit()):
        return None
    years = int(text) if len(text) < 5 else 999
    return years if years <= 130 else None


def date_of(value: object) -> dt.date | None:
    """A date from ``20190304``, ``2019-03-04``, ``04.03.2019`` (a time after it is ignored), or a date object.

    ``3/4/2019`` means two days in two countries and is no date.
    """
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    text = str(value if value is not None else "").strip()
    if dotted := re.match(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d)", text):
        text = "{2}{1:0>2}{0:0>2}".format(*dotted.groups())
    text = text.replace("-", "").split("T")[0].split(" ")[0].split(".")[0]
    if len(text) != 8 or not (text.isascii() and text.isdigit()):
        return None
    try:
        return dt.date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return None


def birth_of(born: object, date: dt.date | None) -> int | None:
    """The age at ``date`` of somebody born on a day or in a year."""
    if born is None or date is None:
        return None
    day = date_of(born)
    if day is not None:
        return age_of(date.year - day.year - ((date.month, date.day) < (day.month, day.day)))
    text = str(born).strip().removesuffix(".0")
    return age_of(date.year - int(text)) if len(text) == 4 and text.isascii() and text.isdigit() else None


def split_of(value: object) -> Split | None:
    """The official split by any of its usual names."""
    text = str(value or "").strip().lower()
    if text in ("train", "training"):
        return "train"
    if text in ("val", "valid", "validate", "validation", "dev"):
        return "val"
    return "test" if text in ("test", "testing") else None


def number_of(text: str) -> int:
    """A 63-bit number for a key. Joins hold eight bytes per row instead of the text; the chance of any clash among a
    million keys is 5e-8."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big") >> 1
