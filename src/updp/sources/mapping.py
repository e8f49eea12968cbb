"""Which column of a table holds what: the names that are known, and the mapping that a user or a shipped file gives.

A mapping is the section ``[source]`` of a policy. It is taken from the policy, from ``updp.toml`` in the folder of the
source (`updp init` writes it), or from the files in ``mappings/``, one per public set, where table and columns fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from updp.core.policy import BadPolicy, Policy, SourcePolicy
from updp.core.reasons import Reason, Refused
from updp.core.registry import unknown
from updp.sources.files import BadSource, checked_text

#: Name of a field, and the names of its column in a table; the first that is filled counts.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "film_id": ("film_id", "image_id", "dicom_id"),
    "study_id": ("study_id",),
    "patient_id": ("patient_id", "subject_id"),
    "image": ("image", "path", "image_path", "file_name", "filename"),
    "report": ("report", "text"),
    "report_path": ("report_path", "report_file"),
    "view": ("view", "view_position", "viewposition"),
    "labels": ("labels", "finding_labels", "appearance"),
    "age": ("age", "patient_age"),
    "sex": ("sex", "gender", "patient_sex"),
    "date": ("date", "study_date"),
    "split": ("split",),
}
#: Columns that are a section of the report each.
SECTIONS = ("examination", "indication", "history", "comparison", "technique", "findings", "impression")
#: Columns that name people, by the DICOM attribute they hold. They seed the detector and never leave.
IDENTIFIERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "patient_name": ("PatientName", ("patient_name", "patientname", "last_name", "first_name", "surname", "given_name",
                                     "family_name", "maiden_name")),
    "birth_date": ("PatientBirthDate", ("birth_date", "date_of_birth", "dob", "birthdate", "patient_birth_date")),
    "record_number": ("OtherPatientIDs", ("record_number", "mrn", "medical_record_number")),
    "accession_number": ("AccessionNumber", ("accession_number", "accession")),
    "physician": ("ReferringPhysicianName", ("physician", "referring_physician", "reading_physician", "radiologist",
                                             "radiographer")),
    "institution": ("InstitutionName", ("institution", "hospital", "department")),
    "address": ("PatientAddress", ("address", "patient_address", "street", "city")),
    "telephone": ("PatientTelephoneNumbers", ("telephone", "phone", "phone_number")),
    "identifiers": ("OtherPatientIDs", ("identifiers",)),
}  # fmt: skip
#: The name of a mapping beside a table.
BESIDE = "updp.toml"

FIELDS = (*COLUMNS, *SECTIONS, *IDENTIFIERS)
_PLACES = re.compile(r"\{([^{}]+)\}")


class Columns:
    """A mapping made ready: which columns of a row are asked for what. Names are compared in lower case."""

    def __init__(self, mapping: SourcePolicy | None = None) -> None:
        given: Mapping[str, Any] = {} if mapping is None else mapping.mapping()
        columns: Mapping[str, str | tuple[str, ...]] = given.get("columns", {})
        for table in ("columns", "values"):
            for name in given.get(table, {}):
                if name not in FIELDS:
                    raise BadSource(f"[source.{table}]: {unknown('column', name, FIELDS)}")
        self.rows: str = given.get("rows", "one")
        self.only = {_key(name): _key(value) for name, value in given.get("only", {}).items()}
        self.values = {name: tuple(patterns.items()) for name, patterns in given.get("values", {}).items()}
        people = {name: own for name, (_, own) in IDENTIFIERS.items()}
        known = {**COLUMNS, **{name: (name,) for name in SECTIONS}, **people}
        #: Name of a field -> columns, or templates with columns in braces.
        self.sources: dict[str, tuple[str, ...]] = {
            name: _lower(columns[name]) if name in columns else own for name, own in known.items()
        }
        own = columns.get("labels")
        #: Columns that are a finding each; their own spelling is the finding's name.
        self.findings = {_key(name): name.strip() for name in own} if isinstance(own, tuple) else {}
        self.required = {column for name in columns for column in self._columns(name)} | set(self.only)
        self.known = {column for name in self.sources for column in self._columns(name)} | set(self.only)

    def _columns(self, name: str) -> Iterator[str]:
        for column in self.sources[name]:
            yield from columns_in(column)

    def missing(self, columns: set[str]) -> list[str]:
        """What is needed and not among these columns, in words."""
        out = [f'"{name}"' for name in sorted(self.required - columns)]
        for name in ("patient_id", "image"):
            own = self.sources[name]
            if not any(set(columns_in(column)) <= columns for column in own):
                words = " or ".join(own)
                out += [] if set(self._columns(name)) & self.required else [words]
        return out

    def has(self, record: Mapping[str, object], name: str) -> bool:
        return any(column in record for column in self._columns(name))

    def first(self, record: Mapping[str, object], name: str) -> object:
        """The first filled column of this field; a template is filled in, and is empty if one of its columns is."""
        for column in self.sources[name]:
            value = self._composed(record, column) if "{" in column else record.get(column)
            if value is not None and filled(value):  # most columns of most tables are not there
                return self.said(name, value)
        return None

    def all(self, record: Mapping[str, object], name: str) -> Iterator[str]:
        for column in self.sources[name]:
            value = self._composed(record, column) if "{" in column else record.get(column)
            if value is not None and filled(value) and (words := text_of(value)):
                yield words

    def said(self, name: str, value: object) -> object:
        """What a cell stands for under ``[source.values]``."""
        patterns = self.values.get(name)
        if not patterns or name == "labels" or not isinstance(value, str | int | float):
            return value
        return self.means(name, text_of(value))

    def means(self, name: str, words: str) -> str:
        lower = words.strip().lower()
        return next((to for pattern, to in self.values.get(name, ()) if fnmatchcase(lower, pattern.lower())), words)

    def wanted(self, record: Mapping[str, object]) -> bool:
        """Whether the mapping takes this row."""
        return all(text_of(record.get(name)).lower() == value for name, value in self.only.items())

    def _composed(self, record: Mapping[str, object], template: str) -> str:
        parts = {name: text_of(record.get(name)) for name in _PLACES.findall(template)}
        return _PLACES.sub(lambda place: parts[place.group(1)], template) if all(parts.values()) else ""


def _key(name: str) -> str:
    return name.strip().lower()


def _lower(given: str | tuple[str, ...]) -> tuple[str, ...]:
    # Only the columns of a template are compared without case; the path around them is as the file system has it.
    return tuple(
        _PLACES.sub(lambda place: "{" + _key(place[1]) + "}", name) if "{" in name else _key(name)
        for name in ((given,) if isinstance(given, str) else given)
    )


def columns_in(written: str) -> list[str]:
    """The columns that a mapping names here: those in the braces of a template, or the one."""
    return _PLACES.findall(written) or [written]


def filled(value: object) -> bool:
    return value is not None and value != "" and value == value  # NaN, a blank among numbers, is unlike itself


def text_of(value: object) -> str:
    """A field as text; a number that spreadsheets turned into ``17.0`` is 17 again."""
    if value is None:
        return ""
    if isinstance(value, str) and value.isascii() and "\0" not in value:
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Refused(Reason.ROW_UNREADABLE)
    try:
        return checked_text(str(value)).strip()
    except Refused:
        raise Refused(Reason.ROW_UNREADABLE) from None


# -- where a mapping comes from --------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, SourcePolicy]:
    """The mappings of public sets, by name."""
    folder = resources.files("updp.sources") / "mappings"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return {
        file.name.removesuffix(".toml"): Policy.parse(file.read_text("utf-8"), name=file.name).source for file in files
    }


def beside(root: Path) -> SourcePolicy | None:
    """The mapping in the source's folder, if there is one. Only what a table's columns mean may stand there."""
    place = (root if root.is_dir() else root.parent) / BESIDE
    if not place.is_file():
        return None
    try:
        policy = Policy.load(place)
    except BadPolicy as error:
        raise BadSource(str(error)) from None
    alone = SourcePolicy(**policy.source.mapping())
    if policy != Policy(source=alone):
        raise BadSource(f"{BESIDE} in the source's folder says what columns mean; all else belongs to --policy")
    return alone
