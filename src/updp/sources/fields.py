"""Values of a table or header as they mean: view, sex, age, date, split, labels."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from hashlib import blake2b

from updp.core.record import FINDINGS, Sex, Split, View

_LATERAL = {"LATERAL", "LL", "RL", "LAT", "L", "LEFT LATERAL", "RIGHT LATERAL", "LLD", "RLD", "LLO", "RLO"}
_PA = {"PA", "POSTERO-ANTERIOR", "POSTEROANTERIOR"}
_AP = {"AP", "ANTERO-POSTERIOR", "ANTEROPOSTERIOR"}
#: CheXpert's names for findings that ChestX-ray14 calls otherwise.
SAME_FINDING = {"pleural effusion": "Effusion", "pleural thickening": "Pleural_Thickening"}
_CANONICAL = {name.lower().replace("_", " "): name for name in FINDINGS} | SAME_FINDING
_NO_FINDING = {"no finding", "no findings", "normal"}


def view_of(value: object) -> View | None:
    """PA, AP or LATERAL from a view position; None for anything else."""
    text = str(value or "").strip().upper()
    return "PA" if text in _PA else "AP" if text in _AP else "LATERAL" if text in _LATERAL else None


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
    """A date from ``20190304``, ``2019-03-04`` (a time after it is ignored), or a date object."""
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    text = str(value if value is not None else "").strip().replace("-", "").split("T")[0].split(" ")[0].split(".")[0]
    if len(text) != 8 or not (text.isascii() and text.isdigit()):
        return None
    try:
        return dt.date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return None


def split_of(value: object) -> Split | None:
    """The official split by any of its usual names."""
    text = str(value or "").strip().lower()
    if text in ("train", "training"):
        return "train"
    if text in ("val", "valid", "validate", "validation", "dev"):
        return "val"
    return "test" if text in ("test", "testing") else None


def labels_of(names: Iterable[str]) -> tuple[str, ...]:
    """Findings under the names of ``FINDINGS`` where they coincide, else their own; "no finding" is the empty tuple."""
    out: dict[str, None] = {}
    for name in names:
        plain = name.strip()
        key = plain.lower().replace("_", " ")
        if plain and key not in _NO_FINDING:
            out[_CANONICAL.get(key, plain)] = None
    return tuple(out)


def number_of(text: str) -> int:
    """A 63-bit number for a key. Joins hold eight bytes a row instead of the text; the chance of any clash among a
    million keys is 5e-8."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big") >> 1
