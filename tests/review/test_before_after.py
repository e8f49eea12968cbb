"""A header before and after: what was removed, what was changed inside sequences, what was added."""

from __future__ import annotations

import re

import pytest
from pydicom.dataset import Dataset

from updp.core.record import Report
from updp.reports import Span
from updp.review.before_after import header_rows, marked_after, marked_before


def header(**values) -> Dataset:
    made = Dataset()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def test_removed_kept_and_added_attributes_are_told_apart():
    before = header(PatientName="Quibblesworth^Ann", Modality="DX")
    after = header(PatientName="", Modality="DX", PatientIdentityRemoved="YES")
    assert header_rows(before, after) == [
        ("Modality", "DX", "DX"),
        ("Patient's Name", "Quibblesworth^Ann", None),
        ("Patient Identity Removed", None, "YES"),
    ]
    assert header_rows(before, None)[0] == ("Modality", "DX", None)


def test_several_values_are_written_as_the_standard_writes_them():
    before, after = header(ImageType=["DERIVED", "PRIMARY"]), header(ImageType=["DERIVED", "SECONDARY"])
    assert header_rows(before, after) == [("Image Type", "DERIVED\\PRIMARY", "DERIVED\\SECONDARY")]


def test_what_stands_inside_a_sequence_is_shown():
    code = header(CodeValue="T-1", CodeMeaning="Chest of Zanthora")
    before, after = header(), header()
    before.AnatomicRegionSequence = [code]
    after.AnatomicRegionSequence = [header(CodeValue="T-1")]
    rows = header_rows(before, after)
    assert rows[0] == ("Anatomic Region Sequence", "1 items", "1 items")
    assert ("Anatomic Region Sequence 1 › Code Value", "T-1", "T-1") in rows
    assert ("Anatomic Region Sequence 1 › Code Meaning", "Chest of Zanthora", None) in rows


def test_private_elements_are_counted_and_pixels_left_out():
    before = header(Modality="DX")
    before.PixelData = b"\0\0"
    before["PixelData"].VR = "OW"
    before.private_block(0x0009, "MAKER", create=True).add_new(1, "LO", "Quibblesworth")
    rows = header_rows(before, header(Modality="DX"))
    assert [name for name, *_ in rows] == ["Modality", "Private elements"]
    assert rows[1][1:] == ("2", None)
    assert "Quibblesworth" not in str(rows)


def section(text: str) -> Report:
    return Report({"findings": text})


def spans(text: str, *removed: tuple[str, str]) -> dict[str, list[Span]]:
    return {"findings": [Span(at := text.index(part), at + len(part), name, 1.0, "") for part, name in removed]}


def test_what_stands_where_something_was_removed_is_marked_beside_the_findings_that_stayed():
    old = "Seen by Ann Zanthora, 10:23. No effusion."
    gone = spans(old, ("Ann Zanthora", "staff"), ("10:23", "time"))
    ((_, leaves, before),) = marked_before(section(old), gone)
    assert leaves
    assert '<mark class="gone"><span>10:23</span><small>time</small></mark>' in before
    ((_, after),) = marked_after(section("Seen by Nestor <Holtman>, 04:30. No effusion."), section(old), gone)
    assert after == (
        'Seen by <mark class="stands">Nestor &lt;Holtman&gt;, 04:30</mark>. No <mark class="kept">effusion</mark>.'
    )


@pytest.mark.parametrize(
    ("old", "removed", "new", "marked"),
    [
        ("Ann came on May 3 again", ("Ann", "May 3"), "Bea came on July 9 again", ["Bea", "July 9"]),
        ("On May 3", ("May 3",), "On July 9", ["July 9"]),
        ("On May 3.", ("May 3",), "On .", []),  # nothing stands in its place
        ("On May 3.", ("May 3",), "Another text.", []),
        ("May 3", ("May 3",), "July 9", ["July 9"]),
        ("No change.", (), "No change.", []),
    ],
)
def test_stand_ins_are_found_where_both_texts_fit_each_other(old, removed, new, marked):
    gone = spans(old, *((part, "date") for part in removed))
    ((_, after),) = marked_after(section(new), section(old), gone)
    assert re.findall('<mark class="stands">([^<]*)</mark>', after) == marked
    assert re.sub("<[^>]*>", "", after) == new
