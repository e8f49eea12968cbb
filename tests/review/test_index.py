"""The index of the desk: which released studies have a string that identifies."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from contextlib import closing

import pytest

from tests.review.conftest import released as folder_of
from updp.core.keys import Key
from updp.core.storage import OutputError
from updp.release import manifest
from updp.release.vault import seal
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
    assert not index.is_of(folder)
    index.build(folder, made / "out")
    assert index.is_of(folder)
    names = [row["release_id"] for row in index.films(Choice())[1]]
    with closing(index._open()) as base, base:
        base.execute("UPDATE about SET value = 'another' WHERE name = 'manifest'")
        base.execute("UPDATE films SET likeness = 0.5")
        base.execute("UPDATE films SET decided = 'review redone' || decided WHERE release_id = ?", (names[0],))

    def halfway(*given):
        assert index.counts()["films"] == 40  # pages are answered from the one before
        raise sqlite3.OperationalError("disk full")

    assert not index.is_of(folder)
    with monkeypatch.context() as patched:
        patched.setattr("updp.review.index._rows", halfway)
        with pytest.raises(OutputError, match="disk full"):
            index.build(folder, made / "out")
    assert index.counts() == {"films": 40, "measured": 40, "patients": 20}
    index.build(folder, made / "out")
    assert index.counts()["measured"] == 39  # a film that an officer decided on may be another one now
    assert None not in {row["ref"] for row in index.films(Choice())[1]}
    index.path.write_bytes(b"no index" * 1000)
    assert not index.is_of(folder)
    index.build(folder, made / "out")
    assert index.counts()["films"] == 40


def test_an_index_of_an_older_version_is_made_anew(made, key):
    index = Index(made / "desk.sqlite3", key)
    with closing(index._open()) as base, base:
        base.execute("CREATE TABLE films (place INTEGER PRIMARY KEY, name TEXT)")
        base.execute("CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)")
    assert not index.is_of(folder_of(made))
    index.build(folder_of(made), made / "out")
    assert index.counts() == {"films": 40, "measured": 0, "patients": 20}


def test_making_an_index_holds_no_more_of_a_larger_release(tmp_path, key):
    def most_held(films: int) -> int:
        out = tmp_path / str(films)
        (out / "vault").mkdir(parents=True)
        for shard in range(0, films, 100):
            links = [{"release_id": f"film{n}", "ref": f"ref{n}"} for n in range(shard, shard + 100)]
            seal(out / "vault" / f"{shard:05d}.vault", links, key)
        (out / "quarantine.jsonl").write_text(
            "".join(f'{{"ref": "kept{n}", "station": "read", "reason": "image-missing"}}\n' for n in range(films))
        )
        rows = ({"release_id": f"film{n}", "patient": f"patient{n}", "study": f"study{n}", "split": "train",
                 "file_name": f"images/00000/film{n}.png", "shard": "00000", "has_report": False, "view": "PA",
                 "labels": ["Effusion"], "labels_from": "source"} for n in range(films))  # fmt: skip
        manifest.write(out, rows, films)
        index = Index(out / "desk.sqlite3", key)
        index.build(out, out)
        with closing(index._open()) as base, base:
            base.execute("UPDATE films SET likeness = place")
        tracemalloc.start()
        try:
            index.build(out, out)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        ends = index.films(Choice(order="nearest"), limit=1)[1] + index.films(Choice(), limit=1)[1]
        assert [(row["ref"], row["likeness"]) for row in ends] == [(f"ref{films - 1}", films - 1), ("ref0", 0)]
        return held

    most_held(100)  # what is imported or cached once
    assert most_held(4000) < 1.5 * most_held(400)


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
