from __future__ import annotations

import csv
import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sources.exports import CANARY, write_dicom, write_film
from updp.core.reasons import Reason, Refused
from updp.core.record import Study
from updp.sources import BadSource, Refusal, open_source, recognise

ROW = {
    "film_id": "f1",
    "study_id": "s1",
    "patient_id": "p1",
    "image": "films/a.png",
    "findings": "Clear.",
    "impression": "Normal.",
    "view": "PA",
    "labels": "Cardiomegaly|pleural effusion|Odd Thing",
    "age": "58",
    "sex": "Female",
    "date": "2019-03-04",
    "split": "validate",
}
KINDS = ("csv", "tsv", "jsonl", "parquet")


def write(root: Path, kind: str, *rows: dict) -> Path:
    path = root / f"manifest.{kind}"
    write_film(root / "films" / "a.png")
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    else:
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if kind == "tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


def one(root: Path) -> Study | Refusal:
    (row,) = open_source(root)
    return row


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_study(tmp_path, kind):
    write(tmp_path, kind, ROW)
    assert recognise(tmp_path) == ["manifest"]
    study = one(tmp_path)
    assert study == Study(
        film_id="f1",
        study_id="s1",
        patient_id="p1",
        path=(tmp_path / "films" / "a.png").resolve(),
        view="PA",
        labels=("Cardiomegaly", "Effusion", "Odd Thing"),
        report=study.report,
        age=58,
        sex="F",
        date=dt.date(2019, 3, 4),
        split="val",
    )
    assert dict(study.report.sections) == {"findings": "Clear.", "impression": "Normal."}
    assert open_source(tmp_path).load(study).pixels is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_is_opened_by_its_own_path_too(tmp_path, kind):
    path = write(tmp_path, kind, ROW)
    assert one(path).film_id == "f1"


def test_columns_are_found_by_other_names_in_any_case(tmp_path):
    row = {"Image_ID": "f1", "SUBJECT_ID": "p1", "Path": "films/a.png", "Report": "IMPRESSION: Fine.", "Gender": "M"}
    write(tmp_path, "csv", row)
    study = one(tmp_path)
    assert (study.film_id, study.study_id, study.patient_id, study.sex) == ("f1", "f1", "p1", "M")
    assert dict(study.report.sections) == {"impression": "Fine."}


def test_typed_columns_of_parquet_and_json_are_read(tmp_path):
    row = {"film_id": 7, "patient_id": 3.0, "image": "films/a.png", "labels": ["Edema"], "age": 60.0, "date": None}
    for kind in ("parquet", "jsonl"):
        study = one(write(tmp_path, kind, row))
        assert (study.film_id, study.patient_id, study.labels, study.age) == ("7", "3", ("Edema",), 60)


def test_a_dated_parquet_column_is_read(tmp_path):
    assert one(write(tmp_path, "parquet", {**ROW, "date": dt.date(2020, 1, 2)})).date == dt.date(2020, 1, 2)


@pytest.mark.parametrize(
    ("value", "labels"),
    [("", None), ("No Finding", ()), ("[]", ()), ('["Edema", "Mass"]', ("Edema", "Mass")), ("edema|EDEMA", ("Edema",))],
)
def test_labels(tmp_path, value, labels):
    assert one(write(tmp_path, "csv", {**ROW, "labels": value})).labels == labels


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    for kind in ("csv", "jsonl"):
        path = write(tmp_path, kind, ROW)
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert one(path).film_id == "f1"


def test_a_report_in_a_file_of_its_own_is_read_with_the_film(tmp_path):
    write(tmp_path, "csv", {"film_id": "f1", "patient_id": "p1", "image": "films/a.png", "report_path": "a.txt"})
    (tmp_path / "a.txt").write_text("FINDINGS: Clear.")
    source = open_source(tmp_path)
    (study,) = source
    assert study.report is None
    assert dict(source.load(study).report.sections) == {"findings": "Clear."}
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match=r"^report-encoding$"):
        source.load(study)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(Refused, match=r"^report-unreadable$"):
        source.load(study)


def test_a_dicom_film_in_a_manifest_brings_its_header(tmp_path):
    write_dicom(tmp_path / "a.dcm")
    path = write(tmp_path, "csv", {"film_id": "f1", "patient_id": "p1", "image": "a.dcm"})
    source = open_source(path)
    (study,) = source
    loaded = source.load(study)
    assert (loaded.patient_id, loaded.age, loaded.view) == ("p1", 58, "PA")
    assert "PixelData" not in loaded.header


@pytest.mark.posix
@pytest.mark.usefixtures("canary_free")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"film_id": ""}, Reason.ID_MISSING),
        ({"study_id": "  "}, Reason.ID_MISSING),
        ({"patient_id": ""}, Reason.ID_MISSING),
        ({"image": ""}, Reason.REPORT_ORPHAN),
        ({"image": "", "findings": "", "impression": ""}, Reason.IMAGE_MISSING),
        ({"image": f"films/{CANARY}.png"}, Reason.IMAGE_MISSING),
        ({"image": f"../{CANARY}.png"}, Reason.PATH_UNSAFE),
        ({"image": "films/../../a.png"}, Reason.PATH_UNSAFE),
        ({"image": "/etc/passwd"}, Reason.PATH_UNSAFE),
        ({"image": ".."}, Reason.PATH_UNSAFE),
        ({"image": "films/link.png"}, Reason.PATH_UNSAFE),
        ({"image": "linked/a.png"}, Reason.PATH_UNSAFE),
        ({"labels": f'["{CANARY}'}, Reason.ROW_UNREADABLE),
    ],
)
def test_a_bad_row_is_refused_alone(tmp_path, kind, changes, reason):
    root, outside = tmp_path / "export", write_film(tmp_path / "outside" / "a.png")
    (root / "films").mkdir(parents=True)
    (root / "films" / "link.png").symlink_to(outside)
    (root / "linked").symlink_to(outside.parent)
    write(root, kind, {**ROW, **changes}, {**ROW, "film_id": "f2"})
    bad, good = open_source(root)
    assert isinstance(bad, Refusal)
    assert bad.reason is reason
    assert isinstance(good, Study)


@pytest.mark.posix
def test_a_link_that_stays_inside_is_followed(tmp_path):
    write_film(tmp_path / "store" / "b.png")
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "b.png").symlink_to(tmp_path / "store" / "b.png")
    write(tmp_path, "csv", {**ROW, "image": "films/b.png"}, {**ROW, "image": str(tmp_path / "films" / "a.png")})
    assert [type(row) for row in open_source(tmp_path)] == [Study, Study]


def test_rows_that_are_not_utf8_are_refused_alone_where_others_are(tmp_path):
    rows = [{**ROW, "findings": "déjà vu"}, {**ROW, "film_id": "f2", "findings": "caf@"}, {**ROW, "film_id": "f@"}]
    path = write(tmp_path, "csv", *rows)
    path.write_bytes(path.read_bytes().replace(b"@", b"\xe9"))
    good, report, name = open_source(tmp_path)
    assert isinstance(good, Study)
    assert report == Refusal("f2", Reason.REPORT_ENCODING)
    assert name == Refusal("row 3", Reason.ROW_UNREADABLE)


def test_json_lines_that_are_not_utf8_or_no_object_are_refused_alone(tmp_path):
    path = write(tmp_path, "jsonl", ROW)
    with open(path, "ab") as file:
        file.write(b'{"film_id": "caf\xe9"}\n[1]\n{"half":\n\n' + b"[" * 100_000 + b"\n")
    good, *bad = open_source(tmp_path)
    assert isinstance(good, Study)
    assert [row.reason for row in bad] == [Reason.ROW_UNREADABLE] * 4


def test_a_row_with_a_comma_too_many_or_a_stray_quote_is_refused_and_none_is_lost(tmp_path):
    path = write(tmp_path, "csv", ROW)
    good = path.read_text().splitlines()[1]
    path.write_text("\n".join([path.read_text().splitlines()[0], good, good + ",x", 'f3,"stray', good, good, good]))
    kinds = [type(row) for row in open_source(tmp_path)]
    assert kinds[:2] == [Study, Refusal]
    assert len(kinds) == 6
    # Without a closing quote nobody can say where the row ends: all that follows it is kept back.
    assert set(kinds[2:]) == {Refusal}


@pytest.mark.usefixtures("canary_free")
@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("manifest.csv", b"", "no header line"),
        ("manifest.csv", f"name,{CANARY}\nx,y\n".encode(), "lacks a column: patient_id or subject_id; image or path"),
        ("manifest.csv", "film_id,patient\n".encode("utf-16"), "lacks a column"),
        ("manifest.jsonl", CANARY.encode(), "no JSON object"),
        ("manifest.parquet", CANARY.encode(), "not a readable Parquet file"),
    ],
)
def test_a_broken_manifest_is_told_without_its_content(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadSource, match=message) as error:
        open_source(tmp_path)
    assert CANARY not in str(error.value)


def test_a_broken_table_with_a_name_in_its_file_name_is_told_without_it(tmp_path):
    write(tmp_path, "csv", ROW).rename(tmp_path / f"{CANARY}.csv")
    source = open_source(tmp_path)
    (tmp_path / f"{CANARY}.csv").write_bytes(b"\x1f\x8b\x00")
    with pytest.raises(BadSource) as error:
        list(source)
    assert CANARY not in str(error.value)


def test_two_manifests_in_one_folder_are_told(tmp_path):
    write(tmp_path, "csv", ROW)
    write(tmp_path, "jsonl", ROW)
    with pytest.raises(BadSource, match="2 manifests in one folder; give the path of one"):
        open_source(tmp_path)


def test_a_table_of_another_name_is_a_manifest_if_it_has_the_columns(tmp_path):
    write(tmp_path, "csv", ROW).rename(tmp_path / "export.csv")
    assert recognise(tmp_path) == ["manifest"]
    (tmp_path / "export.csv").write_text("a,b\n1,2\n")
    assert recognise(tmp_path) == []


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_in_a_row_stop_the_run(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("fuzz")
    path = write(root, "csv", ROW)
    path.write_bytes(path.read_bytes() + data)
    rows = list(open_source(root))
    assert isinstance(rows[0], Study)
    assert all(isinstance(row, Study | Refusal) for row in rows)


# -- as people save them ---------------------------------------------------------------------------------------------

ENCODINGS = ("utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_delimiter_and_encoding_are_found_out(tmp_path, delimiter, encoding, kind):
    write_film(tmp_path / "films" / "a.png")
    row = ROW | {"findings": "Schöne Lunge; gerade, ähnlich", "labels": "Edema"}
    with open(tmp_path / f"manifest.{kind}", "w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(row), delimiter=delimiter)
        writer.writeheader()
        writer.writerows([row, row | {"film_id": "fé"}])
    first, second = open_source(tmp_path)
    assert first.report.sections["findings"] == "Schöne Lunge; gerade, ähnlich"
    assert second.film_id == "fé"
    assert first.labels == ("Edema",)


def test_windows_1252_is_seen_wherever_its_first_letter_stands(tmp_path):
    path = write(tmp_path, "csv", *({**ROW, "film_id": f"f{n}"} for n in range(20_000)))
    path.write_bytes(path.read_bytes() + b"Zo\xeb,s1,p1,films/a.png,,,,,,,,\r\n")
    *_, last = open_source(tmp_path)
    assert last.film_id == "Zoë"


def test_a_byte_windows_1252_does_not_have_refuses_its_row(tmp_path):
    path = write(tmp_path, "csv", {**ROW, "film_id": "f@"}, {**ROW, "film_id": "f#"})
    path.write_bytes(path.read_bytes().replace(b"@", b"\x9d").replace(b"#", b"\xe9"))
    bad, good = open_source(tmp_path)
    assert bad.reason is Reason.ROW_UNREADABLE
    assert good.film_id == "fé"


@pytest.mark.parametrize("stray", [b"\xff", b"\xfe\xff", b"\xdf", b"caf\xe9 \xf0"])
def test_a_stray_byte_is_no_windows_1252_and_refuses_its_row(tmp_path, stray):
    path = write(tmp_path, "csv", ROW, {**ROW, "film_id": "f2", "findings": "Small @ left"})
    path.write_bytes(path.read_bytes().replace(b"@", stray))
    good, bad = open_source(tmp_path)
    assert isinstance(good, Study)
    assert bad == Refusal("f2", Reason.REPORT_ENCODING)


def test_words_of_one_letter_are_words(tmp_path):
    path = write(tmp_path, "csv", {**ROW, "findings": "Comparé à l'examen, è normale, 37 °C"})
    path.write_text(path.read_text("utf-8"), "cp1252")
    assert one(tmp_path).report.sections["findings"] == "Comparé à l'examen, è normale, 37 °C"


def test_json_lines_in_utf_16_are_read(tmp_path):
    path = write(tmp_path, "jsonl", ROW | {"findings": "Größe"})
    path.write_text(path.read_text("utf-8"), "utf-16")
    assert one(tmp_path).report.sections["findings"] == "Größe"


@pytest.mark.parametrize(
    "image",
    ["films\\a.png", "C:\\export\\2019\\films\\a.png", "\\\\server\\share\\films\\a.png"],
)
def test_paths_written_as_windows_does_are_found_below_the_manifest(tmp_path, image):
    write(tmp_path, "csv", {**ROW, "image": image})
    assert one(tmp_path).path == (tmp_path / "films" / "a.png").resolve()


def test_windows_paths_never_lead_out_and_never_leave_out_different_parts(tmp_path):
    root = tmp_path / "export"
    write_film(tmp_path / "secret.png")
    write_film(root / "b" / "x.png")
    rows = [
        {**ROW, "image": "..\\secret.png"},
        {**ROW, "image": "C:\\data\\films\\a.png"},
        {**ROW, "image": "C:\\other\\films\\a.png"},
        {**ROW, "image": "C:\\data\\b\\x.png"},
    ]
    write(root, "csv", *rows)
    found = list(open_source(root))
    assert [getattr(row, "reason", None) for row in found] == [Reason.PATH_UNSAFE, None, Reason.PATH_UNSAFE, None]


@pytest.mark.parametrize(
    ("value", "labels"),
    [("Edema; Mass", ("Edema", "Mass")), ("Edema, Mass", ("Edema", "Mass")), ("['edema', ' mass']", ("Edema", "Mass")),
     ("['__import__(1)'", None)],
)  # fmt: skip
def test_labels_as_other_programs_write_lists(tmp_path, value, labels):
    row = one(write(tmp_path, "csv", {**ROW, "labels": value}))
    assert row.labels == labels if labels else row.reason is Reason.ROW_UNREADABLE
