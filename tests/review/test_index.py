"""The index of the desk: which released studies have a string that identifies."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tests.review.conftest import released as folder_of
from updp.core.keys import Key
from updp.core.storage import OutputError
from updp.review.index import _TABLES, Choice, Index


@pytest.fixture
def released(tmp_path):
    """An index and a release of three studies: two with reports, one with a header."""
    index = Index(tmp_path / "desk.sqlite3", Key(bytes(range(32))))
    with index._open() as base:
        base.executescript(_TABLES)
        rows = [(n, f"f{n}", f"q{n}", f"{n}.{'dcm' if n == 2 else 'png'}") for n in range(3)]
        base.executemany(
            "INSERT INTO films VALUES (?, ?, ?, 'p', 'PA', '|', '', ?, '00000', 1, NULL, NULL, NULL)", rows
        )
    (tmp_path / "reports").mkdir()
    texts = {"f0": 'Seen by\nAnn  "Kit"\nQuibble\u2028sworth of Orléans.', "f1": "Heart normal."}
    reports = [{"release_id": name, "sections": {"findings": text}} for name, text in texts.items()]
    lines = [json.dumps(report, ensure_ascii=False) for report in reports]
    (tmp_path / "reports" / "00000.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (tmp_path / "2.dcm").write_bytes(b"DICM" + "Hôpital Zanthora".encode("latin-1") + b"\0" * 70_000 + b"Orl")
    return index, tmp_path


def test_films_of_one_id_are_counted_each(made, key):
    path = made / "out" / "quarantine.jsonl"
    path.write_bytes(path.read_bytes() * 2)
    index = Index(made / "desk.sqlite3", key)
    index.build(folder_of(made), made / "out")
    (row,) = index.quarantine()
    assert (row["films"], [count for _, count in index.reasons()]) == (2, [2])


def test_an_index_is_made_anew_whole_or_not_at_all(made, key, monkeypatch):
    folder = folder_of(made)
    index = Index(made / "desk.sqlite3", key)
    assert index.build(folder, made / "out")
    assert not index.build(folder, made / "out")  # it is there
    names = [row["release_id"] for row in index.films(Choice())[1]]
    with closing(index._open()) as base, base:
        base.execute("UPDATE about SET value = 'another' WHERE name = 'manifest'")
        base.execute("UPDATE films SET likeness = 0.5")
        base.execute("UPDATE films SET decided = 'review redone' || decided WHERE release_id = ?", (names[0],))

    def halfway(*given):
        assert index.counts()["films"] == 40  # pages are answered from the one before
        raise sqlite3.OperationalError("disk full")

    whole = Index._rows
    monkeypatch.setattr(Index, "_rows", halfway)
    with pytest.raises(OutputError, match="disk full"):
        index.build(folder, made / "out")
    assert index.counts() == {"films": 40, "measured": 40, "patients": 20}
    monkeypatch.setattr(Index, "_rows", whole)
    assert index.build(folder, made / "out")
    assert index.counts()["measured"] == 39  # a film that an officer decided on may be another one now
    index.path.write_bytes(b"no index" * 1000)
    assert index.build(folder, made / "out")
    assert index.counts()["films"] == 40


@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("orléans", ["q0"]),
        ('ann "kit"', ["q0"]),  # quotation marks and line breaks are written otherwise in the file
        ("ANN", ["q0"]),
        (" HEART  normal ", ["q1"]),
        ("zanthora", ["q2"]),
        ("hôpital", ["q2"]),
        ("日本", []),
        (".*", []),
    ],
)
def test_a_string_is_found_however_the_file_writes_it(released, text, refs):
    index, folder = released
    assert index.with_text(folder, text) == refs
