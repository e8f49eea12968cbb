"""The tables are complete and say what the standard says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pydicom.datadict import dictionary_VR, tag_for_keyword

from updp.screening import tables


def test_the_edition_is_stated():
    assert tables.edition() == "2026c"


def test_every_row_has_an_action_of_the_standard():
    allowed = {"X", "Z", "D", "U", "X/Z", "X/D", "Z/D", "X/Z/D", "X/Z/U*"}
    assert {row.action for row in tables.profile().values()} <= allowed
    assert len(tables.profile()) > 640


def test_repeating_groups_and_private_elements_are_rows_of_their_own():
    assert tables.repeating() == {"50xxxxxx": "X", "60xx3000": "X", "60xx4000": "X", "ggggeeee": "X"}


@pytest.mark.parametrize(
    ("keyword", "action"),
    [
        ("PatientName", "Z"),
        ("PatientBirthDate", "Z"),
        ("PatientAge", "X"),
        ("AccessionNumber", "Z"),
        ("StudyInstanceUID", "U"),
        ("InstitutionName", "X/Z/D"),
        ("DetectorID", "X/D"),
        ("ReferencedImageSequence", "X/Z/U*"),
        ("AcquisitionDate", "X/Z"),
        ("ContentCreatorName", "Z/D"),
        ("ContentSequence", "D"),
        ("PatientBirthDateInAlternativeCalendar", "X"),
    ],
)
def test_golden_actions(keyword, action):
    assert tables.profile()[tag_for_keyword(keyword)].action == action


@pytest.mark.parametrize(
    ("keyword", "option", "how"),
    [
        ("StudyDescription", "descriptors", "C"),
        ("DeviceSerialNumber", "device", "K"),
        ("InstitutionName", "institution", "K"),
        ("PatientAge", "patient", "K"),
        ("ContentSequence", "structured", "C"),
    ],
)
def test_golden_options(keyword, option, how):
    assert (option, how) in tables.profile()[tag_for_keyword(keyword)].options


@pytest.mark.parametrize(
    ("action", "kind", "one"),
    [
        ("X/Z/D", "3", "X"),
        ("X/Z/D", "2", "Z"),
        ("X/Z/D", "2C", "Z"),
        ("X/Z/D", "1", "D"),
        ("X/Z/D", "1C", "D"),
        ("X/Z", "3", "X"),
        ("X/Z", "2", "Z"),
        ("X/D", "3", "X"),
        ("X/D", "1", "D"),
        ("Z/D", "2", "Z"),
        ("Z/D", "1", "D"),
        ("Z/D", "3", "Z"),
        ("X/Z/U*", "3", "X"),
        ("X/Z/U*", "2", "Z"),
        ("X/Z/U*", "1C", "U*"),
        ("X", "3", "X"),
        ("X", "2", "Z"),
        ("D", "3", "D"),
        ("U", "1", "U"),
    ],
)
def test_compound_actions_are_decided_by_type(action, kind, one):
    assert tables.resolve(action, kind) == one


def test_types_differ_between_objects():
    digital, computed = "digital-x-ray-image", "computed-radiography-image"
    assert tables.type_of(digital, "", "AcquisitionContextSequence") == "2"
    assert tables.type_of(computed, "", "AcquisitionContextSequence") == "3"


def test_types_are_known_inside_sequences():
    assert tables.type_of("basic-text-sr", "ReferencedRequestSequence", "RequestedProcedureID") == "2"
    assert tables.type_of("basic-text-sr", "AnySequence", "ContextGroupVersion") in ("1", "1C")


def test_an_unknown_object_gets_the_strictest_type_of_all():
    assert tables.iod_of("1.2.3.4") is None
    assert tables.type_of(None, "", "PatientName") in ("1", "2")
    assert tables.type_of(None, "", "AcquisitionContextSequence") in ("1", "2")


@pytest.mark.realdata
@pytest.mark.skipif("UPDP_DATA" not in os.environ, reason="UPDP_DATA is not set")
def test_the_table_has_every_row_of_another_parse_of_the_standard():
    found = sorted(Path(os.environ["UPDP_DATA"]).rglob("ps315_e11.json"))
    if not found:
        pytest.skip("no parse of Table E.1-1 below UPDP_DATA")
    ours = tables.profile()
    for row in json.loads(found[0].read_text()):
        if row["id"].isalnum() and "x" not in row["id"]:
            tag = int(row["id"], 16)
            assert dictionary_VR(tag)
            assert ours[tag].action == row["basicProfile"], row["name"]
