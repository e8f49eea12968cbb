"""The short writer writes what pydicom would."""

from __future__ import annotations

import pydicom
import pytest
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRBigEndian, JPEG2000Lossless

from tests.screening.objects import Nothing, clean, film, read, stored, through_file
from updp.screening.encoding import encode, save


@pytest.mark.parametrize("implicit", [False, True])
def test_read_back_it_is_the_same_object(tmp_path, implicit):
    item = Dataset()
    item.CodeValue, item.CodeMeaning = "1", "Chest"
    ds = film(
        ProcedureCodeSequence=Sequence([item]), SpecificCharacterSet="ISO_IR 100", KVP="110.5", Manufacturer="Acmé"
    )
    cleaned = clean(through_file(ds, implicit=implicit), Nothing())
    save(cleaned, tmp_path / "ours.dcm")
    cleaned.save_as(tmp_path / "theirs.dcm", enforce_file_format=True)
    ours, theirs = pydicom.dcmread(tmp_path / "ours.dcm"), pydicom.dcmread(tmp_path / "theirs.dcm")
    assert ours == theirs
    assert ours.file_meta.FileMetaInformationGroupLength > 0


def test_an_object_made_in_memory_is_written_too(tmp_path):
    ds = film()
    stored(ds)
    save(ds, tmp_path / "film.dcm")
    assert pydicom.dcmread(tmp_path / "film.dcm").PatientName == "Quibblesworth^Zanthora"


def test_encapsulated_pixels_keep_their_end(tmp_path):
    ds = film()
    stored(ds)
    ds.file_meta.TransferSyntaxUID = JPEG2000Lossless
    ds.PixelData = encapsulate([b"\xff\x4f\xff\x51" * 4])
    ds["PixelData"].is_undefined_length = True
    ds["PixelData"].VR = "OB"
    ds.save_as(tmp_path / "in.dcm", enforce_file_format=True)
    save(clean(pydicom.dcmread(tmp_path / "in.dcm")), tmp_path / "out.dcm")
    assert pydicom.dcmread(tmp_path / "out.dcm").PixelData == pydicom.dcmread(tmp_path / "in.dcm").PixelData


def test_big_endian_is_left_to_pydicom(tmp_path):
    ds = film(PixelData=b"\1\2\3\4")
    stored(ds)
    ds["PixelData"].VR = "OB"
    ds.file_meta.TransferSyntaxUID = ExplicitVRBigEndian
    ds.save_as(tmp_path / "in.dcm", enforce_file_format=True)
    cleaned = clean(pydicom.dcmread(tmp_path / "in.dcm"))
    save(cleaned, tmp_path / "out.dcm")
    assert pydicom.dcmread(tmp_path / "out.dcm").Rows == 2


def test_a_value_too_long_for_its_vr_is_written_as_unknown():
    ds = film(Manufacturer="x")
    ds["Manufacturer"].value = "A" * 70_000
    stored_head = read(stored(film()))
    stored_head[0x00080070] = ds[0x00080070]
    with pytest.warns(UserWarning, match="exceeds the size"):
        data = encode(stored_head, implicit=False)
    assert len(read(data).Manufacturer) == 70_000
