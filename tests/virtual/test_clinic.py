"""The virtual clinic: several photographs per person, one disease, masks and landmarks that move along."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from PIL import Image

from tests.domains.face.photographs import FACES, face, unit
from updp.domains.face.labels import DISEASES, GRADES
from updp.sources import open_source
from updp.virtual.clinic import BadClinic, make_clinic, retaken, sign_of


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return make_clinic(tmp_path_factory.mktemp("clinic"), seed=0, people=8, photographs=2)


def rows(folder):
    with (folder / "manifest.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_clinic_is_a_source_of_the_domain(clinic):
    assert (clinic.people, clinic.photographs, clinic.refused) == (8, 16, 0)
    studies = list(open_source(clinic.folder, domain="face"))
    assert len(studies) == 16
    assert {label for study in studies for label in study.labels} <= {*DISEASES, *GRADES}
    assert len({study.patient_id for study in studies}) == 8


def test_a_persons_disease_is_the_same_on_every_photograph(clinic):
    found: dict[str, set[str]] = {}
    for row in rows(clinic.folder):
        found.setdefault(row["patient_id"], set()).add(row["labels"])
    assert all(len(labels) == 1 for labels in found.values())
    assert len(set.union(*found.values())) > 4


def test_photographs_of_a_person_differ_and_masks_fit_them(clinic):
    own = [row for row in rows(clinic.folder) if row["mask"]][:2]
    first, second = (np.asarray(Image.open(clinic.folder / row["image"])).astype(int) for row in own)
    assert np.abs(first - second).mean() > 2
    for row in own:
        mask = np.asarray(Image.open(clinic.folder / row["mask"]))
        assert mask.shape == (256, 256)
        assert set(np.unique(mask)) == {0, 255}


def test_mask_and_landmarks_move_with_the_photograph():
    points = np.load(FACES / "landmarks.npz")["points"][3].astype(np.float64)
    middle = points[86]
    y, x = np.mgrid[:256, :256]
    mask = np.hypot(x - middle[0], y - middle[1]) < 8
    for seed in range(3):
        _, moved, new = retaken(unit(face(3)), mask, points, np.random.default_rng(seed))
        centre = np.array([x[moved].mean(), y[moved].mean()])
        assert np.linalg.norm(centre - new[86]) < 1.5
        assert np.linalg.norm(new[86] - points[86]) < 30


def test_the_diseases_of_a_clinic_depend_on_the_seed_alone():
    assert [sign_of(3, n, DISEASES) for n in range(5)] == [sign_of(3, n, DISEASES) for n in range(5)]
    seen = {sign.disease for n in range(40) if (sign := sign_of(0, n, DISEASES))}
    assert seen == set(DISEASES)


def test_a_clinic_on_photographs_of_a_source_leaves_out_what_is_no_face(tmp_path):
    for person, number in (("Ann", 1), ("Bo", 2)):
        (tmp_path / "people" / person).mkdir(parents=True)
        face(number).save(tmp_path / "people" / person / "0.jpg")
    Image.radial_gradient("L").convert("RGB").save(tmp_path / "people" / "Bo" / "1.jpg")
    made = make_clinic(tmp_path / "clinic", seed=1, source=tmp_path / "people", only=("BCC",))
    assert (made.people, made.photographs, made.refused) == (2, 2, 1)
    assert not any("Ann" in row["patient_id"] for row in rows(made.folder))


def test_wrong_use_is_told(tmp_path):
    with pytest.raises(BadClinic, match="no disease 'Flu'; there are: BCC"):
        make_clinic(tmp_path, seed=0, only=("Flu",))
    with pytest.raises(BadClinic, match="there are 77 invented faces"):
        make_clinic(tmp_path, seed=0, people=500)
