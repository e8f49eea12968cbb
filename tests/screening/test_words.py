"""Descriptions keep words of radiography and nothing else."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screening.objects import Nothing
from updp.screening.words import Known, clean_descriptor, clean_narrative, descriptor_words

NOBODY = Known([])


class Finds:
    def __init__(self, word: str) -> None:
        self.word = word

    def spans(self, text):
        at = text.find(self.word)
        return [SimpleNamespace(start=at, end=at + len(self.word))] if at >= 0 else []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("CHEST PA AND LATERAL", "CHEST PA AND LATERAL"),
        ("Chest, 2 views", "Chest, 2 views"),
        ("CHEST PA JONES 4411982", "CHEST PA"),
        ("Quibblesworth", ""),
        ("PORTABLE CHEST - WARD 7B", "PORTABLE CHEST"),
        ("XR Thorax Ottermole", "XR Thorax"),
        ("胸部正面", ""),
        ("", ""),
    ],
)
def test_only_known_words_stay(text, kept):
    assert clean_descriptor(text, Nothing(), NOBODY) == kept


def test_the_patients_own_name_goes_even_if_it_is_a_word_of_radiography():
    assert clean_descriptor("WALL STAND CHEST", Nothing(), Known(["Wall"])) == "STAND CHEST"


def test_the_detector_has_a_say():
    assert clean_descriptor("CHEST PORTABLE", Finds("PORTABLE"), NOBODY) == "CHEST"


def test_without_a_detector_nothing_stays():
    assert clean_descriptor("CHEST", None, NOBODY) == ""
    assert clean_narrative("No effusion.", None, NOBODY) == ""


def test_narrative_loses_spans_and_nothing_else():
    text = "Effusion. Discussed with Ottermole, seen by Quibblesworth."
    assert clean_narrative(text, Finds("Ottermole"), Known(["quibblesworth"])) == "Effusion. Discussed with , seen by ."


def test_identifiers_match_whole_words_only():
    known = Known(["Rib"])
    assert "rib fracture" in known
    assert "ribs" not in known
    assert "caribbean" not in known
    assert "RIB_VIEW 2" in known
    assert "A12345 and 45" not in Known(["1234"])
    assert "no.1234/b" in Known(["1234"])


@given(st.text(max_size=60))
def test_every_kept_word_is_in_the_list_and_cleaning_again_changes_nothing(text):
    kept = clean_descriptor(text, Nothing(), NOBODY)
    for word in re.findall(r"[^\W_]+", kept):
        assert word.lower() in descriptor_words() or (word.isdigit() and len(word) <= 2)
    assert clean_descriptor(kept, Nothing(), NOBODY) == kept
