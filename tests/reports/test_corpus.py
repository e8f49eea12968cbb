"""Scanning a corpus: one line in, one line out, and a table by category."""

from __future__ import annotations

import io
import json

import pytest

import updp
from updp.reports import render, scan_lines


def test_lines_in_spans_out() -> None:
    rows = [
        {"id": "a", "text": "Seen by Dr. Okafor on 3/4/2019."},
        {"id": 2, "text": "No effusion."},
        {"id": "c", "text": "XXXX."},
    ]
    out = io.StringIO()
    counts = scan_lines((json.dumps(r) + "\n" for r in rows), out)
    made = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [m["id"] for m in made] == ["a", 2, "c"]
    text = str(rows[0]["text"])
    assert [(s["category"], text[s["start"] : s["end"]]) for s in made[0]["spans"]] == [
        ("staff", "Dr. Okafor"),
        ("date", "3/4/2019"),
    ]
    assert set(made[0]["spans"][0]) == {"start", "end", "category", "score"}
    assert made[1]["spans"] == []
    assert (counts.reports, counts.with_phi, counts.unreadable) == (3, 1, 0)
    assert counts.spans == {"staff": 1, "date": 1, "hole": 1}


@pytest.mark.parametrize(
    "line", ["not json", "[]", '{"id": "a"}', '{"text": "x"}', '{"id": "a", "text": 5}', '{"id": ["x"], "text": "y"}']
)
def test_a_bad_line_is_reported_by_number_and_passed_over(line: str) -> None:
    out = io.StringIO()
    counts = scan_lines([line, "", '{"id": "b", "text": "fine"}'], out)
    first, second = (json.loads(made) for made in out.getvalue().splitlines())
    assert first == {"line": 1, "error": "not a JSON object with an id and a text"}
    assert second["id"] == "b"
    assert (counts.reports, counts.unreadable) == (1, 1)


def test_the_table_names_group_category_and_safe_harbor_class() -> None:
    counts = scan_lines(['{"id": 1, "text": "MRN 1234567, Dr. Okafor, XXXX"}'], io.StringIO())
    table = render(counts)
    assert "| patient identifiers | mrn | (H) | 1 | 1 |" in table
    assert "| personnel | staff | (A) | 1 | 1 |" in table
    assert "| already removed | hole |  | 1 | 1 |" in table


def test_scan_is_public() -> None:
    assert [s.category for s in updp.scan("Seen by Dr. Okafor.")] == ["staff"]
