from __future__ import annotations

import datetime as dt

import pytest

from updp.sources import fields


@pytest.mark.parametrize(
    ("value", "years"),
    [
        ("58", 58),
        ("058Y", 58),
        ("018M", 1),
        ("006W", 0),
        ("400D", 1),
        (59.0, 59),
        ("", None),
        (None, None),
        ("x", None),
    ],
)
def test_ages(value, years):
    assert fields.age_of(value) == years


def test_an_absurd_age_is_unknown():
    assert fields.age_of("411") is None
    assert fields.age_of("9" * 400) is None


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("20190304", dt.date(2019, 3, 4)),
        ("2019-03-04", dt.date(2019, 3, 4)),
        ("2019-03-04T10:00:00", dt.date(2019, 3, 4)),
        (dt.datetime(2019, 3, 4, 5), dt.date(2019, 3, 4)),
        ("04.03.2019", dt.date(2019, 3, 4)),
        ("4.3.2019 10:15", dt.date(2019, 3, 4)),
        ("31.02.2019", None),
        ("3/4/2019", None),
        ("20191345", None),
        (None, None),
    ],
)
def test_dates(value, date):
    assert fields.date_of(value) == date
