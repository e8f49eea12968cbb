"""Dates and times move by the patient's own amount and stay what they were otherwise."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screening.objects import KEY
from updp.screening.date_shift import Shift

WEEK = Shift(dt.timedelta(weeks=-1), 90)


@pytest.mark.parametrize(
    ("value", "moved"),
    [
        ("20190314", "20190307"),
        ("2019.03.14", "20190307"),
        ("2019-03-14", "20190307"),
        ("20190301", "20190222"),
        ("20191313", None),
        ("20190230", None),
        ("2019", None),
        ("Smith", None),
        ("00010101", None),
        ("20190314 Smith", None),
    ],
)
def test_dates(value, moved):
    assert WEEK.date(value) == moved


@pytest.mark.parametrize(
    ("value", "moved"),
    [
        ("103207", "120207"),
        ("10:32:07", "120207"),
        ("103207.123456", "120207.123456"),
        ("1032", "1202"),
        ("10", "11"),
        ("233000", "010000"),
        ("250000", None),
        ("103207 Smith", None),
        ("noon", None),
    ],
)
def test_times_go_round_the_clock(value, moved):
    assert WEEK.time(value) == moved


@pytest.mark.parametrize(
    ("value", "moved"),
    [
        ("20190314103207", "20190307120207"),
        ("20190314103207.5+0100", "20190307120207.5"),
        ("20190314", "20190307"),
        ("201903", "201903"),
        ("2019", "2019"),
        ("20191399", None),
        ("20190314Smith", None),
    ],
)
def test_datetimes_lose_their_zone(value, moved):
    assert WEEK.datetime(value) == moved


@given(st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)), st.integers(0, 3000), st.text(min_size=1, max_size=8))
def test_intervals_and_weekdays_survive(day, days, patient):
    shift = Shift.of(KEY, patient)
    first = dt.datetime.strptime(shift.date(day.strftime("%Y%m%d")), "%Y%m%d").date()
    later = day + dt.timedelta(days=days)
    second = dt.datetime.strptime(shift.date(later.strftime("%Y%m%d")), "%Y%m%d").date()
    assert second - first == later - day
    assert first.weekday() == day.weekday()
    assert first < day


@given(st.text(max_size=30))
def test_no_text_that_is_not_a_date_comes_back(value):
    for moved in (WEEK.date(value), WEEK.time(value), WEEK.datetime(value)):
        assert moved is None or not any(c.isalpha() for c in moved)


def test_the_report_and_the_header_move_times_alike():
    surrogates = pytest.importorskip("updp.reports.surrogates")
    assert surrogates.time(KEY, "M77419", "10:32").replace(":", "") == Shift.of(KEY, "M77419").time("1032")
    assert surrogates.compact_date(KEY, "M77419", "20190314") == Shift.of(KEY, "M77419").date("20190314")
