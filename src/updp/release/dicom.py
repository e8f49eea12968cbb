"""A released film as a DICOM object, built up from what may leave rather than cut down from what came in.

The object is a Secondary Capture (PS3.3 A.8.1): the pixels were made by software, whatever machine took the original.
From a cleaned header it takes the few attributes that describe the examination; everything else is written here. What
the manifest withholds the object withholds too, and a generated film says in several places that it is one.

A native film stays the object it was (``encode_native``): its cleaned header, with window, spacing and all, and its
pixels at their own size and depth.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from updp.core import version
from updp.core.native import Native
from updp.core.record import Study
from updp.imaging.grey import grey8
from updp.release.provenance import Provenance

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

#: Names of a policy -> transfer syntax (PS3.5 A.2, A.4.3, A.4.4).
SYNTAXES = {
    "explicit-le": "1.2.840.10008.1.2.1",
    "jpeg-ls": "1.2.840.10008.1.2.4.80",
    "jpeg-2000": "1.2.840.10008.1.2.4.90",
}
_PIXEL_DATA = 0x7FE00010
_UNDEFINED = 0xFFFFFFFF
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


def encode_dicom(study: Study, attributes: Collection[str], made: Provenance, syntax: str = "explicit-le") -> bytes:
    """The bytes of a DICOM file for a study that has passed every station; ``attributes`` are those that may leave."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import UID, SecondaryCaptureImageStorage

    film = _film(study)
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
    data.PhotometricInterpretation = _photometric(film)
    data.Rows, data.Columns = film.values.shape
    data.BitsAllocated, data.BitsStored = 8 * film.values.dtype.itemsize, film.bits
    data.HighBit = film.bits - 1
    data.PixelRepresentation = int(film.signed)
    data[_PIXEL_DATA] = _pixel_data(film, SYNTAXES[syntax])
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = uid
    meta.TransferSyntaxUID = UID(SYNTAXES[syntax])
    data.file_meta = meta
    out = io.BytesIO()
    data.save_as(out, enforce_file_format=True)
    return out.getvalue()


def encode_native(study: Study, syntax: str, made: Provenance) -> list[bytes]:
    """The bytes, in parts, of a DICOM film that stays what it was: the cleaned header it came with, its own size and
    depth."""
    from pydicom.uid import UID

    from updp.screening.encoding import encoded_parts

    data, film = study.header, _film(study)
    _as_explicit_little_endian(data)
    if made.altered or study.notes.get("boxes_painted"):
        kept = list(data.get("ImageType") or ["", "PRIMARY"])[1:]
        data.ImageType = ["DERIVED", *(kept or ["PRIMARY"])]  # PS3.3 C.7.6.1.1.2: the values are no longer the device's
        _say_how_made(data, study.patient_id, made)
        for name, value in (
            ("SmallestImagePixelValue", film.values.min()), ("LargestImagePixelValue", film.values.max()),
        ):  # fmt: skip
            if name in data:
                setattr(data, name, int(value))
    else:
        _name_equipment(data, made)
    raw = data.original_encoding == (False, True)
    data[_PIXEL_DATA] = _pixel_data(film, SYNTAXES[syntax], in_place=raw)
    data.file_meta.TransferSyntaxUID = UID(SYNTAXES[syntax])
    return encoded_parts(data, implicit=False)


def _film(study: Study) -> Native:
    if study.native is not None:
        return study.native
    assert study.pixels is not None
    return Native(grey8(study.pixels), 8)


def _photometric(film: Native) -> str:
    return "MONOCHROME1" if film.inverted else "MONOCHROME2"


def _pixel_data(film: Native, syntax: str, *, in_place: bool = False) -> Any:
    """The pixels as an element, ready to be written; ``in_place`` without a copy, for who writes raw elements."""
    from pydicom.dataelem import RawDataElement
    from pydicom.tag import BaseTag

    tag = BaseTag(_PIXEL_DATA)
    if syntax == SYNTAXES["explicit-le"]:
        values = film.values
        data: Any = values.data.cast("B") if in_place and values.flags.c_contiguous else values.tobytes()
        if len(data) % 2:
            data = bytes(data) + b"\0"
        return RawDataElement(tag, "OW", len(data), data, 0, False, True)
    from pydicom.encaps import encapsulate
    from pydicom.pixels.encoders.base import get_encoder

    height, width = film.values.shape
    frame = get_encoder(syntax).encode(
        film.values,
        rows=height,
        columns=width,
        samples_per_pixel=1,
        number_of_frames=1,
        bits_allocated=8 * film.values.dtype.itemsize,
        bits_stored=film.bits,
        pixel_representation=int(film.signed),
        photometric_interpretation=_photometric(film),
    )
    return RawDataElement(tag, "OB", _UNDEFINED, encapsulate([frame]), 0, False, True)


def _as_explicit_little_endian(data: Dataset) -> None:
    """Settle what implicit VR leaves open (US or SS), and turn words that were stored the other way round."""
    from pydicom.filewriter import correct_ambiguous_vr

    implicit, little = data.original_encoding
    if (implicit, little) == (False, True):
        return
    if not little:
        for element in data.iterall():
            if element.VR in ("OW", "US or OW") and isinstance(element.value, bytes):
                swapped = bytearray(element.value)
                swapped[::2], swapped[1::2] = element.value[1::2], element.value[::2]
                element.value = bytes(swapped)
    correct_ambiguous_vr(data, True)


def _say_how_made(data: Dataset, pseudonym: str, made: Provenance) -> None:
    """How the film came to be, where viewers and archives show it (PS3.3 C.7.6.1.1.3, C.12.1)."""
    data.DerivationDescription = data.ImageComments = made.statement
    _name_equipment(data, made)
    if made.synthetic:
        data.PatientName = f"SYNTHETIC^{pseudonym}"
        data.ConversionType = "SYN"


def _name_equipment(data: Dataset, made: Provenance) -> None:
    from pydicom.dataset import Dataset

    purpose = Dataset()
    purpose.CodeValue, purpose.CodingSchemeDesignator = "109104", "DCM"
    purpose.CodeMeaning = "De-identifying Equipment"
    tool = Dataset()
    tool.PurposeOfReferenceCodeSequence = [purpose]
    tool.Manufacturer, tool.ManufacturerModelName = "updp", made.method
    tool.SoftwareVersions, tool.ContributionDescription = version.__version__, made.statement
    data.ContributingEquipmentSequence = [*(data.get("ContributingEquipmentSequence") or ()), tool]


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
