"""DICOM objects for the header tests, all of invented people."""

from __future__ import annotations

import io
from typing import Any

import pydicom
from pydicom.datadict import dictionary_VR
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian

from updp.core.keys import Key
from updp.core.policy import HeaderPolicy
from updp.screening.headers import HeaderCleaner

KEY = Key(bytes(range(32)))
CR, DX, SC, SR = (f"1.2.840.10008.5.1.4.1.1.{tail}" for tail in ("1", "1.1", "7", "88.11"))


class Nothing:
    """A detector that finds nothing."""

    def spans(self, text: str) -> list[Any]:
        return []


def film(sop_class: str = CR, **more: Any) -> Dataset:
    """A plain radiograph."""
    ds = Dataset()
    ds.SOPClassUID, ds.SOPInstanceUID = sop_class, "1.2.3.4.5"
    ds.StudyInstanceUID, ds.SeriesInstanceUID = "1.2.3.4.6", "1.2.3.4.7"
    ds.PatientName, ds.PatientID, ds.PatientBirthDate, ds.PatientSex = (
        "Quibblesworth^Zanthora",
        "M77419",
        "19440229",
        "F",
    )
    ds.StudyDate, ds.StudyTime, ds.AccessionNumber, ds.StudyID = "20190314", "103207", "A5550123", "9"
    ds.ReferringPhysicianName, ds.Modality = "Ottermole^Fenn", "CR"
    ds.Rows = ds.Columns = 2
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation, ds.SamplesPerPixel = 8, 8, 7, 0, 1
    ds.PhotometricInterpretation, ds.PixelData = "MONOCHROME2", b"\1\2\3\4"
    for keyword, value in more.items():
        setattr(ds, keyword, value)
    return ds


def stored(ds: Dataset, *, implicit: bool = False) -> bytes:
    """The object as a file."""
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian if implicit else ExplicitVRLittleEndian
    ds.file_meta.MediaStorageSOPClassUID = ds.get("SOPClassUID", CR)
    ds.file_meta.MediaStorageSOPInstanceUID = ds.get("SOPInstanceUID", "1.2.3")
    out = io.BytesIO()
    ds.save_as(out, enforce_file_format=True)
    return out.getvalue()


def read(data: bytes) -> Dataset:
    return pydicom.dcmread(io.BytesIO(data))


def through_file(ds: Dataset, *, implicit: bool = False) -> Dataset:
    """The object written and read back, so that its elements are raw."""
    return read(stored(ds, implicit=implicit))


def clean(ds: Dataset, detector: Any = None, patient_id: str = "M77419", pixels_checked: bool = False, **policy: Any):
    cleaner = HeaderCleaner(HeaderPolicy(**policy), KEY, detector)
    return cleaner.clean(ds, patient_id=patient_id, pixels_checked=pixels_checked)


def element(tag: int, vr: str, value: bytes) -> bytes:
    """One element as explicit VR little endian bytes, whatever the value."""
    head = (tag >> 16).to_bytes(2, "little") + (tag & 0xFFFF).to_bytes(2, "little") + vr.encode()
    if vr in ("OB", "OW", "SQ", "UN", "UT"):
        return head + b"\0\0" + len(value).to_bytes(4, "little") + value
    return head + len(value).to_bytes(2, "little") + value


def with_bytes(*elements: bytes) -> Dataset:
    """A minimal object that holds these elements, given in order of tags above (0008,0018)."""
    return read(stored_head() + b"".join(elements))


def stored_head() -> bytes:
    ds = Dataset()
    ds.SOPClassUID, ds.SOPInstanceUID = CR, "1.2.3.4.5"
    return stored(ds)


def canary(vr: str, n: int) -> Any:
    """A value of a VR that can be found again."""
    made: dict[str, Any] = {
        "DA": f"19{50 + n % 50}0{1 + n % 9}11", "TM": f"1{n % 10}2233.{n:06d}",
        "DT": f"19{50 + n % 50}031111{n % 60:02d}33",
        "UI": f"1.2.826.0.1.99.{n}", "AS": "077Y", "PN": f"Canary{n}^X", "DS": f"{n}.25", "IS": str(70000 + n),
        "FD": n + 0.25, "FL": n + 0.25, "US": 7000 + n, "UL": 7000 + n, "SS": 7000 + n, "SL": 7000 + n,
        "UR": f"http://canary{n}.example", "AE": f"CANARY{n}", "CS": f"CANARY{n}", "SH": f"CANARY{n}",
        "OB": b"CANARY%06d" % n, "OW": b"CANARY%06d" % n, "UN": b"CANARY%06d" % n,
    }  # fmt: skip
    return made.get(vr, f"Canary{n} text")


def with_canaries(tags: list[int], sop_class: str = CR) -> Dataset:
    """A film with a canary in every one of these attributes."""
    ds = film(sop_class)
    for n, tag in enumerate(tags):
        vr = dictionary_VR(tag).split(" ")[0]
        if vr == "SQ":
            item = Dataset()
            item.PatientName, item.StudyDescription, item.TextValue = f"Canary{n}^In", f"Canary{n}", f"Canary{n}"
            item.CodeMeaning, item.ReferencedSOPInstanceUID = f"Canary{n}", f"1.2.826.0.1.98.{n}"
            ds.add_new(tag, "SQ", [item])
        else:
            ds.add_new(tag, vr, canary(vr, n))
    ds.SOPClassUID = sop_class
    return ds
