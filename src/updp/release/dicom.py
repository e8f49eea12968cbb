"""A released film as a DICOM object, built up from what may leave rather than cut down from what came in.

The object is a Secondary Capture (PS3.3 A.8.1): the pixels were made by software, whatever machine took the original.
From a cleaned header it takes the few attributes that describe the examination; everything else is written here. What
the manifest withholds the object withholds too, and a generated film says in several places that it is one.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import TYPE_CHECKING

from updp.core import version
from updp.core.record import Study
from updp.imaging.grey import grey8
from updp.release.provenance import Provenance

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

#: What a cleaned header may add, where it has it. Its values have passed the header station.
_FROM_HEADER = (
    "SpecificCharacterSet", "PatientName", "StudyDescription", "SeriesDescription", "BodyPartExamined",
    "PatientOrientation", "PatientIdentityRemoved", "DeidentificationMethod", "DeidentificationMethodCodeSequence",
    "LongitudinalTemporalInformationModified",
)  # fmt: skip
#: And what it may add only if the policy lets the attribute of the manifest out.
_IF_RELEASED = {
    "date": ("StudyDate", "SeriesDate", "AcquisitionDate", "ContentDate", "StudyTime"),
    "age": ("PatientAge",),
    "sex": ("PatientSex",),
    "view": ("ViewPosition",),
}


def encode_dicom(study: Study, attributes: Collection[str], made: Provenance) -> bytes:
    """The bytes of a DICOM file for a study that has passed every station; ``attributes`` are those that may leave."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import UID, ExplicitVRLittleEndian, SecondaryCaptureImageStorage

    assert study.pixels is not None
    pixels = grey8(study.pixels)
    data = Dataset()
    _empty_required(data)
    if study.header is not None:
        released = [name for kind, names in _IF_RELEASED.items() if kind in attributes for name in names]
        for name in (*_FROM_HEADER, *released):
            if name in study.header:
                data[name] = study.header[name]
    uid = UID(_uid(study.film_id))
    data.SOPClassUID = SecondaryCaptureImageStorage
    data.SOPInstanceUID = uid
    data.StudyInstanceUID = _uid(study.study_id)
    data.SeriesInstanceUID = _uid(study.study_id + "/series")
    data.PatientID = study.patient_id
    if not data.PatientName:
        data.PatientName = study.patient_id
    if study.view and "view" in attributes:
        data.ViewPosition = study.view if study.view != "LATERAL" else "LL"
    if study.date and "date" in attributes and not data.StudyDate:
        data.StudyDate = study.date.strftime("%Y%m%d")
    if "date" not in attributes:
        data.LongitudinalTemporalInformationModified = "REMOVED"
    data.Modality = "DX"
    data.ConversionType = "WSD"
    _say_how_made(data, study.patient_id, made)
    data.ImageType = ["DERIVED", "SECONDARY"]
    if study.notes.get("text_checked"):  # else nothing is said: no one looked
        data.BurnedInAnnotation = "NO"
    data.PatientIdentityRemoved = "YES"
    if "DeidentificationMethod" not in data:
        data.DeidentificationMethod = "updp"
    data.InstanceNumber = 1
    data.SeriesNumber = 1
    data.SamplesPerPixel = 1
    data.PhotometricInterpretation = "MONOCHROME2"
    data.Rows, data.Columns = pixels.shape
    data.BitsAllocated = data.BitsStored = 8
    data.HighBit = 7
    data.PixelRepresentation = 0
    data.PixelData = pixels.tobytes() + b"\0" * (pixels.size % 2)
    data["PixelData"].VR = "OW"
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = uid
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.file_meta = meta
    out = io.BytesIO()
    data.save_as(out, enforce_file_format=True)
    return out.getvalue()


def _say_how_made(data: Dataset, pseudonym: str, made: Provenance) -> None:
    """How the film came to be, where viewers and archives show it (PS3.3 C.7.6.1.1.3, C.12.1)."""
    from pydicom.dataset import Dataset

    data.DerivationDescription = data.ImageComments = made.statement
    purpose = Dataset()
    purpose.CodeValue, purpose.CodingSchemeDesignator = "109104", "DCM"
    purpose.CodeMeaning = "De-identifying Equipment"
    tool = Dataset()
    tool.PurposeOfReferenceCodeSequence = [purpose]
    tool.Manufacturer, tool.ManufacturerModelName = "updp", made.method
    tool.SoftwareVersions, tool.ContributionDescription = version.__version__, made.statement
    data.ContributingEquipmentSequence = [tool]
    if made.synthetic:
        data.PatientName = f"SYNTHETIC^{pseudonym}"
        data.ConversionType = "SYN"


def _empty_required(data: Dataset) -> None:
    """Type 2 attributes of the IOD: present, empty unless known."""
    for name in (
        "PatientName", "PatientBirthDate", "PatientSex", "StudyDate", "StudyTime", "ReferringPhysicianName", "StudyID",
        "AccessionNumber", "Laterality", "PatientOrientation",
    ):  # fmt: skip
        setattr(data, name, "")


def _uid(pseudonym: str) -> str:
    """A UID for a pseudonym (PS3.5 B.2); the pseudonym is keyed, so the UID is too."""
    import hashlib

    return f"2.25.{int.from_bytes(hashlib.sha256(pseudonym.encode()).digest()[:16], 'big')}"
