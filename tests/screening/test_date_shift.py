"""Dates and times move by the patient's own amount and stay what they were otherwise."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screening.objects import KEY
from updp.screening.date_shift import Shift

WEEK = Shift(dt.timedelta(weeks=-1), 90, b"secret of one patient")


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
        ("1032", "1202"),
        ("10:32", "1202"),
        ("10", "11"),
        ("2330", "0100"),
        ("250000", None),
        ("103207 Smith", None),
        ("noon", None),
    ],
)
def test_times_go_round_the_clock(value, moved):
    assert WEEK.time(value) == moved


@pytest.mark.parametrize("precision", range(7))
def test_seconds_and_fractions_are_drawn_anew(precision):
    shift, other = Shift.of(KEY, "M77419"), Shift.of(KEY, "M77420")
    times = [f"1032{s:02d}" + (f".{(s * 7919) % 10**precision:0{precision}d}" if precision else "") for s in range(60)]
    moved = [shift.time(value) for value in times]
    assert {value[:4] for value in moved} == {shift.time("1032")}
    assert all(len(new) == len(old) and int(new[4:6]) < 60 for new, old in zip(moved, times, strict=True))
    # neither the value itself nor its distance from a neighbour comes through
    assert sum(new[4:] == old[4:] for new, old in zip(moved, times, strict=True)) < 6
    assert len({(int(new[4:6]) - int(old[4:6])) % 60 for new, old in zip(moved, times, strict=True)}) > 20
    assert moved != [other.time(value) for value in times]


def test_the_same_time_of_a_patient_gives_the_same_second_in_every_element():
    shift = Shift.of(KEY, "M77419")
    assert shift.time("103207.5") == shift.time("10:32:07.5") == shift.datetime("20190314103207.5")[8:]


@pytest.mark.parametrize(
    ("value", "moved"),
    [
        ("201903141032", "201903071202"),
        ("201903141032+0100", "201903071202"),
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
