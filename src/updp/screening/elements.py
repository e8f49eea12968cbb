"""Elements of a DICOM header: tags and value representations by name, values and encodings read without an error.

Facts of PS3.5 and PS3.6 that the rules, the cleaning and the search for identifiers share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydicom.charset import convert_encodings, python_encoding
from pydicom.config import disable_value_validation
from pydicom.dataelem import DataElement, RawDataElement
from pydicom.dataset import Dataset
from pydicom.tag import BaseTag
from pydicom.uid import UID

from updp.core.global_state import quiet

Element = DataElement | RawDataElement

PIXEL_DATA = 0x7FE00010
PIXELS = frozenset((0x7FE00008, 0x7FE00009, PIXEL_DATA))

CHARSET, SOP_CLASS, SOP_INSTANCE = 0x00080005, 0x00080016, 0x00080018
PATIENT_NAME, PATIENT_ID, PATIENT_SEX = 0x00100010, 0x00100020, 0x00100040
CODE_VALUE, SCHEME, SCHEME_VERSION, CODE_MEANING = 0x00080100, 0x00080102, 0x00080103, 0x00080104
CODE_ITEM = frozenset((CODE_VALUE, SCHEME, SCHEME_VERSION, CODE_MEANING))
REMOVED_FLAG, METHOD_TEXT, METHOD_CODES = 0x00120062, 0x00120063, 0x00120064
#: Colours of a palette, which a film of greys does not use.
PALETTE = frozenset(
    0x00280000 | low
    for low in (
        *(0x1101, 0x1102, 0x1103, 0x1104, 0x1111, 0x1112, 0x1113, 0x1200, 0x1201, 0x1202, 0x1203, 0x1204),
        *(0x1211, 0x1212, 0x1213, 0x1221, 0x1222, 0x1223, 0x1224),
    )
)
PHOTOMETRIC = 0x00280004
ROWS, BURNED_IN, DATES_MODIFIED = 0x00280010, 0x00280301, 0x00280303

TEXT = frozenset(("SH", "LO", "ST", "LT", "UT", "UC"))
LONG = frozenset(("ST", "LT", "UT"))  # a backslash is a character here, not a separator
NUMBER = frozenset(("DS", "IS", "FL", "FD", "SS", "US", "SL", "UL", "SV", "UV", "AT"))
WIDTH = {"US": 2, "SS": 2, "UL": 4, "SL": 4, "FL": 4, "AT": 4, "FD": 8, "SV": 8, "UV": 8}
BINARY = frozenset(("OB", "OW", "OF", "OD", "OL", "OV", "UN"))
TEMPORAL = frozenset(("DA", "DT", "TM"))
_FAMILY = {vr: "text" for vr in TEXT} | {vr: "number" for vr in NUMBER} | {vr: "binary" for vr in BINARY}

_DICOMDIR = "1.2.840.10008.1.3.10"
NUMERIC = re.compile(rb"[0-9+\-eE. \\\0]*\Z")
STANDARD_UID = re.compile(r"1\.2\.840\.10008(\.\d{1,4}){1,12}\Z")


@contextmanager
def quietly() -> Iterator[None]:
    """Values as they are, right or wrong, and no word about them on the console."""
    with quiet(), disable_value_validation():
        yield


def first_value(dataset: Dataset, tag: int) -> str:
    """The first value of a string element, or an empty text."""
    raw: Element | None = dataset.get_item(tag) if tag in dataset else None
    if isinstance(raw, RawDataElement) and raw.value and raw.value.isascii() and b"\x1b" not in raw.value:
        return raw.value.decode("ascii").split("\\")[0].strip(" \0")
    try:
        value = dataset[tag].value
    except Exception:  # absent or unreadable: the same to the caller
        return ""
    if hasattr(value, "append"):  # several values
        value = value[0] if len(value) else ""
    return "" if value is None else str(value)


def is_directory(dataset: Dataset) -> bool:
    meta = getattr(dataset, "file_meta", None)
    classes = (
        str(meta.get("MediaStorageSOPClassUID", "")) if meta is not None else "",
        first_value(dataset, SOP_CLASS),
    )
    return _DICOMDIR in classes or 0x00041220 in dataset or 0x00041130 in dataset


def is_well_known(uid: str, listed: bool) -> bool:
    """Whether a UID is one the standard assigns: those name classes and syntaxes, not patients."""
    # Digits and dots first: UID() trims, so any text with a tab behind it would differ from its own name.
    if set(uid) <= set("0123456789.") and UID(uid).name != uid:
        return True
    return not listed and STANDARD_UID.match(uid) is not None


def right_family(element: Element, vr: str) -> bool:
    """Whether the VR in the file can hold what the dictionary says is there."""
    found = element.VR
    if found is None or found == vr or found == "UN":
        return True
    if " or " in vr:
        return found in vr.split(" or ") or (found in NUMBER and "US" in vr)
    return found in _FAMILY and _FAMILY[found] == _FAMILY.get(vr)


def encodings_of(dataset: Dataset, inherited: Sequence[str] | None) -> tuple[list[str] | None, Element | None]:
    """How text of a dataset is encoded (``None`` if not known), and the element that says so."""
    if CHARSET not in dataset:
        return (list(inherited) if inherited is not None else ["iso8859"]), None
    try:
        element = dataset[CHARSET]
        terms = [element.value] if isinstance(element.value, str) else list(element.value or [""])
    except Exception:
        return None, None
    terms = [str(term or "").strip() for term in terms]
    if any(term not in python_encoding for term in terms):
        return None, None
    return list(convert_encodings(terms)), DataElement(BaseTag(CHARSET), "CS", terms if len(terms) > 1 else terms[0])
