"""Identifiers that a header holds: what it calls its own patient, in every form in which text may repeat them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from pydicom.datadict import dictionary_VR, tag_for_keyword
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset

from updp.screening import tables
from updp.screening.elements import Element, quietly

_PLACEHOLDERS = frozenset(
    ("", "anonymous", "anonymized", "anon", "unknown", "none", "null", "n/a", "na", "removed", "test")
)
_IDS = (
    "PatientID", "OtherPatientIDs", "AccessionNumber", "StudyID", "AdmissionID", "RequestedProcedureID",
    "PlacerOrderNumberImagingServiceRequest", "FillerOrderNumberImagingServiceRequest", "MedicalRecordLocator",
    "MilitaryRank", "PatientTelephoneNumbers", "PatientAddress", "InstitutionName", "InstitutionAddress",
    "InstitutionalDepartmentName", "StationName", "ReferringPhysicianTelephoneNumbers", "ServiceEpisodeID",
)  # fmt: skip
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def identifiers(dataset: Dataset) -> list[str]:
    """What the header itself calls this patient: parts of names, record and accession numbers, forms of the birth date.

    Longest first, without repetition. Seeds the report detector and the text screen; an element that cannot be decoded
    adds nothing.
    """
    with quietly():
        return own_identifiers(dataset, deep=True)


def own_identifiers(dataset: Dataset, *, deep: bool, leave_out: frozenset[str] = frozenset()) -> list[str]:
    """The identifiers of a dataset, with those of its items where ``deep``; ``leave_out`` names attributes."""
    found: dict[str, None] = {}
    for keyword, vr, values in _identifying(dataset, deep):
        if keyword in leave_out:
            continue
        for value in values:
            text = value.strip(" \0")
            if text.lower() in _PLACEHOLDERS:
                continue
            if vr == "PN":
                for form in _name_forms(text):
                    found.setdefault(form)
            elif keyword == "PatientBirthDate":
                for form in _date_forms(text):
                    found.setdefault(form)
            elif len(text) >= 3:
                found.setdefault(text)
    return sorted(found, key=lambda text: (-len(text), text))


@lru_cache(maxsize=1)
def _identifying_tags() -> dict[int, tuple[str, str]]:
    tags = {}
    for keyword in (*_IDS, "PatientBirthDate"):
        tag = tag_for_keyword(keyword)
        if tag is not None:
            tags[tag] = (keyword, dictionary_VR(tag))
    for tag, row in tables.profile().items():
        try:
            if dictionary_VR(tag) == "PN":
                tags[tag] = (row.keyword, "PN")
        except KeyError:
            continue
    return tags


def _identifying(dataset: Dataset, deep: bool) -> Iterator[tuple[str, str, list[str]]]:
    wanted = _identifying_tags()
    for tag in tuple(dataset.keys()):
        if not deep and tag not in wanted:
            continue
        element: Element = dataset.get_item(tag)
        if tag in wanted:
            keyword, vr = wanted[tag]
            raw = element.value if isinstance(element, RawDataElement) else None
            if isinstance(raw, bytes) and raw.isascii() and b"\x1b" not in raw:
                yield keyword, vr, raw.decode("ascii").split("\\")
                continue
            try:
                value = dataset[element.tag].value
            except Exception:  # an element that cannot be read names nobody
                continue
            if value is not None:
                many = value if isinstance(value, list) or hasattr(value, "append") else [value]
                yield keyword, vr, [str(part) for part in many]
        elif deep and element.VR in ("SQ", "UN", None):
            try:
                nested = dataset[element.tag]
            except Exception:
                continue
            if nested.VR == "SQ":
                for item in nested.value:
                    yield from _identifying(item, deep)


def _name_forms(name: str) -> Iterator[str]:
    """Parts of a PN value in each of its three groups, and first and last name together."""
    for group in name.split("="):
        components = [part.strip() for part in group.split("^")]
        words = [w for part in components for w in re.split(r"[\s,.;]+", part) if w]
        for word in (*words, *(part for part in components if " " in part)):
            if (len(word) >= 3 or not word.isascii()) and word.lower() not in _PLACEHOLDERS:
                yield word
        if len(components) >= 2 and components[0] and components[1]:
            last, first = components[:2]
            yield from (f"{first} {last}", f"{last}, {first}", f"{last} {first}", f"{last}^{first}")


def _date_forms(text: str) -> Iterator[str]:
    found = re.match(r"(\d{4})[.\-/]?(\d{2})[.\-/]?(\d{2})\Z", text)
    if not found:
        return
    year, month, day = found.groups()
    if not 1 <= int(month) <= 12:
        return
    yield f"{year}{month}{day}"
    for mark in "-/.":
        yield from (mark.join((year, month, day)), mark.join((day, month, year)), mark.join((month, day, year)))
        yield from (mark.join((day, month, year[2:])), mark.join((month, day, year[2:])))
        yield mark.join((str(int(month)), str(int(day)), year))
    word = _MONTHS[int(month) - 1]
    yield from (
        f"{day} {word} {year}",
        f"{int(day)} {word} {year}",
        f"{word} {int(day)}, {year}",
        f"{day}-{word}-{year}",
    )
