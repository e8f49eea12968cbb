"""A film says how it came to be wherever it goes, and withholds in its file what the manifest withholds."""

from __future__ import annotations

import datetime as dt
import io
from types import SimpleNamespace

import numpy as np
import pydicom
import pytest
from PIL import Image

from tests.screening.objects import clean, film
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.record import Study
from updp.domains.chest.labels import LABELS
from updp.imaging.encode import encode_png
from updp.pipeline.stations import Pseudonymise
from updp.release import card
from updp.release.dicom import encode_dicom
from updp.release.provenance import provenance

KEY = Key(bytes(range(32)))
TERMS = "research only"


def study(**more) -> Study:
    made = {"film_id": "f1", "study_id": "s1", "patient_id": "p1", "pixels": np.full((32, 48), 0.4, np.float32),
            "view": "PA", "date": dt.date(2019, 3, 7), "header": clean(film())}  # fmt: skip
    return Study(**(made | more))


def written(method: str, attributes=("view", "labels")) -> pydicom.Dataset:
    policy = Policy.model_validate({"method": {"name": method}})
    return pydicom.dcmread(io.BytesIO(encode_dicom(study(), attributes, provenance(policy))))


@pytest.mark.parametrize("method", ["updp", "dcm", "privdiff"])
def test_a_generated_film_says_so_in_every_place_of_its_dicom_file(method):
    data = written(method)
    assert str(data.PatientName) == "SYNTHETIC^p1"
    assert data.ConversionType == "SYN"
    places = [
        data.DerivationDescription,
        data.ImageComments,
        data.ContributingEquipmentSequence[0].ContributionDescription,
    ]
    for text in places:
        assert "SYNTHETIC" in text
        assert "Not for diagnosis" in text
        assert TERMS in text


@pytest.mark.parametrize("method", ["blur", "pixelate"])
def test_an_altered_film_is_not_called_synthetic_but_not_for_diagnosis_either(method):
    data = written(method)
    assert "SYNTHETIC" not in str(data)
    assert "Not for diagnosis" in data.DerivationDescription


def test_a_film_as_taken_is_neither():
    assert "SYNTHETIC" not in str(written("keep"))


def test_a_png_carries_the_statement_and_the_same_bytes_each_time():
    statement = provenance(Policy()).statement
    data = encode_png(study().pixels, {"Description": statement})
    assert Image.open(io.BytesIO(data)).text == {"Description": statement}
    assert data == encode_png(study().pixels, {"Description": statement})


def temporal(data: pydicom.Dataset) -> list[str]:
    return [element.keyword for element in data.iterall() if element.VR in ("DA", "TM", "DT") and element.value]


def test_a_withheld_date_is_in_no_element_of_the_file():
    data = written("keep")
    assert temporal(data) == []
    assert data.LongitudinalTemporalInformationModified == "REMOVED"


def test_a_released_date_is_there():
    assert "StudyDate" in temporal(written("keep", ("date",)))


def test_sex_and_view_follow_the_manifest_too():
    header = clean(film(ViewPosition="AP"), retain_patient_characteristics=True)
    bare = pydicom.dcmread(io.BytesIO(encode_dicom(study(header=header), (), provenance(Policy()))))
    assert not bare.get("PatientSex")
    assert not bare.get("ViewPosition")
    told = pydicom.dcmread(io.BytesIO(encode_dicom(study(header=header), ("sex", "view"), provenance(Policy()))))
    assert (told.PatientSex, told.ViewPosition) == ("F", "PA")


def facts(**tallies) -> dict:
    gate = {"status": "not-measured", "checks": []}
    return {
        "updp": "0",
        "counts": {"released": 1, "quarantined": {}},
        "tallies": tallies,
        "measurements": [],
        "gate": gate,
    }


@pytest.mark.parametrize(("method", "word"), [("updp", "SYNTHETIC"), ("blur", "altered"), ("keep", "as taken")])
def test_card_and_croissant_say_how_films_were_made(tmp_path, method, word):
    policy = Policy.model_validate({"method": {"name": method}, "image": {"size": 1024}})
    (tmp_path / "manifest.parquet").write_bytes(b"rows")
    text = card.readme(facts(**{"size/256 × 256": 1}), policy, KEY)
    assert word in text
    assert provenance(policy).statement in text
    assert provenance(policy).statement in card.croissant(tmp_path, facts(), policy)
    assert "256 × 256" in text  # the files' own size
    assert "1024" not in text


@pytest.mark.parametrize(
    ("found", "released", "dropped", "lost"),
    [
        ("Tuberculosis", None, 1, 1),
        ("No Finding", (), 0, 0),
        ("COVID-19|Pneumonia", ("Pneumonia",), 1, 0),
        ("COVID-19|Tuberculosis", None, 2, 1),
        ("Pneumonia", ("Pneumonia",), 0, 0),
        (None, None, 0, 0),
    ],
)
def test_an_unknown_label_is_null_and_counted_never_none_found(found, released, dropped, lost):
    labels = None if found is None else LABELS.canonical(found.split("|"))
    domain = SimpleNamespace(labels=LABELS, stations=("screen", "report"))
    station = Pseudonymise(SimpleNamespace(key=KEY, policy=Policy(), source=SimpleNamespace(domain=domain)))
    out = station(study(labels=labels))
    assert out.labels == released
    assert (out.notes["labels_dropped"], out.notes["labels_lost"]) == (dropped, lost)


def test_the_card_counts_labels_it_does_not_know():
    text = card.readme(facts(labels_dropped=3, labels_lost=2), Policy(), KEY)
    assert "Labels: 3 of unknown names were left out; 2 films had no others" in text
    assert "Labels:" not in card.readme(facts(), Policy(), KEY)
