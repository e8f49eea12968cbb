"""DICOM headers: the PS3.15 Basic Application Level Confidentiality Profile with its options.

First half of the screening station. One walk over the elements, each looked up in a table: what is removed is never
decoded, what stays is passed on as the bytes it was read as, and only what is replaced is made anew. An element
stays only if the table lets it and its value looks like its VR; unknown tags, private elements, curves, overlays,
wrong VRs and text in an unknown character set go. UIDs, dates and names come from the hospital's key, so the same
patient has the same identity in header, film and report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydicom.charset import convert_encodings, decode_bytes, python_encoding
from pydicom.config import disable_value_validation
from pydicom.datadict import dictionary_VM, dictionary_VR, keyword_for_tag
from pydicom.dataelem import DataElement, RawDataElement
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_sequence
from pydicom.sequence import Sequence as DicomSequence
from pydicom.tag import BaseTag
from pydicom.uid import PYDICOM_IMPLEMENTATION_UID, UID
from pydicom.valuerep import TEXT_VR_DELIMS

from updp.core.global_state import quiet
from updp.core.keys import Key
from updp.core.policy import HeaderPolicy
from updp.core.reasons import Reason, Refused
from updp.screening import tables
from updp.screening.date_shift import Shift
from updp.screening.words import MASK, Detector, Known, clean_descriptor, clean_narrative

Element = DataElement | RawDataElement
#: Full name, sex ("F", "M" or None) and the patient it belongs to ("" for staff) to a surrogate.
Person = Callable[[str, str | None, str], str]

_DICOMDIR = "1.2.840.10008.1.3.10"
_SR_CLASS = "1.2.840.10008.5.1.4.1.1.88."
_METHOD = "PS3.15 Basic Application Level Confidentiality Profile"
_PIXELS = frozenset((0x7FE00008, 0x7FE00009, 0x7FE00010))
_PIXEL_INDEX = frozenset((0x7FE00001, 0x7FE00002, 0x7FE00003))

_CHARSET, _SOP_CLASS, _SOP_INSTANCE = 0x00080005, 0x00080016, 0x00080018
_PATIENT_NAME, _PATIENT_ID, _PATIENT_SEX = 0x00100010, 0x00100020, 0x00100040
_OWN_NAMES = (_PATIENT_NAME, 0x00101001, 0x00101005)  # and other names, and the name at birth
_SCHEME, _CODE_MEANING = 0x00080102, 0x00080104
_CODE_ITEM = frozenset((0x00080100, _SCHEME, 0x00080103, _CODE_MEANING))
_REMOVED_FLAG, _METHOD_TEXT, _METHOD_CODES = 0x00120062, 0x00120063, 0x00120064
_ROWS, _BURNED_IN, _DATES_MODIFIED = 0x00280010, 0x00280301, 0x00280303
#: Written anew at the end, whatever the source said.
_OURS = frozenset(
    (_CHARSET, _PATIENT_NAME, _PATIENT_ID, _REMOVED_FLAG, _METHOD_TEXT, _METHOD_CODES, _BURNED_IN, _DATES_MODIFIED)
)
#: Dates Table E.1-1 offers no temporal option for: birth date and time, GPS time.
_NEVER_SHIFTED = frozenset((0x00100030, 0x00100032, 0x00160077))

_TEXT = frozenset(("SH", "LO", "ST", "LT", "UT", "UC"))
_LONG = frozenset(("ST", "LT", "UT"))  # a backslash is a character here, not a separator
_NUMBER = frozenset(("DS", "IS", "FL", "FD", "SS", "US", "SL", "UL", "SV", "UV", "AT"))
_WIDTH = {"US": 2, "SS": 2, "UL": 4, "SL": 4, "FL": 4, "AT": 4, "FD": 8, "SV": 8, "UV": 8}
_BINARY = frozenset(("OB", "OW", "OF", "OD", "OL", "OV", "UN"))
_TEMPORAL = frozenset(("DA", "DT", "TM"))
_FAMILY = {vr: "text" for vr in _TEXT} | {vr: "number" for vr in _NUMBER} | {vr: "binary" for vr in _BINARY}

_NUMERIC = re.compile(rb"[0-9+\-eE. \\\0]*\Z")
_CODE = re.compile(rb"[A-Za-z0-9 _\-/.\\\0]*\Z")
_CONTEXT = re.compile(r"\d{1,5}\Z")
_UIDS = re.compile(rb"[0-9.\\\0 ]*\Z")
_AGE_STRING = re.compile(rb"(\d{3})[DWMY][ \0]*\Z")
_LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_STANDARD_UID = re.compile(r"1\.2\.840\.10008(\.\d{1,4}){1,12}\Z")
_PLACEHOLDERS = frozenset(
    ("", "anonymous", "anonymized", "anon", "unknown", "none", "null", "n/a", "na", "removed", "test")
)

_DUMMY: dict[str, str | int | float | bytes] = {
    "AE": MASK, "AS": "000Y", "CS": MASK, "LO": MASK, "LT": MASK, "PN": MASK, "SH": MASK, "ST": MASK, "UC": MASK,
    "UT": MASK, "UR": "urn:removed", "DA": "19000101", "DT": "19000101000000", "TM": "000000", "DS": "0", "IS": "0",
    "FL": 0.0, "FD": 0.0, "SS": 0, "US": 0, "SL": 0, "UL": 0, "SV": 0, "UV": 0, "AT": 0, "OB": b"\0\0", "OW": b"\0\0",
    "OF": b"\0" * 4, "OD": b"\0" * 8, "OL": b"\0" * 4, "OV": b"\0" * 8, "UN": b"\0\0",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Rule:
    """What happens to one attribute at one place of one kind of object."""

    op: str  # X Z D U, S shift, C descriptor, N narrative, K keep, Q walk into the items
    vr: str = ""
    kind: tables.Type = "3"
    fallback: str = "X"  # what happens when the value cannot be treated as ``op`` says


_REMOVE = _Rule("X")


class HeaderCleaner:
    """Applies the profile to one header after another under one policy and key.

    ``detector`` cleans descriptions and structured reports (anything with ``spans(text)``); without one they are
    removed. ``person`` maps a full name to a surrogate; by default the report station's.
    """

    def __init__(
        self, policy: HeaderPolicy, key: Key, detector: Detector | None = None, person: Person | None = None
    ) -> None:
        self._made_of = (policy, key, detector, person)
        self.policy = policy
        self.key = key
        self.detector = None if detector is None else _Remembered(detector)
        self._person = person or _surrogates(key)
        self._plans: dict[tuple[str | None, bool, str], dict[int, _Rule]] = {}
        self._options = options(policy)

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
        if _is_directory(dataset):
            raise Refused(Reason.DICOM_DIRECTORY)
        try:
            with _quiet():
                return _Walk(self, dataset, patient_id, sex).run(pixels_checked)
        except Refused:
            raise
        except Exception:
            # the message of a parser quotes values; what is wrong with the file is all that may be said
            raise Refused(Reason.DICOM_UNREADABLE) from None

    def surrogate(self, name: str, sex: str | None = None, patient_id: str = "") -> str:
        """The PN value that stands for a person: the patient with that id, or somebody of the staff."""
        return self._person(name, sex, patient_id)

    def rules(self, iod: str | None, structured: bool, parent: str) -> dict[int, _Rule]:
        """The rules met so far for the items of ``parent`` ('' for the object itself)."""
        return self._plans.setdefault((iod, structured, parent), {})

    def rule(self, iod: str | None, structured: bool, parent: str, tag: int) -> _Rule:
        """The rule of one attribute."""
        group = tag >> 16
        if tag in _OURS and (not parent or tag not in (_PATIENT_NAME, _PATIENT_ID)):
            return _REMOVE
        if group < 0x0008 or not tag & 0xFFFF or group & 0xFF00 in (0x5000, 0x6000) or group in (0xFFFA, 0xFFFC):
            return _REMOVE
        if group & 0xFF00 == 0x7F00:
            return _Rule("K", "OW") if not parent and tag in _PIXELS | _PIXEL_INDEX else _REMOVE
        try:
            vr, keyword = str(dictionary_VR(tag)), keyword_for_tag(tag)
        except KeyError:
            return _REMOVE
        kind = tables.type_of(iod, parent, keyword)
        row = tables.profile().get(tag)
        if row is None:
            return self._unlisted(tag, vr, kind, structured)
        basic = tables.resolve(row.action, kind)
        if vr == "SQ":
            return self._sequence(row, basic, kind, structured)
        if vr in _TEMPORAL and self.policy.retain_longitudinal and tag not in _NEVER_SHIFTED:
            return _Rule("S", vr, kind, basic)
        if vr == "UI" and basic in ("U", "D", "X") and (basic != "X" or self.policy.retain_uids):
            return _Rule("K" if self.policy.retain_uids else "U", vr, kind, basic if basic != "U" else "D")
        for option, how in row.options:
            if option in self._options:
                if how == "K":
                    return _Rule("K", vr, kind, basic)
                if vr in _TEXT:
                    return _Rule("C", vr, kind, basic)
        return _Rule(basic, vr, kind, basic)

    def _sequence(self, row: tables.Row, basic: str, kind: tables.Type, structured: bool) -> _Rule:
        walk = _Rule("Q", "SQ", kind, "X")
        for option, how in row.options:
            if option == "structured":
                if structured and option in self._options:
                    return walk
            elif option in self._options and how == "K":
                return walk  # no code or item can be cleaned for certain, so a sequence under C takes its basic action
        if basic == "U*" or (self.policy.retain_uids and row.action in ("X/Z/U*", "U")):
            return walk
        if basic == "D":
            # a sequence the object does not need is gone; one it needs keeps its shape, filled with dummies
            return _REMOVE if kind == "3" else _Rule("D", "SQ", kind)
        return _Rule(basic, "SQ", kind, basic)

    def _unlisted(self, tag: int, vr: str, kind: tables.Type, structured: bool) -> _Rule:
        needed = tables.resolve("X/Z/D", kind)
        if vr == "SQ":
            return _Rule("Q", vr, kind)
        if vr in ("PN", "AE", "UR"):
            return _Rule(needed, vr, kind)
        if vr in _TEMPORAL:
            return _Rule("S" if self.policy.retain_longitudinal else needed, vr, kind, needed)
        if vr == "UI":
            return _Rule("K" if self.policy.retain_uids else "U", vr, kind, needed)
        if vr in _LONG or vr == "UC":
            return _Rule("N" if structured else "C", vr, kind, "D")
        if vr in _BINARY and kind == "3" and tag >> 16 != 0x0028:
            return _REMOVE  # a block of bytes nobody needs can hold anything
        if tag in _CODE_ITEM:
            return _Rule("K", vr, kind, "D")  # Type 1 wherever there is a code
        return _Rule("K", vr, kind, "Z" if needed == "X" else needed)  # empty does for Type 2 and for Type 3


class _Remembered:
    """A detector that is not asked twice about the same description: a hospital has a few hundred of them."""

    def __init__(self, detector: Detector) -> None:
        self._ask = lru_cache(maxsize=1024)(lambda text: tuple(detector.spans(text)))

    def spans(self, text: str) -> Sequence[Any]:
        """The detector's spans."""
        return self._ask(text)


class _Walk:
    """One header on its way: what belongs to this patient and this file."""

    def __init__(self, cleaner: HeaderCleaner, dataset: Dataset, patient_id: str, sex: str | None) -> None:
        self.cleaner = cleaner
        self.sex = sex or {"F": "F", "M": "M"}.get(_first(dataset, _PATIENT_SEX).strip().upper())
        self.key = cleaner.key
        self.patient_id = patient_id
        self.dataset = dataset
        sop_class = _first(dataset, _SOP_CLASS)
        self.iod = tables.iod_of(sop_class)
        self.structured = sop_class.startswith(_SR_CLASS)
        self.shift = Shift.of(cleaner.key, patient_id)
        self.known = Known([*_own(dataset, deep=False), patient_id], least=4)

    def own_name(self, name: str) -> str:
        """What stands for a name of the patient."""
        return self.cleaner.surrogate(name, self.sex, self.patient_id)

    def run(self, pixels_checked: bool) -> Dataset:
        dataset = self.dataset
        new = self.walk(dataset, "", False, None)
        implicit, little = dataset.original_encoding
        place = _Place(self, dataset, ["iso8859"], implicit, little, dummy=False)
        values: dict[int, tuple[str, str | list[str]]] = {
            _PATIENT_NAME: ("PN", self.own_name(_first(dataset, _PATIENT_NAME) or self.patient_id)),
            _PATIENT_ID: ("LO", self.key.patient(self.patient_id)),
            _REMOVED_FLAG: ("CS", "YES"),
            _METHOD_TEXT: ("LO", [_METHOD, f"updp, Table E.1-1 of {tables.edition()}"]),
            _DATES_MODIFIED: ("CS", "MODIFIED" if self.cleaner.policy.retain_longitudinal else "REMOVED"),
        }
        if _ROWS in dataset:
            believed = _first(dataset, _BURNED_IN).upper() == "NO"
            values[_BURNED_IN] = ("CS", "NO" if pixels_checked or believed else "YES")
        for tag, (vr, value) in values.items():
            new[tag] = place.make(BaseTag(tag), vr, value)
        used = tuple([*self.cleaner._options, *(["pixels"] if pixels_checked else [])])
        new[_METHOD_CODES] = _method_codes(used, implicit, little)
        new.file_meta = self._file_meta(new)
        new.preamble = b"\0" * 128
        return new

    def _file_meta(self, new: Dataset) -> FileMetaDataset:
        old = getattr(self.dataset, "file_meta", None)
        syntax = _first(old, 0x00020010) if old is not None else ""
        instance = _first(new, _SOP_INSTANCE)
        elements = [
            DataElement(BaseTag(0x00020000), "UL", 0),  # counted when the file is written
            DataElement(BaseTag(0x00020001), "OB", b"\0\1"),
            DataElement(BaseTag(0x00020012), "UI", PYDICOM_IMPLEMENTATION_UID),
        ]
        for tag, uid in ((0x00020002, _first(new, _SOP_CLASS)), (0x00020003, instance)):
            if uid:
                elements.append(DataElement(BaseTag(tag), "UI", uid))
        if _STANDARD_UID.match(syntax):
            elements.append(DataElement(BaseTag(0x00020010), "UI", syntax))
        meta = FileMetaDataset({element.tag: element for element in elements})
        return meta

    # -- the walk ----------------------------------------------------------------------------------------------------

    def walk(self, dataset: Dataset, parent: str, dummy: bool, inherited: list[str] | None) -> Dataset:
        """The cleaned items of one dataset. ``dummy`` replaces whatever free text the rules would keep."""
        cleaner = self.cleaner
        rules = cleaner.rules(self.iod, self.structured, parent)
        encodings, declared = _encodings(dataset, inherited)
        implicit, little = dataset.original_encoding
        place = _Place(self, dataset, encodings, implicit, little, dummy)
        kept: dict[BaseTag, Element] = {}
        for tag in sorted(dataset.keys()):
            rule = rules.get(tag)
            if rule is None:
                if tag.is_private:
                    if cleaner.policy.retain_safe_private:
                        kept.update(_safe_private(dataset, dataset.get_item(tag)))
                    continue
                rule = rules[tag] = cleaner.rule(self.iod, self.structured, parent, int(tag))
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


class _Place:
    """The elements of one dataset: how they are encoded, and what each rule makes of them."""

    __slots__ = ("dataset", "dummy", "encodings", "implicit", "little", "walk")

    def __init__(
        self,
        walk: _Walk,
        dataset: Dataset,
        encodings: list[str] | None,
        implicit: bool | None,
        little: bool | None,
        dummy: bool,
    ) -> None:
        self.walk = walk
        self.dataset = dataset
        self.encodings = encodings  # None: the character set is not one we know
        self.implicit = implicit
        self.little = little
        self.dummy = dummy

    def treat(self, element: Element, rule: _Rule) -> Element | None:
        """What becomes of an element; ``None`` if nothing."""
        op = rule.op
        if op == "Z":
            return self.make(element.tag, rule.vr, b"")
        if op == "D" or op == "U*":
            return self._dummy(element, rule)
        if not _right_family(element, rule.vr):
            return self._fallback(element, rule)
        if op == "Q":
            return self._items(element, rule, self.dummy)
        if op == "K" and element.tag in _PIXELS | _PIXEL_INDEX:
            return element
        raw = self._bytes(element, rule.vr)
        if op == "K":
            return self._keep(element, rule, raw)
        if not raw.strip(b" \0"):
            return self.make(element.tag, rule.vr, b"")
        if op == "S":
            return self._shifted(element, rule, raw)
        if op == "U":
            return self._uids(element, rule, raw)
        return self._text(element, rule, raw)

    # -- values --------------------------------------------------------------------------------------------------------

    def _bytes(self, element: Element, vr: str) -> bytes:
        """An element's value as bytes; for numbers and binary of a dataset made in memory, just something to test."""
        if isinstance(element, RawDataElement):
            if element.value is None and element.length:
                element = self.dataset[element.tag]  # its reading was deferred
            else:
                return element.value or b""
        value = element.value
        if value is None or vr in _BINARY or (vr in _NUMBER and vr not in ("DS", "IS")):
            return b""
        if isinstance(value, bytes):
            return value
        parts = value if isinstance(value, list) or hasattr(value, "append") else [value]
        return "\\".join("" if part is None else str(part) for part in parts).encode("utf-8")

    def _string(self, element: Element, raw: bytes) -> str | None:
        """The text of a value; ``None`` if it cannot be known for certain."""
        if not isinstance(element, RawDataElement):
            return raw.decode("utf-8").strip(" \0")
        if raw.isascii() and b"\x1b" not in raw:
            return raw.decode("ascii").strip(" \0")
        if self.encodings is None:
            return None
        try:
            text = decode_bytes(raw, self.encodings, TEXT_VR_DELIMS | {ord("^"), ord("=")})
        except (UnicodeError, LookupError):
            return None
        return None if "\ufffd" in text else text.strip(" \0")

    def make(self, tag: BaseTag, vr: str, value: bytes | str | list[str]) -> Element:
        """A new element: as bytes where the dataset was read from a file and they are ASCII."""
        if isinstance(value, list):
            value = "\\".join(value)
        vr = vr.split(" ")[0]  # 'US or SS': either will do for nothing and for zero
        if isinstance(value, str):
            if self.implicit is None or not value.isascii():
                parts: str | list[str] = value.split("\\") if "\\" in value and vr not in _LONG else value
                return DataElement(tag, vr, parts)
            value = value.encode("ascii")
        if self.implicit is None or vr == "SQ":
            return DataElement(tag, vr, [] if vr == "SQ" else None)
        if len(value) % 2:
            value += b"\0" if vr == "UI" else b" "
        return RawDataElement(
            tag, None if self.implicit else vr, len(value), value, 0, self.implicit, bool(self.little)
        )

    def _fallback(self, element: Element, rule: _Rule) -> Element | None:
        if rule.fallback == "Z":
            return self.make(element.tag, rule.vr, b"")
        if rule.fallback in ("D", "U"):
            return self._dummy(element, rule)
        return None

    def _dummy(self, element: Element, rule: _Rule) -> Element | None:
        vr = rule.vr.split(" ")[0]
        if vr == "SQ":
            return self._items(element, rule, True)
        if vr == "UI":
            return self.make(element.tag, vr, self.walk.key.uid(f"dummy {int(element.tag):08x}"))
        if vr == "PN":
            name = self._string(element, self._bytes(element, vr)) if _right_family(element, vr) else None
            made = self.walk.own_name if element.tag in _OWN_NAMES else self.walk.cleaner.surrogate
            return self.make(element.tag, vr, made(name) if name else MASK)
        value = _DUMMY[vr]
        if isinstance(value, str):
            return self.make(element.tag, vr, value)
        return DataElement(element.tag, vr, value)

    def _items(self, element: Element, rule: _Rule, dummy: bool) -> Element | None:
        if isinstance(element, RawDataElement):
            if rule.op != "Q" and not _right_family(element, "SQ"):
                return None
            element = self.dataset[element.tag]
        if element.VR != "SQ":
            return self._fallback(element, rule) if rule.op == "Q" else None
        parent = keyword_for_tag(element.tag)
        items = [self.walk.walk(item, parent, dummy, self.encodings) for item in element.value]
        return DataElement(element.tag, "SQ", DicomSequence(items))

    def _shifted(self, element: Element, rule: _Rule, raw: bytes) -> Element | None:
        shift = self.walk.shift
        move = {"DA": shift.date, "TM": shift.time, "DT": shift.datetime}[rule.vr]
        moved = []
        for part in raw.decode("latin-1").split("\\"):
            value = move(part.strip(" \0"))
            if value is None:
                return self._fallback(element, rule)
            moved.append(value)
        return self.make(element.tag, rule.vr, moved)

    def _uids(self, element: Element, rule: _Rule, raw: bytes) -> Element | None:
        parts = [part.strip(" \0") for part in raw.decode("latin-1").split("\\")]
        listed = int(element.tag) in tables.profile()
        moved = [p if not p or _well_known(p, listed) else self.walk.key.uid(p) for p in parts]
        if moved == parts and isinstance(element, RawDataElement) and element.VR in (None, "UI"):
            return element
        return self.make(element.tag, "UI", moved)

    def _text(self, element: Element, rule: _Rule, raw: bytes) -> Element | None:
        text = self._string(element, raw)
        if text is None or self.dummy:
            return self._fallback(element, rule)
        clean = clean_descriptor if rule.op == "C" else clean_narrative
        parts = [text] if rule.vr in _LONG else text.split("\\")
        try:
            cleaned = [clean(part, self.walk.cleaner.detector, self.walk.known) for part in parts]
        except Exception:  # whatever ails the detector, its text does not pass
            return self._fallback(element, rule)
        if not any(cleaned):
            return self._fallback(element, rule)
        return self.make(element.tag, rule.vr, cleaned if len(cleaned) > 1 else cleaned[0])

    def _standard_code(self) -> bool:
        """Whether the code this item holds is somebody else's than the hospital's: its meaning then is fixed text."""
        return _first(self.dataset, _SCHEME).strip() in coding_schemes()

    def _keep(self, element: Element, rule: _Rule, raw: bytes) -> Element | None:
        """An element that may stay, if its value is what its VR promises and names nobody."""
        vr = rule.vr
        fixed = int(element.tag) in _CODE_ITEM and self._standard_code()
        if int(element.tag) == _CODE_MEANING and not fixed:
            return self._text(element, _Rule("C", vr, rule.kind, "D"), raw)
        if vr in _TEXT or vr == "PN":
            text = self._string(element, raw)
            if (self.dummy and not fixed) or text is None or text in self.walk.known:
                return self._fallback(element, rule)
        elif vr in ("DS", "IS"):
            if not _NUMERIC.match(raw):
                return self._fallback(element, rule)
        elif vr in _WIDTH:
            # One number has one width; seven "numbers" where the dictionary has one are seven pairs of letters.
            if raw and dictionary_VM(element.tag) == "1" and len(raw) != _WIDTH[vr]:
                return self._fallback(element, rule)
        elif vr == "CS":
            return self._code_string(element, rule, raw)
        elif vr == "UI":
            if not _UIDS.match(raw):
                return self._fallback(element, rule)
        elif vr == "AS":
            age = _AGE_STRING.match(raw)
            if not age and raw.strip(b" \0"):
                return self._fallback(element, rule)
            if age and raw[3:4] == b"Y" and int(age[1]) > 89:
                return self.make(element.tag, vr, "090Y")  # 45 CFR 164.514(b)(2)(i)(C)
        if isinstance(element, RawDataElement) and element.VR == "UN":
            return self.dataset[element.tag]  # written with the VR the dictionary knows
        return element

    def _code_string(self, element: Element, rule: _Rule, raw: bytes) -> Element | None:
        """A CS element with the terms the standard defines for it; a word it does not know could be a name."""
        if not _CODE.match(raw):
            return self._fallback(element, rule)
        terms = tables.defined_terms().get(int(element.tag), frozenset())
        values = [value.strip(" \0") for value in raw.decode("ascii").split("\\")]
        kept = [value for value in values if not value or value in terms or ("#" in terms and _CONTEXT.match(value))]
        if not any(kept) and any(values):
            return self._fallback(element, rule)
        if len(kept) != len(values):
            return self.make(element.tag, "CS", kept if len(kept) > 1 else kept[0])
        if isinstance(element, RawDataElement) and element.VR == "UN":
            return self.dataset[element.tag]
        return element


@lru_cache(maxsize=64)
def _encoded_codes(used: tuple[str, ...], implicit: bool, little: bool) -> bytes:
    """The items of (0012,0064) as they stand in a file: the same for every object of a run."""
    buffer = DicomBytesIO()
    buffer.is_implicit_VR, buffer.is_little_endian = implicit, little
    write_sequence(buffer, DataElement(BaseTag(_METHOD_CODES), "SQ", _code_items(used)), ["iso8859"])
    return buffer.getvalue()


def _code_items(used: tuple[str, ...]) -> list[Dataset]:
    codes = tables.method_codes()
    items = []
    for value, meaning in sorted(codes[name] for name in ("basic", *used)):
        item = Dataset()
        item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, "DCM", meaning
        items.append(item)
    return items


def _method_codes(used: tuple[str, ...], implicit: bool | None, little: bool | None) -> Element:
    tag = BaseTag(_METHOD_CODES)
    if implicit is None or little is None:
        return DataElement(tag, "SQ", _code_items(used))
    value = _encoded_codes(used, implicit, little)
    return RawDataElement(tag, None if implicit else "SQ", len(value), value, 0, implicit, little)


# -- identifiers -----------------------------------------------------------------------------------------------------

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
    with _quiet():
        return _own(dataset, deep=True)


def _own(dataset: Dataset, *, deep: bool) -> list[str]:
    found: dict[str, None] = {}
    for keyword, vr, values in _identifying(dataset, deep):
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
    from pydicom.datadict import tag_for_keyword

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


# -- helpers -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def coding_schemes() -> frozenset[str]:
    """Designators of coding schemes that are published, not made by a hospital (PS3.16 section 8)."""
    lines = tables.read_text("coding_schemes.txt").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def options(policy: HeaderPolicy) -> tuple[str, ...]:
    """The options of the profile this policy turns on, by the names of ``cid7050.json``."""
    chosen = {
        "structured": policy.clean_structured_content,
        "descriptors": policy.clean_descriptors,
        "dates": policy.retain_longitudinal,
        "patient": policy.retain_patient_characteristics,
        "device": policy.retain_device,
        "uids": policy.retain_uids,
        "private": policy.retain_safe_private,
        "institution": policy.retain_institution,
    }
    return tuple(name for name, on in chosen.items() if on)


@contextmanager
def _quiet() -> Iterator[None]:
    """Values as they are, right or wrong, and no word about them on the console."""
    with quiet(), disable_value_validation():
        yield


def _surrogates(key: Key) -> Person:
    """Names as the report station gives them, so that header and report agree."""
    try:
        from updp.reports.surrogates import person
    except ImportError:
        return lambda name, sex, whose: key.patient(name)

    @lru_cache(maxsize=4096)
    def surrogate(name: str, sex: str | None, whose: str) -> str:
        # family and given name, letters alone: a record number typed into the name would otherwise come along
        parts = [" ".join(_LETTERS.findall(part)) for part in name.split("=")[0].split("^")[:2]]
        plain = "^".join(part for part in parts if part)
        given = str(person(key, plain, sex, whose=whose)) if plain else ""
        same = {word.lower() for word in _LETTERS.findall(plain)} & {word.lower() for word in _LETTERS.findall(given)}
        return given if given.isascii() and _LETTERS.search(given) and not same else key.patient(name)

    return surrogate


def _first(dataset: Dataset, tag: int) -> str:
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


def _is_directory(dataset: Dataset) -> bool:
    meta = getattr(dataset, "file_meta", None)
    classes = (str(meta.get("MediaStorageSOPClassUID", "")) if meta is not None else "", _first(dataset, _SOP_CLASS))
    return _DICOMDIR in classes or 0x00041220 in dataset or 0x00041130 in dataset


def _well_known(uid: str, listed: bool) -> bool:
    """Whether a UID is one the standard assigns: those name classes and syntaxes, not patients."""
    # Digits and dots first: UID() trims, so any text with a tab behind it would differ from its own name.
    if set(uid) <= set("0123456789.") and UID(uid).name != uid:
        return True
    return not listed and _STANDARD_UID.match(uid) is not None


def _right_family(element: Element, vr: str) -> bool:
    """Whether the VR in the file can hold what the dictionary says is there."""
    found = element.VR
    if found is None or found == vr or found == "UN":
        return True
    if " or " in vr:
        return found in vr.split(" or ") or (found in _NUMBER and "US" in vr)
    return found in _FAMILY and _FAMILY[found] == _FAMILY.get(vr)


def _encodings(dataset: Dataset, inherited: Sequence[str] | None) -> tuple[list[str] | None, Element | None]:
    """How text of a dataset is encoded (``None`` if not known), and the element that says so."""
    if _CHARSET not in dataset:
        return (list(inherited) if inherited is not None else ["iso8859"]), None
    try:
        element = dataset[_CHARSET]
        terms = [element.value] if isinstance(element.value, str) else list(element.value or [""])
    except Exception:
        return None, None
    terms = [str(term or "").strip() for term in terms]
    if any(term not in python_encoding for term in terms):
        return None, None
    return list(convert_encodings(terms)), DataElement(BaseTag(_CHARSET), "CS", terms if len(terms) > 1 else terms[0])


def _safe_private(dataset: Dataset, element: Element) -> dict[BaseTag, Element]:
    """A private element known to be safe, with its creator (PS3.15 E.3.10); nothing otherwise."""
    group, number = element.tag.group, element.tag.element
    creator_tag = BaseTag(group << 16 | number >> 8)
    if number < 0x1000 or creator_tag not in dataset:
        return {}
    creator = _first(dataset, creator_tag).strip()
    vr = tables.safe_private().get((creator, group, number & 0xFF))
    if vr is None:
        return {}
    if isinstance(element, RawDataElement):
        value = element.value or b""
        if element.VR not in (vr, None, "UN") or (vr in ("DS", "IS") and not _NUMERIC.match(value)):
            return {}
        if vr != element.VR:
            element = element._replace(VR=None if element.is_implicit_VR else vr)
    elif vr != element.VR:
        return {}
    return {creator_tag: DataElement(creator_tag, "LO", creator), element.tag: element}
