"""The index of the desk: which released studies have a string that identifies."""

from __future__ import annotations

import json

import pytest

from updp.core.keys import Key
from updp.review.index import _TABLES, Index


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
