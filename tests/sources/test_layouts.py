"""Every public layout: recognised, read in order, and refused row by row."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import json
import pickle
from pathlib import Path

import pytest

from tests.sources.exports import CANARY, draw, write_film
from updp.core.reasons import Reason, Refused
from updp.core.record import Study
from updp.sources import LAYOUTS, BadSource, Refusal, open_source, recognise
from updp.sources import iu_xray as iu_xray_module
from updp.sources.base import Layout


def refusals(rows) -> dict[str, Reason]:
    return {row.film_id: row.reason for row in rows if isinstance(row, Refusal)}


def studies(rows) -> list[Study]:
    return [row for row in rows if isinstance(row, Study)]


def write_csv(path: Path, *rows) -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


# -- IU X-Ray --------------------------------------------------------------------------------------------------------


def iu_xray(root: Path) -> Path:
    for name in ("CXR1_IM-0001/0.png", "CXR1_IM-0001/1.png", "CXR2_IM-0002/0.png"):
        write_film(root / "images" / name)
    annotation = {
        "train": [
            {
                "id": "CXR1_IM-0001",
                "report": "Clear lungs.",
                "image_path": ["CXR1_IM-0001/0.png", "CXR1_IM-0001/1.png"],
                "split": "train",
            }
        ],
        "val": [],
        "test": [
            {"id": "CXR2_IM-0002", "report": f"{CANARY} é.", "image_path": ["CXR2_IM-0002/0.png"], "split": "test"},
            {"id": "CXR3_IM-0003", "report": "No film.", "image_path": []},
            {"id": "CXR4_IM-0004", "report": "Gone.", "image_path": ["CXR4_IM-0004/0.png"]},
            {"id": "", "report": "Whose?", "image_path": ["CXR2_IM-0002/0.png"]},
            {"id": "CXR5", "report": "Out.", "image_path": ["../../outside.png"]},
            [CANARY],
        ],
    }
    (root / "annotation.json").write_text(json.dumps(annotation, ensure_ascii=False), "utf-8")
    write_csv(
        root / "reports.csv",
        ["id", "mesh_major", "mesh_auto", "indication", "findings", "impression"],
        ["CXR1_IM-0001", "Cardiomegaly/mild|Thickening/pleura/apex", "", "Cough.", "Clear,\nlungs.", "Normal."],
        ["CXR2_IM-0002", "normal", "", "", "", "Fine."],
    )
    return root


def test_iu_xray_gives_one_study_a_film_with_report_sections(tmp_path):
    rows = list(open_source(iu_xray(tmp_path)))
    films = studies(rows)
    assert [film.film_id for film in films] == ["CXR1_IM-0001/0", "CXR1_IM-0001/1", "CXR2_IM-0002/0"]
    assert {film.study_id for film in films[:2]} == {"CXR1_IM-0001"}
    assert [film.patient_id for film in films] == ["CXR1", "CXR1", "CXR2"]
    assert [film.split for film in films] == ["train", "train", "test"]
    assert dict(films[0].report.sections) == {
        "indication": "Cough.",
        "findings": "Clear,\nlungs.",
        "impression": "Normal.",
    }
    assert dict(films[2].report.sections) == {"findings": f"{CANARY} é.", "impression": "Fine."}
    assert films[0].labels == ("Cardiomegaly", "Pleural_Thickening")
    assert films[2].labels == ()
    assert list(refusals(rows).values()) == [
        Reason.REPORT_ORPHAN,
        Reason.IMAGE_MISSING,
        Reason.ID_MISSING,
        Reason.PATH_UNSAFE,
        Reason.ROW_UNREADABLE,
    ]


def test_iu_xray_without_a_table_of_reports_has_the_findings(tmp_path):
    iu_xray(tmp_path)
    (tmp_path / "reports.csv").unlink()
    first = studies(open_source(tmp_path))[0]
    assert dict(first.report.sections) == {"findings": "Clear lungs."}
    assert first.labels is None


@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_iu_xray_entries_are_the_same_wherever_the_window_ends(tmp_path, monkeypatch, chunk):
    iu_xray(tmp_path)
    expected = json.loads((tmp_path / "annotation.json").read_text("utf-8"))
    monkeypatch.setattr(iu_xray_module, "_CHUNK", chunk)
    found = list(iu_xray_module.entries(tmp_path / "annotation.json"))
    assert found == [(part, entry) for part, entries in expected.items() for entry in entries]


@pytest.mark.usefixtures("canary_free")
@pytest.mark.parametrize("text", ["", "[]", f'"{CANARY}"', '{"train": {}}', '{"train": [{]}', "\ufeff{oh}"])
def test_iu_xray_with_a_broken_annotation_file_is_no_source(tmp_path, text):
    (tmp_path / "annotation.json").write_text(text, "utf-8")
    with pytest.raises(BadSource, match=r"annotation\.json is no annotation file, or is damaged"):
        open_source(tmp_path)


def test_iu_xray_cut_off_in_the_middle_is_told_when_it_ends(tmp_path):
    iu_xray(tmp_path)
    path = tmp_path / "annotation.json"
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(BadSource, match="damaged"):
        list(open_source(tmp_path))


def test_iu_xray_report_that_is_not_utf8_is_refused_alone(tmp_path):
    iu_xray(tmp_path)
    path = tmp_path / "annotation.json"
    path.write_bytes(path.read_bytes().replace("é".encode(), "é".encode("latin-1")))
    rows = list(open_source(tmp_path))
    assert refusals(rows)["CXR2_IM-0002"] is Reason.REPORT_ENCODING
    assert len(studies(rows)) == 2


# -- Open-i ----------------------------------------------------------------------------------------------------------

XML = """<?xml version="1.0" encoding="utf-8"?>
<eCitation><uId id="{uid}"/>
<MedlineCitation><Article><Abstract>
<AbstractText Label="COMPARISON">None.</AbstractText>
<AbstractText Label="FINDINGS">{findings}</AbstractText>
<AbstractText Label="IMPRESSION">Normal.</AbstractText>
</Abstract></Article></MedlineCitation>
<MeSH><major>{mesh}</major></MeSH>
{images}</eCitation>"""


def openi(root: Path) -> Path:
    def report(
        number: int, *films: str, uid: str | None = None, mesh: str = "normal", findings: str = "Clear."
    ) -> None:
        images = "".join(f'<parentImage id="{name}"><caption>PA and Lateral</caption></parentImage>' for name in films)
        text = XML.format(uid=f"CXR{number}" if uid is None else uid, findings=findings, mesh=mesh, images=images)
        (root / "ecgen-radiology" / f"{number}.xml").write_text(text, "utf-8")

    (root / "ecgen-radiology").mkdir(parents=True)
    report(10, "CXR10_IM-0002-1001", mesh="Pulmonary Atelectasis/base")
    report(2, "CXR2_IM-0001-3001", "CXR2_IM-0001-4001", findings=CANARY)
    report(3)
    report(4, "CXR4_IM-0004-1001")
    report(5, "CXR2_IM-0001-3001", uid="")
    for name in ("CXR10_IM-0002-1001", "CXR2_IM-0001-3001", "CXR2_IM-0001-4001"):
        write_film(root / "NLMCXR_png" / f"{name}.png")
    return root


def test_openi_reads_reports_in_the_order_of_their_numbers(tmp_path):
    rows = list(open_source(openi(tmp_path)))
    films = studies(rows)
    assert [film.film_id for film in films] == ["CXR2_IM-0001-3001", "CXR2_IM-0001-4001", "CXR10_IM-0002-1001"]
    assert films[0].patient_id == films[1].patient_id == "CXR2"
    assert dict(films[0].report.sections) == {"comparison": "None.", "findings": CANARY, "impression": "Normal."}
    assert [film.labels for film in films] == [(), (), ("Atelectasis",)]
    assert refusals(rows) == {
        "3": Reason.REPORT_ORPHAN,
        "CXR4_IM-0004-1001": Reason.IMAGE_MISSING,
        "5": Reason.ID_MISSING,
    }


def test_openi_passes_over_films_that_a_projection_table_calls_lateral(tmp_path):
    openi(tmp_path)
    write_csv(
        tmp_path / "indiana_projections.csv",
        ["uid", "filename", "projection"],
        ["2", "IM-0001-4001.dcm.png", "Lateral"],
        ["2", "IM-0001-3001.dcm.png", "Frontal"],
    )
    source = open_source(tmp_path)
    assert [film.film_id for film in studies(source)] == ["CXR2_IM-0001-3001", "CXR10_IM-0002-1001"]
    assert source.skipped == 1


@pytest.mark.usefixtures("canary_free")
@pytest.mark.parametrize(
    "text",
    [
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><eCitation>&b;</eCitation>',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><eCitation>&a;</eCitation>',
        f"<eCitation>{CANARY}",
    ],
)
def test_openi_xml_with_entities_or_damage_is_refused(tmp_path, text):
    openi(tmp_path)
    (tmp_path / "ecgen-radiology" / "7.xml").write_text(text)
    assert refusals(open_source(tmp_path))["7"] is Reason.REPORT_UNREADABLE


def test_openi_xml_that_is_not_utf8_is_refused(tmp_path):
    openi(tmp_path)
    (tmp_path / "ecgen-radiology" / "7.xml").write_text(XML, "utf-16")
    assert refusals(open_source(tmp_path))["7"] is Reason.REPORT_ENCODING


# -- ChestX-ray14 ----------------------------------------------------------------------------------------------------

NIH = "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
NIH += "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]\n"


def chestxray14(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    lines = [
        "00000001_000.png,Cardiomegaly|Pleural_Thickening,0,1,058Y,M,PA,2682,2749,0.143,0.143\n",
        "00000001_001.png,No Finding,1,1,59,M,AP,2894,2729,0.143,0.143\n",
        "00000002_000.png,Hernia,0,2,81,F,PA,2500,2048,0.171,0.171\n",
        "00000003_000.png,Hernia,0,3,81,F,PA,2500,2048,0.171,0.171\n",
        "00000004_000.png,Hernia,0,,81,F,PA,2500,2048,0.171,0.171\n",
        ",Hernia,0,5,81,F,PA,2500,2048,0.171,0.171\n",
        "00000006_000.png,Hernia\n",
        "../00000007_000.png,Hernia,0,7,81,F,PA,2500,2048,0.171,0.171\n",
    ]
    (root / "Data_Entry_2017_v2020.csv").write_text(NIH + "".join(lines))
    write_film(root / "images_001" / "images" / "00000001_000.png")
    write_film(root / "images_001" / "images" / "00000001_001.jpg")
    write_film(root / "images_002" / "images" / "00000002_000.JPEG")
    return root


def test_chestxray14_matches_films_by_stem_in_any_folder(tmp_path):
    rows = list(open_source(chestxray14(tmp_path)))
    films = studies(rows)
    assert [film.film_id for film in films] == ["00000001_000", "00000001_001", "00000002_000"]
    assert [film.patient_id for film in films] == ["1", "1", "2"]
    assert [film.labels for film in films] == [("Cardiomegaly", "Pleural_Thickening"), (), ("Hernia",)]
    assert [(film.view, film.age, film.sex) for film in films] == [("PA", 58, "M"), ("AP", 59, "M"), ("PA", 81, "F")]
    assert {film.split for film in films} == {None}
    assert refusals(rows) == {
        "00000003_000": Reason.IMAGE_MISSING,
        "00000004_000": Reason.ID_MISSING,
        "row 6": Reason.ID_MISSING,
        "row 7": Reason.ROW_UNREADABLE,
        "00000007_000": Reason.PATH_UNSAFE,
    }


def test_chestxray14_has_its_official_split(tmp_path):
    chestxray14(tmp_path)
    (tmp_path / "train_val_list.txt").write_text("00000001_000.png\n00000001_001.png\n")
    (tmp_path / "test_list.txt").write_text("00000002_000.png\n")
    assert [film.split for film in studies(open_source(tmp_path))] == ["train", "train", "test"]


def test_chestxray14_with_another_header_is_no_source(tmp_path):
    (tmp_path / "Data_Entry_2017.csv").write_text(f"a,b,{CANARY}\n")
    with pytest.raises(BadSource, match="the header is not that of ChestX-ray14") as error:
        open_source(tmp_path)
    assert CANARY not in str(error.value)


# -- CheXpert --------------------------------------------------------------------------------------------------------

CHEXPERT = [
    "Path",
    "Sex",
    "Age",
    "Frontal/Lateral",
    "AP/PA",
    "No Finding",
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
]


def chexpert(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    blank = [""] * 14
    top = "CheXpert-v1.0-small"
    labels = ["", "", "1.0", "1.0", "", "-1.0", "0.0", "", "", "", "1.0", "", "", "1.0"]
    write_csv(
        root / "train.csv",
        CHEXPERT,
        [f"{top}/train/patient00001/study1/view1_frontal.jpg", "Female", "68", "Frontal", "AP", *labels],
        [f"{top}/train/patient00001/study1/view2_lateral.jpg", "Female", "68", "Lateral", "", *labels],
        [f"{top}/train/patient00002/study2/view1_frontal.jpg", "Unknown", "87", "Frontal", "PA", "1.0", *blank[1:]],
        [f"{top}/train/patient00003/study1/view1_frontal.jpg", "Male", "40", "Frontal", "PA", *blank],
        [f"{top}/../../etc/patient1/study1/x.jpg", "Male", "40", "Frontal", "PA", *blank],
        [f"{top}/train/{CANARY}.jpg", "Male", "40", "Frontal", "PA", *blank],
        ["short"],
    )
    write_csv(
        root / "valid.csv",
        CHEXPERT,
        [f"{top}/valid/patient64541/study1/view1_frontal.jpg", "Male", "73", "Frontal", "AP", *blank],
    )
    for name in (
        "train/patient00001/study1/view1_frontal.jpg",
        "train/patient00001/study1/view2_lateral.jpg",
        "train/patient00002/study2/view1_frontal.jpg",
        "valid/patient64541/study1/view1_frontal.jpg",
    ):
        write_film(root / name)
    return root


def test_chexpert_counts_positive_labels_only_under_our_names(tmp_path):
    source = open_source(chexpert(tmp_path))
    rows = list(source)
    films = studies(rows)
    assert [film.study_id for film in films] == ["patient00001/study1", "patient00002/study2", "patient64541/study1"]
    assert films[0].labels == ("Cardiomegaly", "Lung Opacity", "Effusion", "Support Devices")
    assert [film.labels for film in films[1:]] == [(), None]
    assert [(film.view, film.age, film.sex, film.split) for film in films] == [
        ("AP", 68, "F", "train"),
        ("PA", 87, None, "train"),
        ("AP", 73, "M", "val"),
    ]
    assert source.skipped == 1
    assert list(refusals(rows).values()) == [
        Reason.IMAGE_MISSING,
        Reason.PATH_UNSAFE,
        Reason.ID_MISSING,
        Reason.ROW_UNREADABLE,
    ]


def test_lateral_films_are_taken_on_request(tmp_path):
    source = open_source(chexpert(tmp_path), frontal_only=False)
    assert [film.view for film in studies(source)] == ["AP", "LATERAL", "PA", "AP"]
    assert source.skipped == 0


# -- MIMIC-CXR -------------------------------------------------------------------------------------------------------


def mimic_cxr(root: Path, suffix: str = "") -> Path:
    root.mkdir(exist_ok=True)
    meta = ["dicom_id", "subject_id", "study_id", "ViewPosition", "Rows", "StudyDate"]
    write_csv(
        root / f"mimic-cxr-2.0.0-metadata.csv{suffix}",
        meta,
        ["aa", "10000032", "50414267", "PA", "3056", "21800506"],
        ["bb", "10000032", "50414267", "LATERAL", "3056", "21800506"],
        ["cc", "10000764", "57375967", "AP", "3056", "21331012"],
        ["dd", "10000764", "57375968", "AP", "3056", ""],
        ["ee", "../" * 6 + "x", "1", "AP", "3056", ""],
        ["", "10000764", "57375968", "AP", "3056", ""],
    )
    write_csv(
        root / f"mimic-cxr-2.0.0-split.csv{suffix}",
        ["dicom_id", "study_id", "subject_id", "split"],
        ["aa", "50414267", "10000032", "train"],
        ["cc", "57375967", "10000764", "validate"],
    )
    write_csv(
        root / f"mimic-cxr-2.0.0-chexpert.csv{suffix}",
        ["subject_id", "study_id", "Atelectasis", "No Finding", "Pleural Effusion"],
        ["10000032", "50414267", "", "1.0", ""],
        ["10000764", "57375967", "1.0", "", "-1.0"],
    )
    base = root / "files" / "p10"
    write_film(base / "p10000032" / "s50414267" / "aa.jpg")
    write_film(base / "p10000032" / "s50414267" / "bb.jpg")
    write_film(base / "p10000764" / "s57375967" / "cc.jpg")
    (base / "p10000032" / "s50414267.txt").write_text("FINAL REPORT\n FINDINGS: Clear.\n IMPRESSION: Normal.\n")
    (base / "p10000764" / "s57375967.txt").write_bytes(b"FINDINGS: caf\xe9 " + CANARY.encode())
    (base / "p10000764" / "s99999999.txt").write_text(f"FINDINGS: {CANARY}")
    return root


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_mimic_cxr_joins_splits_labels_and_reports(tmp_path, suffix):
    source = open_source(mimic_cxr(tmp_path, suffix))
    rows = list(source)
    films = studies(rows)
    assert [(film.film_id, film.study_id, film.patient_id) for film in films] == [
        ("aa", "50414267", "10000032"),
        ("cc", "57375967", "10000764"),
    ]
    assert [film.split for film in films] == ["train", "val"]
    assert [film.labels for film in films] == [(), ("Atelectasis",)]
    assert films[0].date == dt.date(2180, 5, 6)
    assert source.skipped == 1
    assert refusals(rows) == {
        "dd": Reason.IMAGE_MISSING,
        "ee": Reason.PATH_UNSAFE,
        "row 6": Reason.ID_MISSING,
        "s99999999": Reason.REPORT_ORPHAN,
    }
    assert films[0].report is None
    loaded = source.load(films[0])
    assert dict(loaded.report.sections) == {"preamble": "FINAL REPORT", "findings": "Clear.", "impression": "Normal."}
    assert loaded.pixels.shape == draw().shape


@pytest.mark.usefixtures("canary_free")
def test_mimic_cxr_report_that_is_not_utf8_is_refused(tmp_path):
    source = open_source(mimic_cxr(tmp_path))
    with pytest.raises(Refused, match=r"^report-encoding$"):
        source.load(studies(source)[1])


@pytest.mark.usefixtures("canary_free")
def test_mimic_cxr_table_cut_short_by_a_failed_download_is_told(tmp_path):
    mimic_cxr(tmp_path, ".gz")
    path = tmp_path / "mimic-cxr-2.0.0-metadata.csv.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadSource, match="damaged"):
        list(open_source(tmp_path))


# -- recognition and the promises every source keeps -----------------------------------------------------------------

PUBLIC = {
    "iu_xray": iu_xray,
    "openi": openi,
    "chestxray14": chestxray14,
    "chexpert": chexpert,
    "mimic_cxr": mimic_cxr,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_layout_is_recognised_and_no_other(tmp_path, name):
    assert recognise(PUBLIC[name](tmp_path)) == [name]
    assert open_source(tmp_path).layout == name


@pytest.mark.parametrize("name", PUBLIC)
def test_a_source_can_be_iterated_again_and_sent_to_a_worker(tmp_path, name):
    source = open_source(PUBLIC[name](tmp_path))
    rows = list(source)
    assert list(source) == rows
    sent = pickle.dumps((source, studies(rows)[0]))
    assert len(sent) < 5000
    worker, study = pickle.loads(sent)
    assert worker.load(study).pixels.shape == draw().shape


@pytest.mark.parametrize("name", PUBLIC)
def test_a_limit_takes_the_first_films(tmp_path, name):
    root = PUBLIC[name](tmp_path)
    whole = studies(open_source(root))
    assert studies(open_source(root, limit=2)) == whole[:2]
    assert list(open_source(root, limit=0)) == []


def test_the_order_of_a_folder_does_not_matter(tmp_path, monkeypatch):
    import os

    root = openi(tmp_path)
    rows = list(open_source(root))
    real = os.walk
    monkeypatch.setattr(os, "walk", lambda *a, **k: ((f, d[::-1], n[::-1]) for f, d, n in real(*a, **k)))
    assert list(open_source(root)) == rows


@pytest.mark.usefixtures("canary_free")
def test_two_layouts_in_one_folder_are_named_with_the_way_out(tmp_path):
    chestxray14(iu_xray(tmp_path / CANARY.lower()))
    with pytest.raises(BadSource) as error:
        open_source(tmp_path / CANARY.lower())
    assert "several layouts in one folder (iu_xray, chestxray14)" in str(error.value)
    assert "--layout iu_xray or --layout chestxray14" in str(error.value)
    assert open_source(tmp_path / CANARY.lower(), "iu_xray").layout == "iu_xray"


def test_wrong_use_is_told_plainly(tmp_path):
    with pytest.raises(BadSource, match="no such folder"):
        open_source(tmp_path / "nowhere")
    with pytest.raises(BadSource, match="the folder is empty"):
        open_source(tmp_path)
    (tmp_path / f"{CANARY}.docx").touch()
    with pytest.raises(BadSource, match="no known layout was recognised; known: release, iu_xray") as error:
        open_source(tmp_path)
    assert CANARY not in str(error.value)
    with pytest.raises(BadSource, match="no layout 'dicon'; did you mean 'dicom'\\? there are: release"):
        open_source(tmp_path, "dicon")
    with pytest.raises(BadSource, match="does not hold the layout chexpert"):
        open_source(tmp_path, "chexpert")
    with pytest.raises(BadSource, match="limit"):
        open_source(tmp_path, limit=-1)


def test_every_layout_has_a_line_that_describes_it():
    for name, entry in LAYOUTS.members():
        assert entry.__doc__, name
        assert entry.__doc__ != Layout.__doc__
        assert "\n" not in entry.__doc__
