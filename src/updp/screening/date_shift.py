"""Dates and times of a header moved by the patient's own shift (PS3.15 E.3.6, modified dates).

Dates move by whole weeks, so order, intervals and weekdays stay. Times of day move round the clock by minutes of the
patient's own, the same as in the report; they never carry into the date, because the two live in elements of their
own. A shift by minutes would leave seconds and fractions as they were, which find a film again among all others: they
are drawn anew by key, the same for the same time of the same patient, and their order within a minute is lost. A value
that is not a date is ``None``: the caller then removes it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from updp.core.keys import Key

_DA = re.compile(r"(\d{4})([.\-/]?)(\d{2})\2(\d{2})$")
_TM = re.compile(r"(\d{2}):?(?:([0-5]\d):?(?:([0-6]\d)(\.\d{1,6})?)?)?$")
_DT = re.compile(r"(\d{4})(\d{2})?(\d{2})?(\d{2}(?:\d{2}(?:\d{2}(?:\.\d{1,6})?)?)?)?([+-]\d{4})?$")
_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Shift:
    """How far one patient's dates and times move."""

    days: dt.timedelta
    minutes: int
    secret: bytes  # what seconds and fractions are drawn from

    @classmethod
    def of(cls, key: Key, patient_id: str) -> Shift:
        """The shift of a patient: what dates and times in the report move by too."""
        minutes = 1 + int.from_bytes(key.digest("clock", patient_id)[:4], "big") % 1439
        return cls(key.shift(patient_id), minutes, key.digest("seconds", patient_id)[:32])

    def date(self, value: str) -> str | None:
        """A DA value moved."""
        found = _DA.match(value)
        return _day(int(found[1]), int(found[3]), int(found[4]), self.days) if found else None

    def time(self, value: str) -> str | None:
        """A TM value moved, in the precision it had."""
        found = _TM.match(value)
        if not found or int(found[1]) > 23:
            return None
        hour, minute, second, fraction = found.groups()
        moved = (int(hour) * 60 + int(minute or 0) + self.minutes) % _DAY
        if minute is None:
            return f"{moved // 60:02d}"
        text = f"{moved // 60:02d}{moved % 60:02d}"
        return text if second is None else text + self._second(hour + minute + second + (fraction or ""), fraction)

    def _second(self, time: str, fraction: str | None) -> str:
        """A second, with as many digits behind it as it had, drawn for a time of day."""
        drawn = int.from_bytes(hashlib.blake2b(time.encode("ascii"), key=self.secret, digest_size=16).digest(), "big")
        drawn, second = divmod(drawn, 60)
        if fraction is None:
            return f"{second:02d}"
        digits = len(fraction) - 1
        return f"{second:02d}.{drawn % 10**digits:0{digits}d}"

    def datetime(self, value: str) -> str | None:
        """A DT value moved; the offset from UTC is dropped, it tells where the film was made."""
        found = _DT.match(value)
        if not found:
            return None
        year, month, day, clock, _ = found.groups()
        moved = _day(int(year), int(month or 7), int(day or (15 if month else 2)), self.days)
        if moved is None:
            return None
        if month is None:
            return moved[:4]
        if day is None:
            return moved[:6]
        if clock is None:
            return moved
        time = self.time(clock)
        return moved + time if time else None


def _day(year: int, month: int, day: int, by: dt.timedelta) -> str | None:
    try:
        moved = dt.date(year, month, day) + by
    except (ValueError, OverflowError):
        return None
    return f"{moved.year:04d}{moved.month:02d}{moved.day:02d}"
