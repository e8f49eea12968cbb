from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.sources.exports import CANARY, container, draw, text_item, write_dicom, write_film, write_sr
from updp.core.reasons import Reason, Refused
from updp.core.record import Study
from updp.sources import Refusal, open_source, recognise

FINDINGS = ("121071", "Finding")
IMPRESSION = ("121073", "Impression")


def refusals(rows) -> dict[str, Reason]:
    return {row.film_id: row.reason for row in rows if isinstance(row, Refusal)}


def studies(rows) -> list[Study]:
    return [row for row in rows if isinstance(row, Study)]


def film(root: Path, name: str, number: int = 1, study: str = "1.2.3", **changes) -> Path:
    return write_dicom(root / name, **{"SOPInstanceUID": f"{study}.{number}", "StudyInstanceUID": study, **changes})


def test_a_tree_is_known_by_its_content_whatever_the_names(tmp_path):
    film(tmp_path, "A/IM000001", 1)
    film(tmp_path, "A/scan.dcm", 2)
    film(tmp_path, "B/picture.jpeg", 3)
    assert recognise(tmp_path) == ["dicom"]
    rows = list(open_source(tmp_path))
    assert [row.film_id for row in rows] == ["1.2.3.1", "1.2.3.2", "1.2.3.3"]
    assert {(row.study_id, row.patient_id, row.view) for row in rows} == {("1.2.3", "MRN-1", "PA")}


def test_loading_reads_pixels_header_and_what_the_header_says(tmp_path):
    film(tmp_path, "a")
    source = open_source(tmp_path)
    (study,) = source
    assert (study.pixels, study.header) == (None, None)
    worker, sent = pickle.loads(pickle.dumps((source, study)))
    loaded = worker.load(sent)
    assert loaded.pixels.shape == draw().shape
    assert loaded.pixels.dtype == np.float32
    assert (loaded.age, loaded.sex, loaded.date) == (58, "F", dt.date(2019, 3, 4))
    assert "PixelData" not in loaded.header
    assert loaded.header.PatientID == "MRN-1"
    assert loaded.notes["window"] == "percentile"


def test_lateral_films_are_passed_over_and_unknown_views_kept(tmp_path):
    film(tmp_path, "a", 1, ViewPosition="LL")
    film(tmp_path, "b", 2, ViewPosition=None, SeriesDescription="CHEST LAT")
    film(tmp_path, "c", 3, ViewPosition=None, SeriesDescription="CHEST PA AND LAT")
    film(tmp_path, "d", 4, ViewPosition=None, SeriesDescription="CHEST AP PORTABLE")
    source = open_source(tmp_path)
    assert [(row.film_id, row.view) for row in source] == [("1.2.3.3", None), ("1.2.3.4", "AP")]
    assert source.skipped == 2


@pytest.mark.posix
@pytest.mark.usefixtures("canary_free")
def test_files_that_cannot_be_used_are_refused_each_with_its_reason(tmp_path):
    root = tmp_path / "export"
    film(root, "a-good", 1)
    film(root, "b-no-patient", 2, PatientID="")
    film(root, "c-no-study", 3, StudyInstanceUID=None)
    film(root, "d-ct", 4, SOPClassUID="1.2.840.10008.5.1.4.1.1.2")
    write_dicom(root / "DICOMDIR", SOPClassUID="1.2.840.10008.1.3.10", PatientID=CANARY)
    (root / "e.dcm").touch()
    (root / "f.dcm").write_text(CANARY * 40)
    (root / "g.dcm").write_bytes(b"\0" * 128 + b"DICM" + CANARY.encode())
    (root / "h.xlsx").write_text(CANARY)
    outside = film(tmp_path, "outside/x.dcm", 9, PatientID=CANARY)
    (root / "i.dcm").symlink_to(outside)
    (root / "linked").symlink_to(outside.parent)
    (root / "dangling.dcm").symlink_to(root / "nowhere")
    rows = list(open_source(root))
    assert [row.film_id for row in studies(rows)] == ["1.2.3.1"]
    assert refusals(rows) == {
        "linked": Reason.PATH_UNSAFE,
        "DICOMDIR": Reason.DICOM_DIRECTORY,
        "b-no-patient": Reason.ID_MISSING,
        "c-no-study": Reason.ID_MISSING,
        "d-ct": Reason.NOT_A_FILM,
        "dangling.dcm": Reason.IMAGE_MISSING,
        "e.dcm": Reason.IMAGE_EMPTY,
        "f.dcm": Reason.DICOM_UNREADABLE,
        "g.dcm": Reason.DICOM_UNREADABLE,
        "i.dcm": Reason.PATH_UNSAFE,
    }


@pytest.mark.usefixtures("canary_free")
def test_a_film_damaged_beyond_its_header_is_refused_when_loaded(tmp_path):
    path = film(tmp_path, "a")
    path.write_bytes(path.read_bytes()[:-500])
    source = open_source(tmp_path)
    (study,) = source
    with pytest.raises(Refused, match=r"^dicom-unreadable$"):
        source.load(study)


# -- text reports ----------------------------------------------------------------------------------------------------


def report_of(root: Path, at: int = 0) -> dict[str, str] | None:
    source = open_source(root)
    report = source.load(studies(source)[at]).report
    return dict(report.sections) if report else None


@pytest.mark.parametrize("name", ["s/film.txt", "s/film.dcm.txt", "s/ACC-7.txt", "reports/ACC-7.txt", "1.2.3.txt"])
def test_a_text_report_is_found_by_the_name_of_film_accession_or_study(tmp_path, name):
    film(tmp_path, "s/film.dcm", AccessionNumber="ACC-7")
    film(tmp_path, "t/film.dcm", 1, study="1.2.4")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("FINDINGS: Clear.")
    assert report_of(tmp_path, 0) == {"findings": "Clear."}
    assert report_of(tmp_path, 1) is None
    assert not refusals(open_source(tmp_path))


def test_the_only_text_in_a_study_folder_is_its_report(tmp_path):
    film(tmp_path, "p/study/series1/a.dcm", 1)
    film(tmp_path, "p/study/series2/b.dcm", 2)
    (tmp_path / "p/study/report.txt").write_text("IMPRESSION: Normal.")
    film(tmp_path, "q/c.dcm", 1, study="1.2.4")
    assert report_of(tmp_path, 0) == report_of(tmp_path, 1) == {"impression": "Normal."}
    assert report_of(tmp_path, 2) is None


def test_the_only_text_in_a_folder_of_two_studies_is_nobodys(tmp_path):
    film(tmp_path, "a.dcm", 1)
    film(tmp_path, "b.dcm", 1, study="1.2.4", PatientID="MRN-2")
    (tmp_path / "report.txt").write_text(f"FINDINGS: {CANARY}")
    rows = list(open_source(tmp_path))
    assert [row.report_path for row in studies(rows)] == [None, None]
    assert refusals(rows) == {"report.txt": Reason.REPORT_ORPHAN}


def test_a_readme_is_no_report(tmp_path):
    film(tmp_path, "a.dcm")
    (tmp_path / "README.txt").write_text("exported")
    assert report_of(tmp_path) is None
    assert not refusals(open_source(tmp_path))


@pytest.mark.usefixtures("canary_free")
def test_a_text_report_that_is_not_utf8_is_refused(tmp_path):
    film(tmp_path, "a.dcm")
    (tmp_path / "a.txt").write_bytes(f"{CANARY} café".encode("latin-1"))
    with pytest.raises(Refused, match=r"^report-encoding$"):
        report_of(tmp_path)


# -- structured reports ----------------------------------------------------------------------------------------------


def test_a_structured_report_in_another_series_is_the_studys_report(tmp_path):
    film(tmp_path, "study/cr/a.dcm")
    write_sr(
        tmp_path / "study/sr/b.dcm",
        container("121070", "Findings", text_item(*FINDINGS, "Clear."), text_item(*FINDINGS, "No effusion.")),
        container("121072", "Impressions", text_item(*IMPRESSION, "Normal.")),
        container("x", CANARY, text_item("y", "Comment", "Seen by someone.")),
    )
    assert report_of(tmp_path) == {
        "findings": "Clear.\n\nNo effusion.",
        "impression": "Normal.",
        "other": "Seen by someone.",
    }


def test_a_whole_report_in_one_text_item_is_cut_at_its_headings(tmp_path):
    film(tmp_path, "a")
    write_sr(tmp_path / "b", text_item("121071", "Finding", "FINDINGS: Clear.\nIMPRESSION: Normal."))
    assert report_of(tmp_path) == {"findings": "Clear.", "impression": "Normal."}


def test_the_verified_report_counts_among_several(tmp_path):
    film(tmp_path, "a")
    write_sr(tmp_path / "b", text_item(*FINDINGS, "final"), SOPInstanceUID="1.2.3.98", ContentDate="20190304")
    write_sr(
        tmp_path / "c",
        text_item(*FINDINGS, "draft"),
        SOPInstanceUID="1.2.3.99",
        VerificationFlag="UNVERIFIED",
        ContentDate="20190305",
    )
    assert report_of(tmp_path) == {"findings": "final"}


def test_a_structured_report_of_another_patient_is_a_conflict(tmp_path):
    film(tmp_path, "a")
    write_sr(tmp_path / "b", text_item(*FINDINGS, "whose?"), PatientID="MRN-2")
    assert refusals(open_source(tmp_path)) == {"a": Reason.PATIENT_CONFLICT}


def test_a_study_disputed_by_its_structured_report_is_kept_back_whole(tmp_path):
    from updp.core.keys import Key
    from updp.pipeline.run import take_survey

    film(tmp_path, "a", SOPInstanceUID="1.2.3.1")
    film(tmp_path, "b", SOPInstanceUID="1.2.3.2", PatientID="MRN-2")
    write_sr(tmp_path / "c", text_item(*FINDINGS, "whose?"), PatientID="MRN-2")
    survey = take_survey(open_source(tmp_path), Key(bytes(32)))
    assert len(survey.conflicts) == 1


def test_a_structured_report_without_films_is_refused(tmp_path):
    film(tmp_path, "a")
    write_sr(tmp_path / "b", text_item(*FINDINGS, CANARY), StudyInstanceUID="9.9", SOPInstanceUID="9.9.1")
    assert refusals(open_source(tmp_path)) == {"9.9.1": Reason.REPORT_ORPHAN}


def test_a_report_nested_without_end_is_refused(tmp_path):
    film(tmp_path, "a")
    item = text_item(*FINDINGS, "deep")
    for _ in range(40):
        item = container("121070", "Findings", item)
    write_sr(tmp_path / "b", item)
    with pytest.raises(Refused, match=r"^report-unreadable$"):
        report_of(tmp_path)


def test_a_dicom_tree_beside_a_manifest_is_two_layouts(tmp_path):
    film(tmp_path, "films/a.dcm")
    write_film(tmp_path / "b.png")
    (tmp_path / "manifest.csv").write_text("film_id,patient_id,image\nf,p,films/a.dcm\n")
    assert recognise(tmp_path) == ["dicom", "manifest"]
