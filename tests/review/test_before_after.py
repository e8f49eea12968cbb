"""A header before and after: what was removed, what was changed inside sequences, what was added."""

from __future__ import annotations

from pydicom.dataset import Dataset

from updp.review.before_after import header_rows


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
