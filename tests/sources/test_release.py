from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sources.exports import CANARY, write_dicom, write_film
from updp.core.reasons import Reason, Refused
from updp.release import manifest
from updp.sources import BadSource, Refusal, open_source, recognise


def release(root: Path, **changes) -> Path:
    """A release of two films as the writer lays it out."""
    row = {
        "release_id": "f1",
        "patient": "p1",
        "study": "s1",
        "split": "test",
        "file_name": "images/00000/f1.png",
        "shard": "00000",
        "has_report": True,
        "view": "AP",
        "labels": ["Edema"],
        "age": 60,
        **changes,
    }
    other = {**row, "release_id": "f2", "file_name": "images/00000/f2.png", "has_report": False, "labels": None}
    write_film(root / "images/00000/f1.png")
    write_film(root / "images/00000/f2.png", seed=1)
    (root / "reports").mkdir()
    line = {"release_id": "f1", "patient": "p1", "study": "s1", "sections": {"findings": "Clear. é"}}
    (root / "reports/00000.jsonl").write_text(json.dumps({**line, "release_id": "f0"}) + "\n" + json.dumps(line) + "\n")
    manifest.write(root, [row, other], 2)
    return root


def test_a_release_is_a_source(tmp_path):
    assert recognise(release(tmp_path)) == ["release"]
    source = open_source(tmp_path)
    first, second = source
    assert (first.film_id, first.patient_id, first.study_id) == ("f1", "p1", "s1")
    assert (first.split, first.view, first.labels, first.age) == ("test", "AP", ("Edema",), 60)
    assert dict(source.load(first).report.sections) == {"findings": "Clear. é"}
    assert source.load(second).report is None
    assert second.labels is None


def test_a_release_of_dicom_films_is_no_dicom_tree(tmp_path):
    release(tmp_path, file_name="images/00000/f1.dcm")
    write_dicom(tmp_path / "images/00000/f1.dcm")
    assert recognise(tmp_path) == ["release"]
    source = open_source(tmp_path)
    assert source.load(next(iter(source))).header is not None


@pytest.mark.usefixtures("canary_free")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"patient": ""}, Reason.ID_MISSING),
        ({"file_name": "../x.png"}, Reason.PATH_UNSAFE),
        ({"file_name": f"images/{CANARY}.png"}, Reason.IMAGE_MISSING),
        ({"shard": "../../x"}, Reason.PATH_UNSAFE),
        ({"shard": "00009"}, Reason.REPORT_UNREADABLE),
    ],
)
def test_a_tampered_row_is_refused(tmp_path, changes, reason):
    assert next(iter(open_source(release(tmp_path, **changes)))) == Refusal("f1", reason)


def test_a_report_that_was_taken_out_or_damaged_is_refused(tmp_path):
    source = open_source(release(tmp_path))
    first = next(iter(source))
    (tmp_path / "reports/00000.jsonl").write_text("")
    with pytest.raises(Refused, match=r"^report-missing$"):
        source.load(first)
    (tmp_path / "reports/00000.jsonl").write_text('{"release_id": "f1", "sections": 3}\n')
    with pytest.raises(Refused, match=r"^report-unreadable$"):
        source.load(first)


def test_a_manifest_without_the_columns_of_a_release_is_told(tmp_path):
    pq.write_table(pa.table({"release_id": ["f1"]}), tmp_path / "manifest.parquet")
    with pytest.raises(BadSource, match="the release's manifest lacks file_name, patient, shard, study"):
        open_source(tmp_path)
