"""Small exports of every layout, drawn with numpy; CANARY stands where a real export has a patient's name."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

CANARY = "Zebulon-Quackenbush"

CR = "1.2.840.10008.5.1.4.1.1.1"
BASIC_TEXT_SR = "1.2.840.10008.5.1.4.1.1.88.11"


def draw(height: int = 80, width: int = 96, seed: int = 0) -> np.ndarray:
    """A film of smooth greys: a bright middle on black, different for every seed."""
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(1, 3, 2)
    film = np.exp(-(a * x**2 + b * y**2)) * (0.8 + 0.2 * np.sin(5 * x + seed))
    return (255 * film / film.max()).astype(np.uint8)


def write_film(path: Path, seed: int = 0, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(draw(seed=seed)).save(path, **options)
    return path


def dicom(**changes: Any) -> FileDataset:
    """A small CR film with a name in its header; ``changes`` set or (None) remove elements."""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = changes.get("SOPClassUID", CR)
    meta.MediaStorageSOPInstanceUID = str(changes.get("SOPInstanceUID") or "1.2.3.1")
    dataset = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    stored = draw().astype(np.uint16) * 16
    values: dict[str, Any] = {
        "SpecificCharacterSet": "ISO_IR 192",
        "SOPClassUID": CR,
        "SOPInstanceUID": "1.2.3.1",
        "StudyInstanceUID": "1.2.3",
        "SeriesInstanceUID": "1.2.3.0",
        "PatientID": "MRN-1",
        "PatientName": f"{CANARY}^Ann",
        "PatientAge": "058Y",
        "PatientSex": "F",
        "StudyDate": "20190304",
        "Modality": "CR",
        "ViewPosition": "PA",
        "Rows": stored.shape[0],
        "Columns": stored.shape[1],
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "BitsAllocated": 16,
        "BitsStored": 12,
        "HighBit": 11,
        "PixelRepresentation": 0,
    }
    values.update(changes)
    values.setdefault("PixelData", stored.tobytes())
    for name, value in values.items():
        if value is not None:
            setattr(dataset, name, value)
    if "PixelData" in dataset:
        dataset["PixelData"].VR = "OW"
    return dataset


def write_dicom(path: Path, **changes: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():  # pydicom warns of the damage tests put in
        warnings.simplefilter("ignore")
        pydicom.dcmwrite(path, dicom(**changes), enforce_file_format=True)
    return path


def _code(value: str, meaning: str) -> list[Dataset]:
    code = Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = value, "DCM", meaning
    return [code]


def text_item(value: str, meaning: str, text: str) -> Dataset:
    item = Dataset()
    item.RelationshipType, item.ValueType, item.TextValue = "CONTAINS", "TEXT", text
    item.ConceptNameCodeSequence = _code(value, meaning)
    return item


def container(value: str, meaning: str, *items: Dataset) -> Dataset:
    item = Dataset()
    item.RelationshipType, item.ValueType, item.ContinuityOfContent = "CONTAINS", "CONTAINER", "SEPARATE"
    item.ConceptNameCodeSequence = _code(value, meaning)
    item.ContentSequence = list(items)
    return item


def write_sr(path: Path, *items: Dataset, **changes: Any) -> Path:
    """A Basic Text SR of the study 1.2.3."""
    pixels = dict.fromkeys(
        ("Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation", "BitsAllocated", "BitsStored", "HighBit")
    )
    return write_dicom(
        path,
        **{
            "SOPClassUID": BASIC_TEXT_SR,
            "SOPInstanceUID": "1.2.3.99",
            "Modality": "SR",
            "ValueType": "CONTAINER",
            "ContentSequence": list(items),
            "CompletionFlag": "COMPLETE",
            "VerificationFlag": "VERIFIED",
            "ViewPosition": None,
            "PixelRepresentation": None,
            "PixelData": None,
            **pixels,
            **changes,
        },
    )


@pytest.fixture
def canary_free(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder):
    """Fails the test if the canary reached console, log or warnings."""
    caplog.set_level(0)
    yield
    out, err = capfd.readouterr()
    warned = " ".join(str(warning.message) for warning in recwarn.list)
    for written in (out, err, caplog.text, warned):
        assert CANARY not in written
