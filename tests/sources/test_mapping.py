"""Mappings: a user's own columns, those that ship, identifying columns."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.sources.exports import CANARY, write_dicom, write_film
from updp.core.policy import Policy
from updp.core.reasons import Reason
from updp.core.record import Study
from updp.sources import BadSource, Refusal, open_source, recognise
from updp.sources.manifest import Manifest, known_words
from updp.sources.mapping import BESIDE, shipped


def table(path: Path, header: str, *rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return path


def mapping(text: str):
    return Policy.parse(text).source


# -- a user's own ----------------------------------------------------------------------------------------------------

OWN = """
[source.columns]
patient_id = "Patienten-Nr"
image = "bilder/{Jahr}/{Datei}"
findings = "Befund"
labels = ["Erguss", "Edema", "Kardiomegalie"]
identifiers = ["Name", "Station"]
birth_date = "Geb.-Datum"
date = "Datum"
[source.values]
labels = {"Erguss" = "Effusion", "Kardio*" = "Cardiomegaly"}
[source]
only = {"Modalität" = "CR"}
"""
HEADER = "Patienten-Nr;Jahr;Datei;Befund;Erguss;Edema;Kardiomegalie;Name;Station;Geb.-Datum;Datum;Modalität"


def own(root: Path) -> Path:
    write_film(root / "bilder" / "2019" / "a.png")
    table(
        root / "liste.csv",
        HEADER,
        f"4711;2019;a.png;Lungs clear.;1;0;ja;{CANARY};West 7;01.02.1950;2019-03-04;CR",
        f"4712;2019;a.png;Lungs clear.;x;;1;{CANARY};West 7;01.02.1950;2019-03-04;CR",
        f"4713;2019;a.png;Lungs clear.;;;;{CANARY};West 7;01.02.1950;2019-03-04;CT",
        f"4714;2019;a.png;Lungs clear.;;;;{CANARY};West 7;01.02.1950;01.04.2019;cr",
    )
    return root


def ordered(text: str) -> str:
    """TOML wants a section's own keys before its tables."""
    return '[source]\nonly = {"Modalität" = "CR"}\n' + text.replace('[source]\nonly = {"Modalität" = "CR"}\n', "")


def test_a_mapping_says_which_column_holds_what(tmp_path):
    source = open_source(own(tmp_path), mapping=mapping(ordered(OWN)))
    bad, second, fourth = source
    assert bad.reason is Reason.ROW_UNREADABLE  # nobody said what "ja" is
    assert second.labels == ("Effusion", "Cardiomegaly")
    assert fourth.labels is None
    assert (second.patient_id, second.age) == ("4712", 69)
    assert second.path == (tmp_path / "bilder/2019/a.png").resolve()
    assert dict(second.report.sections) == {"findings": "Lungs clear."}
    assert source.excluded == 1


def test_a_mapping_beside_the_table_is_read_by_every_command(tmp_path):
    own(tmp_path)
    assert recognise(tmp_path) == []
    (tmp_path / BESIDE).write_text(ordered(OWN), "utf-8")
    assert recognise(tmp_path) == ["manifest"]
    assert len(list(open_source(tmp_path))) == 3


def test_a_mapping_beside_the_table_says_nothing_but_columns(tmp_path):
    own(tmp_path)
    (tmp_path / BESIDE).write_text(ordered(OWN) + "[report]\nmode = 'withhold'\n", "utf-8")
    with pytest.raises(BadSource, match="all else belongs"):
        open_source(tmp_path)
    (tmp_path / BESIDE).write_text("[source]\ncolumns = 3\n", "utf-8")
    with pytest.raises(BadSource, match=r"updp\.toml:2"):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[source.columns]\npatient = 'a'\n", "no column 'patient'"),
        ("[source.values]\nviews = {a = 'b'}\n", "no column 'views'"),
        ("[source.columns]\npatient_id = 'Nobody'\nimage = '{Datei}'\n", 'lacks a column: "nobody"'),
        ("[source]\ntable = 'other.csv'\n", "not in this folder"),
        ("[source]\ntable = '../liste.csv'\n", "not in this folder"),
    ],
)
def test_a_mapping_that_does_not_fit_is_told(tmp_path, text, message):
    own(tmp_path)
    with pytest.raises(BadSource, match=message):
        open_source(tmp_path, mapping=mapping(text))


def test_a_mapping_is_for_tables_alone(tmp_path):
    with pytest.raises(BadSource, match="belongs to the layout manifest"):
        open_source(tmp_path, "dicom", mapping=mapping(ordered(OWN)))


def test_a_release_does_not_state_the_hospitals_columns():
    stated = Policy.parse(ordered(OWN)).public()
    assert stated.source == Policy().source
    assert "Patienten" not in stated.to_toml()
    assert Policy.parse(Policy.parse(ordered(OWN)).to_toml()) == Policy.parse(ordered(OWN))


# -- several rows per film -------------------------------------------------------------------------------------------

READERS = "image_id,subject_id,path,labels"
ROWS = ("f1,p1,a.png,Edema|Mass", "f2,p2,a.png,No Finding", "f1,p1,a.png,Edema", "f1,p1,a.png,No finding",
        "f2,p2,a.png,Mass", "f3,p3,a.png,")  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "labels"),
    [("any", [("Edema", "Mass"), ("Mass",), None]), ("majority", [("Edema",), (), None])],
)
def test_rows_of_one_film_are_one_film(tmp_path, rows, labels):
    write_film(tmp_path / "a.png")
    table(tmp_path / "manifest.csv", READERS, *ROWS)
    found = list(open_source(tmp_path, mapping=mapping(f"[source]\nrows = '{rows}'\n")))
    assert [study.film_id for study in found] == ["f1", "f2", "f3"]
    assert [study.labels for study in found] == labels


# -- identifying columns ---------------------------------------------------------------------------------------------


def test_identifying_columns_seed_the_detector_and_are_gone_afterwards(tmp_path):
    write_film(tmp_path / "a.png")
    table(
        tmp_path / "manifest.csv",
        "film_id,patient_id,image,findings,patient_name,dob,mrn,radiologist",
        'f1,p1,a.png,Clear.,"Quackenbush, Zebulon",1950-02-01,12-345-67,Dr. Oona Vex',
    )
    source = open_source(tmp_path)
    (study,) = source
    assert "Quackenbush" not in repr(study)
    loaded = source.load(study)
    assert loaded.identifiers == {}
    assert "Quackenbush" not in repr(loaded)
    words = loaded.known.reveal()
    assert {"Quackenbush", "Zebulon", "12-345-67", "Oona", "Vex", "02/01/1950"} <= set(words)


def test_a_name_in_a_column_is_found_in_the_report_whatever_the_word(tmp_path, key):
    from updp.pipeline import stations

    write_film(tmp_path / "a.png")
    table(
        tmp_path / "manifest.csv",
        "film_id,patient_id,image,findings,patient_name",
        'f1,p1,a.png,"The lungs of Clearlung are clear. Snowdrop was seen.","Clearlung, Snowdrop"',
    )
    source = open_source(tmp_path)
    (study,) = source
    line = stations.build(source, Policy.parse("[burned_in]\nmode = 'off'\n"), key)
    passed = stations.passage(study, line)
    text = passed.report.text()
    assert "clear." in text
    assert "Clearlung" not in text
    assert "Snowdrop" not in text
    assert passed.known is None
    assert passed.identifiers == {}


def test_short_numbers_are_no_identifiers_of_a_report():
    assert known_words({"PatientBirthDate birth_date 0": "1950", "OtherPatientIDs identifiers 0": "117"}) == []
    assert known_words({"PatientBirthDate birth_date 0": "1/2/1950"}) == ["1/2/1950"]
    assert known_words({}) == []


# -- the mappings that ship, on the header lines of the sets themselves ----------------------------------------------

VINDR = (
    "Aortic enlargement,Atelectasis,Calcification,Cardiomegaly,Clavicle fracture,Consolidation,Edema,Emphysema,"
    "Enlarged PA,ILD,Infiltration,Lung Opacity,Lung cavity,Lung cyst,Mediastinal shift,Nodule/Mass,Pleural effusion,"
    "Pleural thickening,Pneumothorax,Pulmonary fibrosis,Rib fracture,Other lesion,COPD,Lung tumor,Pneumonia,"
    "Tuberculosis,Other diseases,No finding"
)


def vindr(*present: str) -> str:
    return ",".join("1" if name in present else "0" for name in VINDR.split(","))


COVID = (
    "patientid,offset,sex,age,finding,RT_PCR_positive,survival,intubated,intubation_present,went_icu,in_icu,"
    "needed_supplemental_O2,extubated,temperature,pO2_saturation,leukocyte_count,neutrophil_count,lymphocyte_count,"
    "view,modality,date,location,folder,filename,doi,url,license,clinical_notes,other_notes,"
)
PADCHEST = (
    ",ImageID,ImageDir,StudyDate_DICOM,StudyID,PatientID,PatientBirth,PatientSex_DICOM,ViewPosition_DICOM,Projection,"
    "MethodProjection,Pediatric,Modality_DICOM,Manufacturer_DICOM,PhotometricInterpretation_DICOM,"
    "PixelRepresentation_DICOM,PixelAspectRatio_DICOM,SpatialResolution_DICOM,BitsStored_DICOM,WindowCenter_DICOM,"
    "WindowWidth_DICOM,Rows_DICOM,Columns_DICOM,XRayTubeCurrent_DICOM,Exposure_DICOM,ExposureInuAs_DICOM,"
    "ExposureTime,RelativeXRayExposure_DICOM,ReportID,Report,MethodLabel,Labels,Localizations,"
    "LabelsLocalizationsBySentence,labelCUIS,LocalizationsCUIS"
)


def row(header: str, **cells: str) -> str:
    names = header.split(",")
    assert set(cells) <= set(names)
    from io import StringIO

    out = StringIO()
    csv.writer(out, lineterminator="").writerow([cells.get(name, "") for name in names])
    return out.getvalue()


def covid(root: Path) -> None:
    write_film(root / "images" / "a.jpeg")
    common = {
        "patientid": "2",
        "sex": "M",
        "age": "65.0",
        "folder": "images",
        "filename": "a.jpeg",
        "modality": "X-ray",
        "date": "January 22, 2020",
        "location": "Cho Ray Hospital, Ho Chi Minh City, Vietnam",
        "view": "AP Supine",
        "finding": "Pneumonia/Viral/COVID-19",
        "clinical_notes": "Notes, with a comma",
    }
    table(
        root / "metadata.csv",
        COVID,
        row(COVID, **common),
        row(COVID, **(common | {"finding": "No Finding", "filename": "b.jpeg"})),
        row(COVID, **(common | {"modality": "CT", "view": "Axial"})),
    )


def vindr_train(root: Path) -> None:
    write_dicom(root / "train" / "50a4.dicom")
    readers = [("R11", ("Pleural effusion", "Rib fracture")), ("R7", ("Pleural effusion",)), ("R10", ("No finding",))]
    table(
        root / "annotations" / "image_labels_train.csv",
        "image_id,rad_id," + VINDR,
        *(f"50a4,{reader},{vindr(*present)}" for reader, present in readers),
    )


def vindr_test(root: Path) -> None:
    write_dicom(root / "test" / "008b.dicom")
    header = "image_id," + VINDR.replace("Other diseases", "Other disease")
    table(root / "annotations" / "image_labels_test.csv", header, f"008b,{vindr('Nodule/Mass')}")


def vinbigdata(root: Path) -> None:
    write_dicom(root / "train" / "9a5094.dicom")
    table(
        root / "train.csv",
        "image_id,class_name,class_id,rad_id,x_min,y_min,x_max,y_max",
        "9a5094,Cardiomegaly,3,R10,691.0,1375.0,1653.0,1831.0",
        "50a418,No finding,14,R11,,,,",
        "9a5094,Pulmonary fibrosis,13,R8,1.0,2.0,3.0,4.0",
    )


def padchest(root: Path) -> None:
    name = "20536686640136348236148679891455886468_k6ga29.png"
    write_film(root / "0" / name)
    table(
        root / "PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv",
        PADCHEST,
        row(PADCHEST, ImageID=name, ImageDir="0", StudyDate_DICOM="20140915", StudyID="20536686640136348236148",
            PatientID="839860488694292331637988235681460987", PatientBirth="1930.0", PatientSex_DICOM="F",
            Projection="AP_horizontal", Report="sin hallazgos patologicos",
            Labels="['pulmonary fibrosis', ' chronic changes', 'pleural effusion']"),
    )  # fmt: skip


def rsna(root: Path) -> None:
    write_dicom(root / "stage_2_train_images" / "0004.dcm")
    table(root / "stage_2_train_labels.csv", "patientId,x,y,width,height,Target", "0004,,,,,0")
    table(root / "stage_2_detailed_class_info.csv", "patientId,class", "0004,Lung Opacity", "0004,Lung Opacity")


def shenzhen(root: Path, name: str = "CHNCXR_0327_1.png", which: str = "shenzhen") -> None:
    write_film(root / "images" / "images" / name)
    table(root / f"{which}_metadata.csv", "study_id,sex,age,findings", f'{name},Male,45,"right PTB, pleuritis"')


def montgomery(root: Path) -> None:
    shenzhen(root, "MCUCXR_0104_1.png", "montgomery")


SETS = {
    "covid-chestxray": (covid, dict(patient_id="2", labels=("Pneumonia", "COVID-19"), view="AP", sex="M", age=65)),
    "vindr-cxr-train": (vindr_train, dict(film_id="50a4", labels=("Effusion",))),
    "vindr-cxr-test": (vindr_test, dict(film_id="008b", labels=("Lung Lesion",))),
    "vinbigdata": (vinbigdata, dict(film_id="9a5094", labels=("Cardiomegaly", "Fibrosis"))),
    "padchest": (padchest, dict(labels=("Fibrosis", "chronic changes", "Effusion"), view="AP", sex="F", age=84)),
    "rsna-pneumonia": (rsna, dict(film_id="0004", labels=("Lung Opacity",))),
    "shenzhen": (shenzhen, dict(labels=("Tuberculosis",), sex="M", age=45)),
    "montgomery": (montgomery, dict(labels=("Tuberculosis",), film_id="MCUCXR_0104_1.png")),
}


def test_every_mapping_that_ships_is_tested():
    assert set(SETS) == set(shipped())


@pytest.mark.parametrize("name", SETS)
def test_a_public_set_is_recognised_by_its_real_header_and_read(tmp_path, name):
    make, expected = SETS[name]
    make(tmp_path)
    of_dicom = any(path.read_bytes()[128:132] == b"DICM" for path in tmp_path.rglob("*") if path.is_file())
    assert recognise(tmp_path) == (["dicom", "manifest"] if of_dicom else ["manifest"])
    source = open_source(tmp_path, "manifest")
    first = next(iter(source))
    assert isinstance(first, Study)
    assert {field: getattr(first, field) for field in expected} == expected
    assert source.load(first).pixels is not None


def test_a_set_of_dicom_files_with_its_table_is_read_by_its_table(tmp_path):
    vindr_train(tmp_path)
    assert open_source(tmp_path).layout == "manifest"


def test_scans_of_another_modality_are_passed_over_and_missing_films_refused(tmp_path):
    covid(tmp_path)
    source = open_source(tmp_path)
    film, missing = source
    assert isinstance(film, Study)
    assert missing == Refusal("b.jpeg", Reason.IMAGE_MISSING)
    assert source.excluded == 1


def test_a_report_in_another_language_is_left_behind(tmp_path):
    padchest(tmp_path)
    (study,) = open_source(tmp_path)
    assert study.report is None


def test_two_mappings_that_fit_are_told(tmp_path):
    vindr_train(tmp_path)
    vindr_test(tmp_path)
    with pytest.raises(BadSource, match=r"vindr-cxr-test, vindr-cxr-train.*updp init"):
        Manifest(tmp_path, domain=None)
