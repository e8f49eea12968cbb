"""DICOM headers: the PS3.15 Basic Application Level Confidentiality Profile with its options.

First half of the screening station. One walk over the elements, each looked up in a table: what is removed is never
decoded, what stays is passed on as the bytes it was read as, and only what is replaced is made anew. An element
stays only if the table lets it and its value looks like its VR; unknown tags, private elements, curves, overlays,
wrong VRs and text in an unknown character set go. UIDs, dates and names come from the hospital's key, so the same
patient has the same identity in header, film and report.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pydicom.dataelem import DataElement, RawDataElement
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_sequence
from pydicom.tag import BaseTag
from pydicom.uid import PYDICOM_IMPLEMENTATION_UID

from updp.core.keys import Key
from updp.core.policy import HeaderPolicy
from updp.core.reasons import Reason, Refused
from updp.screening import tables
from updp.screening.date_shift import Shift
from updp.screening.elements import (
    BURNED_IN,
    DATES_MODIFIED,
    METHOD_CODES,
    METHOD_TEXT,
    NUMERIC,
    PATIENT_ID,
    PATIENT_NAME,
    PATIENT_SEX,
    REMOVED_FLAG,
    ROWS,
    SOP_CLASS,
    SOP_INSTANCE,
    STANDARD_UID,
    Element,
    encodings_of,
    first_value,
    is_directory,
    quietly,
)
from updp.screening.header_rules import Rules
from updp.screening.header_values import ElementCleaner
from updp.screening.identifiers import own_identifiers
from updp.screening.words import Detector, Known

_SR_CLASS = "1.2.840.10008.5.1.4.1.1.88."
#: Identifiers of the hospital, which may stay where the policy retains its identity.
_INSTITUTION = frozenset(("InstitutionName", "InstitutionAddress", "InstitutionalDepartmentName"))
_METHOD = "PS3.15 Basic Application Level Confidentiality Profile"
_LONG_NUMBER = re.compile(r"\d{5,}")
_LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


class HeaderCleaner:
    """Applies the profile to one header after another under one policy and key.

    ``detector`` cleans descriptions and structured reports (anything with ``spans(text)``); without one they are
    removed.
    """

    def __init__(self, policy: HeaderPolicy, key: Key, detector: Detector | None = None) -> None:
        self._made_of = (policy, key, detector)
        self.policy = policy
        self.key = key
        self.detector = None if detector is None else _Remembered(detector)
        self._person = _surrogates(key)
        self.rules = Rules(policy)

    def __reduce__(self) -> tuple[type[HeaderCleaner], tuple[Any, ...]]:
        return HeaderCleaner, self._made_of  # caches stay behind when a cleaner goes to a worker

    def __repr__(self) -> str:
        return f"HeaderCleaner({self.policy!r}, detector={'yes' if self.detector else 'no'})"

    def clean(
        self, dataset: Dataset, *, patient_id: str, pixels_checked: bool = False, sex: str | None = None
    ) -> Dataset:
        """A new, cleaned dataset with a new file meta group; pixel data are passed on as they are.

        ``sex`` ("F" or "M") is what the patient's surrogate name follows; by default (0010,0040) is.
        ``pixels_checked`` says that the film went through the text screen: (0028,0301) becomes NO. Otherwise a source
        that says NO is believed and any other says YES.
        """
        if not patient_id:
            raise Refused(Reason.ID_MISSING)
        if not isinstance(dataset, Dataset) or len(dataset) == 0:
            raise Refused(Reason.DICOM_UNREADABLE)
        if is_directory(dataset):
            raise Refused(Reason.DICOM_DIRECTORY)
        try:
            with quietly():
                return HeaderWalk(self, dataset, patient_id, sex).run(pixels_checked)
        except Refused:
            raise
        except Exception:
            # the message of a parser quotes values; what is wrong with the file is all that may be said
            raise Refused(Reason.DICOM_UNREADABLE) from None

    def surrogate(self, name: str, sex: str | None = None, patient_id: str = "") -> str:
        """The PN value that stands for a person: the patient with that id, or somebody of the staff."""
        return self._person(name, sex, patient_id)


def _in_binary(number: int) -> list[bytes]:
    """A whole number as an integer and as a float of DICOM, in both orders of bytes."""
    if number >> 64:
        return []
    forms = ("d", "f", "Q" if number >> 32 else "I")  # a float of four bytes rounds, and still tells who it is
    return [struct.pack(order + form, number) for order in "<>" for form in forms]


class _Remembered:
    """A detector that is not asked twice about the same description: a hospital has a few hundred of them."""

    def __init__(self, detector: Detector) -> None:
        self._ask = lru_cache(maxsize=1024)(lambda text: tuple(detector.spans(text)))

    def spans(self, text: str) -> Sequence[Any]:
        """The detector's spans."""
        return self._ask(text)


class HeaderWalk:
    """One header that is being cleaned: what belongs to this patient and this file."""

    def __init__(self, cleaner: HeaderCleaner, dataset: Dataset, patient_id: str, sex: str | None) -> None:
        self.cleaner = cleaner
        self.sex = sex or {"F": "F", "M": "M"}.get(first_value(dataset, PATIENT_SEX).strip().upper())
        self.key = cleaner.key
        self.patient_id = patient_id
        self.dataset = dataset
        sop_class = first_value(dataset, SOP_CLASS)
        self.iod = tables.iod_of(sop_class)
        self.structured = sop_class.startswith(_SR_CLASS)
        self.shift = Shift.of(cleaner.key, patient_id)
        retained = _INSTITUTION if cleaner.policy.retain_institution else frozenset()
        self.known = Known([*own_identifiers(dataset, deep=False, leave_out=retained), patient_id], least=4)
        #: Digits of the patient's identifiers: a series numbered like the patient names him.
        self.numbers = frozenset(
            found.group().lstrip("0").encode() for text in self.known.words for found in _LONG_NUMBER.finditer(text)
        )
        #: The same as they stand in binary elements.
        self.encoded = frozenset(encoded for number in self.numbers for encoded in _in_binary(int(number or b"0")))

    def own_name(self, name: str) -> str:
        """What stands for a name of the patient."""
        return self.cleaner.surrogate(name, self.sex, self.patient_id)

    def run(self, pixels_checked: bool) -> Dataset:
        dataset = self.dataset
        new = self.walk(dataset, "", False, None)
        implicit, little = dataset.original_encoding
        place = ElementCleaner(self, dataset, ["iso8859"], implicit, little, dummy=False)
        values: dict[int, tuple[str, str | list[str]]] = {
            PATIENT_NAME: ("PN", self.own_name(first_value(dataset, PATIENT_NAME) or self.patient_id)),
            PATIENT_ID: ("LO", self.key.patient(self.patient_id)),
            REMOVED_FLAG: ("CS", "YES"),
            METHOD_TEXT: ("LO", [_METHOD, f"updp, Table E.1-1 of {tables.edition()}"]),
            DATES_MODIFIED: ("CS", "MODIFIED" if self.cleaner.policy.retain_longitudinal else "REMOVED"),
        }
        if ROWS in dataset:
            believed = first_value(dataset, BURNED_IN).upper() == "NO"
            values[BURNED_IN] = ("CS", "NO" if pixels_checked or believed else "YES")
        for tag, (vr, value) in values.items():
            new[tag] = place.make(BaseTag(tag), vr, value)
        used = tuple([*self.cleaner.rules.options, *(["pixels"] if pixels_checked else [])])
        new[METHOD_CODES] = method_codes(used, implicit, little)
        new.file_meta = self._file_meta(new)
        new.preamble = b"\0" * 128
        return new

    def _file_meta(self, new: Dataset) -> FileMetaDataset:
        old = getattr(self.dataset, "file_meta", None)
        syntax = first_value(old, 0x00020010) if old is not None else ""
        instance = first_value(new, SOP_INSTANCE)
        elements = [
            DataElement(BaseTag(0x00020000), "UL", 0),  # counted when the file is written
            DataElement(BaseTag(0x00020001), "OB", b"\0\1"),
            DataElement(BaseTag(0x00020012), "UI", PYDICOM_IMPLEMENTATION_UID),
        ]
        for tag, uid in ((0x00020002, first_value(new, SOP_CLASS)), (0x00020003, instance)):
            if uid:
                elements.append(DataElement(BaseTag(tag), "UI", uid))
        if STANDARD_UID.match(syntax):
            elements.append(DataElement(BaseTag(0x00020010), "UI", syntax))
        meta = FileMetaDataset({element.tag: element for element in elements})
        return meta

    # -- the walk ----------------------------------------------------------------------------------------------------

    def walk(self, dataset: Dataset, parent: str, dummy: bool, inherited: list[str] | None) -> Dataset:
        """The cleaned items of one dataset. ``dummy`` replaces whatever free text the rules would keep."""
        cleaner = self.cleaner
        rules = cleaner.rules.known(self.iod, self.structured, parent)
        encodings, declared = encodings_of(dataset, inherited)
        implicit, little = dataset.original_encoding
        place = ElementCleaner(self, dataset, encodings, implicit, little, dummy)
        kept: dict[BaseTag, Element] = {}
        for tag in sorted(dataset.keys()):
            rule = rules.get(tag)
            if rule is None:
                if tag.is_private:
                    if cleaner.policy.retain_safe_private:
                        kept.update(_safe_private(dataset, dataset.get_item(tag)))
                    continue
                rule = rules[tag] = cleaner.rules.rule(self.iod, self.structured, parent, int(tag))
            if rule.op == "X":
                continue
            made = place.treat(dataset.get_item(tag), rule)
            if made is not None:
                kept[tag] = made
        if declared is not None and encodings is not None:
            kept[declared.tag] = declared
        new = Dataset(kept, parent_encoding=inherited or "iso8859")
        if implicit is not None and little is not None:
            new.set_original_encoding(implicit, little, encodings or "iso8859")
        return new


@lru_cache(maxsize=64)
def _encoded_codes(used: tuple[str, ...], implicit: bool, little: bool) -> bytes:
    """The items of (0012,0064) as they stand in a file: the same for every object of a run."""
    buffer = DicomBytesIO()
    buffer.is_implicit_VR, buffer.is_little_endian = implicit, little
    write_sequence(buffer, DataElement(BaseTag(METHOD_CODES), "SQ", _code_items(used)), ["iso8859"])
    return buffer.getvalue()


def _code_items(used: tuple[str, ...]) -> list[Dataset]:
    codes = tables.method_codes()
    items = []
    for value, meaning in sorted(codes[name] for name in ("basic", *used)):
        item = Dataset()
        item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, "DCM", meaning
        items.append(item)
    return items


def method_codes(used: tuple[str, ...], implicit: bool | None, little: bool | None) -> Element:
    tag = BaseTag(METHOD_CODES)
    if implicit is None or little is None:
        return DataElement(tag, "SQ", _code_items(used))
    value = _encoded_codes(used, implicit, little)
    return RawDataElement(tag, None if implicit else "SQ", len(value), value, 0, implicit, little)


def _safe_private(dataset: Dataset, element: Element) -> dict[BaseTag, Element]:
    """A private element known to be safe, with its creator (PS3.15 E.3.10); nothing otherwise."""
    group, number = element.tag.group, element.tag.element
    creator_tag = BaseTag(group << 16 | number >> 8)
    if number < 0x1000 or creator_tag not in dataset:
        return {}
    creator = first_value(dataset, creator_tag).strip()
    vr = tables.safe_private().get((creator, group, number & 0xFF))
    if vr is None:
        return {}
    if isinstance(element, RawDataElement):
        value = element.value or b""
        if element.VR not in (vr, None, "UN") or (vr in ("DS", "IS") and not NUMERIC.match(value)):
            return {}
        if vr != element.VR:
            element = element._replace(VR=None if element.is_implicit_VR else vr)
    elif vr != element.VR:
        return {}
    return {creator_tag: DataElement(creator_tag, "LO", creator), element.tag: element}


def _surrogates(key: Key) -> Callable[[str, str | None, str], str]:
    """Full name, sex ("F", "M" or None) and the patient it belongs to ("" for staff) to a surrogate.

    Names are as the report station gives them, so that header and report agree.
    """
    from updp.reports.surrogates import person

    @lru_cache(maxsize=4096)
    def surrogate(name: str, sex: str | None, whose: str) -> str:
        # family and given name, letters alone: a record number typed into the name would otherwise come along
        parts = [" ".join(_LETTERS.findall(part)) for part in name.split("=")[0].split("^")[:2]]
        plain = "^".join(part for part in parts if part)
        given = str(person(key, plain, sex, whose=whose)) if plain else ""
        same = {word.lower() for word in _LETTERS.findall(plain)} & {word.lower() for word in _LETTERS.findall(given)}
        return given if given.isascii() and _LETTERS.search(given) and not same else key.patient(name)

    return surrogate
