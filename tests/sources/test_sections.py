from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from updp.sources import sections

MIMIC = """                                 FINAL REPORT
 EXAMINATION:  CHEST (PA AND LAT)

 INDICATION:  ___F with new onset ascites  // eval for infection

 TECHNIQUE:  Chest PA and lateral

 COMPARISON:  None.

 FINDINGS:

 There is no focal consolidation.
 LUNGS: clear.

 IMPRESSION:

 No acute cardiopulmonary process.
"""


def test_a_report_with_headings_is_cut_into_its_sections():
    assert sections.parse(MIMIC) == {
        "preamble": "FINAL REPORT",
        "examination": "CHEST (PA AND LAT)",
        "indication": "___F with new onset ascites  // eval for infection",
        "technique": "Chest PA and lateral",
        "comparison": "None.",
        "findings": "There is no focal consolidation.\n LUNGS: clear.",
        "impression": "No acute cardiopulmonary process.",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lungs are clear.", {"findings": "Lungs are clear."}),
        ("Findings: Clear.\nImpression: Normal.", {"findings": "Clear.", "impression": "Normal."}),
        (
            "INDICATION: cough. FINDINGS: Clear, prior study: none. IMPRESSION: Normal.",
            {"indication": "cough.", "findings": "Clear, prior study: none.", "impression": "Normal."},
        ),
        ("CONCLUSION: Normal.", {"impression": "Normal."}),
        ("REASON FOR EXAM: fever", {"indication": "fever"}),
        ("IMPRESSION: one\nIMPRESSION: two", {"impression": "one\n\ntwo"}),
        (
            "COMPARISON: none\nCHEST, PA AND LATERAL: clear",
            {"comparison": "none", "findings": "CHEST, PA AND LATERAL: clear"},
        ),
        ("FINDINGS:\n\nIMPRESSION: Normal.", {"impression": "Normal."}),
        ("", {}),
        ("  \n ", {}),
        ("FINDINGS: stable at 3:15 pm", {"findings": "stable at 3:15 pm"}),
    ],
)
def test_headings(text, expected):
    assert sections.parse(text) == expected


def test_a_name_as_heading_never_becomes_the_name_of_a_section():
    parsed = sections.parse("FINDINGS: clear\nANNA KOWALSKA: called\nIMPRESSION: normal")
    assert parsed == {"findings": "clear", "other": "ANNA KOWALSKA: called", "impression": "normal"}


def test_lines_about_the_person_leave_the_findings():
    parsed = sections.parse("Patient: Anna Kowalska\nFindings: clear\nDictated by: Dr. Bond")
    assert parsed == {"other": "Anna Kowalska\n\nDr. Bond", "findings": "clear"}


_WORDS = st.sampled_from(
    [
        "FINDINGS:",
        "IMPRESSION:",
        "Indication:",
        "LUNGS:",
        "ANNA KOWALSKA:",
        "CHEST PA:",
        "clear",
        "3:15",
        "\n",
        "\n\n",
        " ",
    ]
)
TEXTS = st.one_of(st.text(max_size=300), st.lists(_WORDS, max_size=30).map(" ".join))


@given(TEXTS)
@example("FINDINGS:x\rIMPRESSION:y")
def test_cutting_loses_no_character(text):
    assert "".join(piece.heading + piece.body for piece in sections.split(text)) == text


@given(TEXTS)
def test_every_word_but_known_headings_is_in_a_section(text):
    parsed = sections.parse(text)
    bodies = " ".join(piece.body for piece in sections.split(text))
    assert sorted(" ".join(parsed.values()).split()) == sorted(bodies.split())
    for piece in sections.split(text):
        if piece.heading:
            assert sections.section_name(re.sub(r"\s*:$", "", piece.heading)) == piece.name


@given(TEXTS)
def test_section_names_are_ours(text):
    known = {"preamble", "findings", "impression", "indication", "history", "comparison", "technique", "examination"}
    known |= {"recommendation", "notification", "addendum", "other"}
    assert set(sections.parse(text)) <= known


def test_sr_headings_are_known_by_code_or_words():
    assert sections.section_of_code("121072", "whatever") == "impression"
    assert sections.section_of_code("x", "Findings") == "findings"
    assert sections.section_of_code("x", "Anna Kowalska") is None
