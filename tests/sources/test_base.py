from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from updp.sources import base


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
    assert base.age_of(value) == years


def test_an_absurd_age_is_unknown():
    assert base.age_of("411") is None
    assert base.age_of("9" * 400) is None


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("20190304", dt.date(2019, 3, 4)),
        ("2019-03-04", dt.date(2019, 3, 4)),
        ("2019-03-04T10:00:00", dt.date(2019, 3, 4)),
        (dt.datetime(2019, 3, 4, 5), dt.date(2019, 3, 4)),
        ("04.03.2019", None),
        ("20191345", None),
        (None, None),
    ],
)
def test_dates(value, date):
    assert base.date_of(value) == date


@pytest.mark.parametrize(
    ("value", "view"), [("pa", "PA"), ("AP", "AP"), ("LL", "LATERAL"), ("Lateral", "LATERAL"), ("OBLIQUE", None)]
)
def test_views(value, view):
    assert base.view_of(value) == view


@given(st.lists(st.text(max_size=8)), st.text(max_size=8))
def test_members_is_a_set(keys, other):
    members = base.Members(keys)
    assert all(key in members for key in keys)
    assert (other in members) == (other in keys)


@given(st.lists(st.tuples(st.text(max_size=8), st.integers(0, 2**40))), st.text(max_size=8))
def test_table_is_a_mapping_where_the_first_row_counts(rows, other):
    table = base.Table(rows)
    expected = dict(reversed(rows))
    assert {key: table.get(key) for key, _ in rows} == expected
    assert table.get(other) == expected.get(other)


def test_rows_are_found_again_by_key_across_lines_and_quotes(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_bytes(b'\xef\xbb\xbfid,text\na,"one\ntwo, ""quoted"""\nb,plain\nbad row with, too, many\nc,"last"\n')
    rows = base.Rows(path, "id")
    assert rows.get("c") == {"id": "c", "text": "last"}
    assert rows.get("a") == {"id": "a", "text": 'one\ntwo, "quoted"'}
    assert rows.get("b") == {"id": "b", "text": "plain"}
    assert rows.get("d") is None


def test_a_line_beyond_the_limit_is_cut_and_the_next_one_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "MAX_LINE", 10)
    (tmp_path / "a").write_bytes(b"x" * 25 + b"\nshort\n")
    with open(tmp_path / "a", "rb") as raw:
        assert list(base.raw_lines(raw)) == [b"x" * 10, b"short\n"]
