"""What the detector finds and what it leaves alone: golden tables, the survival list, hostile and odd input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from updp.reports import Detector, scan, shared_detector

_MARK = re.compile(r"\{\{(\w+):(.+?)\}\}")
_GOLDEN = [
    line.replace("\\n", "\n")
    for line in (Path(__file__).parent / "golden.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def _parse(marked: str) -> tuple[str, list[tuple[str, str]]]:
    return _MARK.sub(r"\2", marked), [(m.group(1), m.group(2)) for m in _MARK.finditer(marked)]


@pytest.fixture(scope="module")
def detector() -> Detector:
    return shared_detector()


@pytest.mark.parametrize("marked", _GOLDEN)
def test_golden(detector: Detector, marked: str) -> None:
    text, expected = _parse(marked)
    found = [(s.category, text[s.start : s.end]) for s in detector.spans(text)]
    assert found == expected


@pytest.mark.parametrize(
    "words",
    [
        "Hodgkin",
        "Swan-Ganz",
        "Kerley B",
        "May be",
        "Mark the",
        "a 4 mm nodule",
        "T12",
        "left atrium: mild",
        "Port-A-Cath",
        "PICC",
    ],
)
@pytest.mark.parametrize(
    "carrier", ["{}", "There is {} here.", "IMPRESSION: {}.", "Seen by Dr. Young, {} noted on 3/4/2019."]
)
def test_whitelist_terms_survive_wherever_they_stand(detector: Detector, words: str, carrier: str) -> None:
    text = carrier.format(words)
    at = text.index(words)
    assert not [s for s in detector.spans(text) if s.start < at + len(words) and at < s.end]


def test_an_eponym_behind_a_title_is_a_person(detector: Detector) -> None:
    text = "Hodgkin lymphoma, discussed with Dr. Hodgkin."
    assert [(s.start, text[s.start : s.end]) for s in detector.spans(text)] == [(33, "Dr. Hodgkin")]


def test_dr_aware_loses_only_what_identifies(detector: Detector) -> None:
    text = "Dr. Okafor aware. Dr. aware."
    assert [text[s.start : s.end] for s in detector.spans(text)] == ["Dr. Okafor"]


def test_every_span_says_category_score_and_why(detector: Detector) -> None:
    for span in detector.spans("Patient: John Smith, MRN 1234567, seen 3/4/2019 at Mercy General Hospital."):
        assert 0 < span.score <= 1
        assert span.why
        assert span.category in {"name", "mrn", "date", "institution"}


def test_policy_terms_extend_both_lists() -> None:
    detector = Detector(extra_block=["blue whale study"], extra_allow=["Zyxwor"])
    text = "Enrolled in the Blue Whale Study; Zyxwor stent seen by Dr. Zyxwor."
    found = {text[s.start : s.end] for s in detector.spans(text)}
    assert "Blue Whale Study" in found
    assert text.index("Zyxwor stent") not in {s.start for s in detector.spans(text)}


def test_a_name_once_found_is_found_again(detector: Detector) -> None:
    text = "Patient: Thandiwe Nkosi\nFINDINGS: clear.\nNkosi was told."
    assert [text[s.start : s.end] for s in detector.spans(text)] == ["Thandiwe Nkosi", "Nkosi"]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Seen by Dr. \u0405m\u0456th today", "\u0405m\u0456th"),  # Cyrillic S and i
        (
            "Name: \uff2a\uff4f\uff48\uff4e \uff33\uff4d\uff49\uff54\uff48",
            "\uff2a\uff4f\uff48\uff4e \uff33\uff4d\uff49\uff54\uff48",
        ),
        ("Dr. Sm\u200bith was called", "Sm\u200bith"),  # a zero-width space inside
        ("<p>Dr. <b>Jo&#104;n Smith</b></p>", "Jo&#104;n Smith"),
        ("{\\rtf1\\ansi Dr. John \\b Smith\\b0\\par}", "John \\b Smith"),
        ("Dr. M\u00fcller-L\u00fcdenscheidt was called", "M\u00fcller-L\u00fcdenscheidt"),
        ("Dr. Mu\u0308ller was called", "Mu\u0308ller"),
        (
            "\u05d4\u05de\u05d8\u05d5\u05e4\u05dc \u05d9\u05d5\u05e1\u05d9 has pneumonia",
            "\u05d4\u05de\u05d8\u05d5\u05e4\u05dc \u05d9\u05d5\u05e1\u05d9",
        ),
        (
            "\u0627\u0644\u0645\u0631\u064a\u0636 \u0645\u062d\u0645\u062f has effusion",
            "\u0627\u0644\u0645\u0631\u064a\u0636 \u0645\u062d\u0645\u062f",
        ),
        ("\u738b\u5c0f\u660e has effusion", "\u738b\u5c0f\u660e"),
    ],
)
def test_disguised_and_foreign_names_are_found_in_the_original_text(detector: Detector, text: str, hidden: str) -> None:
    found = [text[s.start : s.end].removeprefix("Dr. ").removeprefix("<b>") for s in detector.spans(text)]
    assert hidden in found


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\u200b", "<p></p>", "{\\rtf1}", "\ud800", "a" * 5000, "." * 5000])
def test_text_without_words_has_no_spans(detector: Detector, text: str) -> None:
    assert detector.spans(text) == []


_TEXT = st.text(max_size=300) | st.lists(
    st.sampled_from(
        [
            "Dr.",
            "Smith",
            "John",
            ",",
            "\n",
            "3/4/2019",
            "XXXX",
            "[NAME]",
            "<b>",
            "&amp;",
            "MRN",
            "1234567",
            "effusion",
            "\u0130",
            "\u00df",
            "(",
            "+",
            "Hodgkin",
            "No",
            "at",
            "St.",
            "Hospital",
            "\u200b",
            "{\\rtf1",
            "}",
        ]
    ),
    max_size=40,
).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(_TEXT)
def test_spans_index_the_original_in_order_without_overlap(text: str) -> None:
    end = 0
    for span in scan(text):
        assert end <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip()
        end = span.end
