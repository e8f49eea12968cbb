from __future__ import annotations

import csv
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from updp.sources import files


@given(st.lists(st.text(max_size=8)), st.text(max_size=8))
def test_members_is_a_set(keys, other):
    members = files.Members(keys)
    assert all(key in members for key in keys)
    assert (other in members) == (other in keys)


@given(st.lists(st.tuples(st.text(max_size=8), st.integers(0, 2**40))), st.text(max_size=8))
def test_table_is_a_mapping_where_the_first_row_counts(rows, other):
    table = files.Table(rows)
    expected = dict(reversed(rows))
    assert {key: table.get(key) for key, _ in rows} == expected
    assert table.get(other) == expected.get(other)


def test_rows_are_found_again_by_key_across_lines_and_quotes(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_bytes(b'\xef\xbb\xbfid,text\na,"one\ntwo, ""quoted"""\nb,plain\nbad row with, too, many\nc,"last"\n')
    rows = files.Rows(path, "id")
    assert rows.get("c") == {"id": "c", "text": "last"}
    assert rows.get("a") == {"id": "a", "text": 'one\ntwo, "quoted"'}
    assert rows.get("b") == {"id": "b", "text": "plain"}
    assert rows.get("d") is None


def test_a_line_beyond_the_limit_is_cut_and_the_next_one_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE", 10)
    (tmp_path / "a").write_bytes(b"x" * 25 + b"\nshort\n")
    with open(tmp_path / "a", "rb") as raw:
        assert list(files.raw_lines(raw)) == [b"x" * 10, b"short\n"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_field_beyond_the_limit_of_the_csv_module_is_read_and_the_limit_stays(tmp_path, suffix):
    limit = csv.field_size_limit()
    path = tmp_path / f"t.csv{suffix}"
    data = f"id,text\na,{'x' * (limit + 1)}\n".encode()
    path.write_bytes(gzip.compress(data) if suffix else data)
    rows = list(files.read_table(path))
    assert [len(row[1]) for _, row in rows] == [4, limit + 1]
    assert len(files.Rows(path, "id").get("a")["text"]) == limit + 1
    assert csv.field_size_limit() == limit
