"""One table of chest labels: every source's names are in it, and every name can be said."""

from __future__ import annotations

import numpy as np
import pytest

from updp.domains.chest.labels import FINDINGS, LABELS
from updp.domains.chest.words import compose
from updp.domains.labels import Label, LabelTable
from updp.sources import chexpert, mesh


def test_the_findings_of_the_classifier_come_in_the_order_of_chestxray14():
    assert FINDINGS[:4] == ("Atelectasis", "Cardiomegaly", "Effusion", "Infiltration")
    assert len(FINDINGS) == 14
    assert {name for name in FINDINGS if "chestxray14" in LABELS.find(name).sets} == set(FINDINGS)


@pytest.mark.parametrize("name", [name for name in chexpert.LABELS if name != "No Finding"])
def test_every_label_of_chexpert_and_mimic_is_in_the_table(name):
    assert "chexpert" in LABELS.find(name).sets


def test_every_label_that_mesh_headings_give_is_in_the_table():
    table = mesh._table()
    assert {*table["findings"], *table["qualified"]} <= set(LABELS.names)


@pytest.mark.parametrize("name", LABELS.names)
def test_every_label_is_said_by_its_phrases(name):
    text = compose([name], "", np.random.default_rng(0))
    assert any(phrase in text for phrase in LABELS.find(name).phrases)


def test_names_of_other_label_sets_become_the_tables_own():
    assert LABELS.canonical(["Pleural Effusion", "pleural_thickening", "support devices", "Gout"]) == (
        "Effusion", "Pleural_Thickening", "Support Devices", "Gout",
    )  # fmt: skip
    assert LABELS.canonical(["No Finding", " normal "]) == ()


def test_a_label_without_phrases_is_said_by_its_name():
    assert compose(["Bone_Island"], "", np.random.default_rng(1)).startswith("Bone island.")


def test_a_name_for_two_labels_is_refused():
    with pytest.raises(ValueError, match="stands for two labels"):
        LabelTable([Label("a", synonyms=("x",)), Label("b", synonyms=("X",))])
