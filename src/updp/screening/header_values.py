"""What each rule makes of an element: emptied, replaced, shifted, cleaned or kept.

An element stays only if its value looks like its VR and names nobody; text in an unknown character set goes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from pydicom.charset import decode_bytes
from pydicom.datadict import dictionary_has_tag, dictionary_VM, keyword_for_tag
from pydicom.dataelem import DataElement, RawDataElement
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence as DicomSequence
from pydicom.tag import BaseTag
from pydicom.valuerep import TEXT_VR_DELIMS

from updp.reports.lexicon import vocabulary
from updp.screening import tables
from updp.screening.elements import (
    BINARY,
    CODE_ITEM,
    CODE_MEANING,
    CODE_VALUE,
    LONG,
    NUMBER,
    NUMERIC,
    PALETTE,
    PATIENT_NAME,
    PHOTOMETRIC,
    PIXEL_DATA,
    PIXELS,
    SCHEME,
    SCHEME_VERSION,
    TEXT,
    WIDTH,
    Element,
    first_value,
    is_well_known,
    right_family,
)
from updp.screening.header_rules import Rule
from updp.screening.words import MASK, clean_descriptor, clean_narrative, descriptor_words

if TYPE_CHECKING:
    from updp.screening.headers import HeaderWalk

_OWN_NAMES = (PATIENT_NAME, 0x00101001, 0x00101005)  # and other names, and the name at birth
_CODE = re.compile(rb"[A-Za-z0-9 _\-/.\\\0]*\Z")
_CONTEXT = re.compile(r"\d{1,5}\Z")
_NUMBER = re.compile(rb"[1-9]\d{4,}")
#: A word, not a code.
_WORD_IN_CODE = re.compile(rb"[A-Za-z]{5}")
_LETTERS = re.compile(r"[^\W\d_]+")
_EXPONENT = re.compile(rb"[eE]")
_UIDS = re.compile(rb"[0-9.\\\0 ]*\Z")
_AGE_STRING = re.compile(rb"(\d{3})[DWMY][ \0]*\Z")

_DUMMY: dict[str, str | int | float | bytes] = {
    "AE": MASK, "AS": "000Y", "CS": MASK, "LO": MASK, "LT": MASK, "PN": MASK, "SH": MASK, "ST": MASK, "UC": MASK,
    "UT": MASK, "UR": "urn:removed", "DA": "19000101", "DT": "19000101000000", "TM": "000000", "DS": "0", "IS": "0",
    "FL": 0.0, "FD": 0.0, "SS": 0, "US": 0, "SL": 0, "UL": 0, "SV": 0, "UV": 0, "AT": 0, "OB": b"\0\0", "OW": b"\0\0",
    "OF": b"\0" * 4, "OD": b"\0" * 8, "OL": b"\0" * 4, "OV": b"\0" * 8, "UN": b"\0\0",
}  # fmt: skip


class ElementCleaner:
    """The elements of one dataset: how they are encoded, and what each rule makes of them."""

    __slots__ = ("dataset", "dummy", "encodings", "implicit", "little", "walk")

    def __init__(
        self,
        walk: HeaderWalk,
        dataset: Dataset,
        encodings: list[str] | None,
        implicit: bool | None,
        little: bool | None,
        dummy: bool,
    ) -> None:
        self.walk = walk
        self.dataset = dataset
        self.encodings = encodings  # None: the character set is not known
        self.implicit = implicit
        self.little = little
        self.dummy = dummy

    def treat(self, element: Element, rule: Rule) -> Element | None:
        """What becomes of an element; ``None`` if nothing."""
        op = rule.op
        if op == "Z":
            return self.make(element.tag, rule.vr, b"")
        if op == "D" or op == "U*":
            return self._dummy(element, rule)
        if not right_family(element, rule.vr):
            return self._fallback(element, rule)
        if op == "Q":
            return self._items(element, rule, self.dummy)
        if op == "K" and element.tag in PIXELS:
            # Only what was screened: a second film beside it, of other numbers, was looked at by nobody.
            return element if element.tag == PIXEL_DATA or PIXEL_DATA not in self.dataset else None
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
        if value is None or vr in BINARY or (vr in NUMBER and vr not in ("DS", "IS")):
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
                parts: str | list[str] = value.split("\\") if "\\" in value and vr not in LONG else value
                return DataElement(tag, vr, parts)
            value = value.encode("ascii")
        if self.implicit is None or vr == "SQ":
            return DataElement(tag, vr, [] if vr == "SQ" else None)
        if len(value) % 2:
            value += b"\0" if vr == "UI" else b" "
        return RawDataElement(
            tag, None if self.implicit else vr, len(value), value, 0, self.implicit, bool(self.little)
        )

    def _fallback(self, element: Element, rule: Rule) -> Element | None:
        if rule.fallback == "Z":
            return self.make(element.tag, rule.vr, b"")
        if rule.fallback in ("D", "U"):
            return self._dummy(element, rule)
        return None

    def _dummy(self, element: Element, rule: Rule) -> Element | None:
        vr = rule.vr.split(" ")[0]
        if vr == "SQ":
            return self._items(element, rule, True)
        if vr == "UI":
            return self.make(element.tag, vr, self.walk.key.uid(f"dummy {int(element.tag):08x}"))
        if vr == "PN":
            name = self._string(element, self._bytes(element, vr)) if right_family(element, vr) else None
            made = self.walk.own_name if element.tag in _OWN_NAMES else self.walk.cleaner.surrogate
            return self.make(element.tag, vr, made(name) if name else MASK)
        value = _DUMMY[vr]
        if isinstance(value, str):
            return self.make(element.tag, vr, value)
        return DataElement(element.tag, vr, value)

    def _items(self, element: Element, rule: Rule, dummy: bool) -> Element | None:
        if isinstance(element, RawDataElement):
            if rule.op != "Q" and not right_family(element, "SQ"):
                return None
            element = self.dataset[element.tag]
        if element.VR != "SQ":
            return self._fallback(element, rule) if rule.op == "Q" else None
        parent = keyword_for_tag(element.tag)
        items = [self.walk.walk(item, parent, dummy, self.encodings) for item in element.value]
        return DataElement(element.tag, "SQ", DicomSequence(items))

    def _shifted(self, element: Element, rule: Rule, raw: bytes) -> Element | None:
        shift = self.walk.shift
        move = {"DA": shift.date, "TM": shift.time, "DT": shift.datetime}[rule.vr]
        moved = []
        for part in raw.decode("latin-1").split("\\"):
            value = move(part.strip(" \0"))
            if value is None:
                return self._fallback(element, rule)
            moved.append(value)
        return self.make(element.tag, rule.vr, moved)

    def _uids(self, element: Element, rule: Rule, raw: bytes) -> Element | None:
        parts = [part.strip(" \0") for part in raw.decode("latin-1").split("\\")]
        listed = int(element.tag) in tables.profile()
        moved = [p if not p or is_well_known(p, listed) else self.walk.key.uid(p) for p in parts]
        if moved == parts and isinstance(element, RawDataElement) and element.VR in (None, "UI"):
            return element
        return self.make(element.tag, "UI", moved)

    def _text(self, element: Element, rule: Rule, raw: bytes) -> Element | None:
        text = self._string(element, raw)
        if text is None or self.dummy:
            return self._fallback(element, rule)
        clean = clean_descriptor if rule.op == "C" else clean_narrative
        parts = [text] if rule.vr in LONG else text.split("\\")
        terms = tables.defined_terms().get(int(element.tag), frozenset())
        try:
            cleaned = [
                part if part in terms else clean(part, self.walk.cleaner.detector, self.walk.known) for part in parts
            ]
        except Exception:  # whatever ails the detector, its text does not pass
            return self._fallback(element, rule)
        if not any(cleaned):
            return self._fallback(element, rule)
        return self.make(element.tag, rule.vr, cleaned if len(cleaned) > 1 else cleaned[0])

    def _standard_code(self) -> bool:
        """Whether the code this item holds is somebody else's than the hospital's: its meaning then is fixed text."""
        return first_value(self.dataset, SCHEME).strip() in coding_schemes()

    def _keep(self, element: Element, rule: Rule, raw: bytes) -> Element | None:
        """An element that may stay, if its value is what its VR promises and names nobody."""
        vr = rule.vr
        fixed = int(element.tag) in CODE_ITEM and self._standard_code()
        if int(element.tag) == CODE_MEANING and not (fixed and self._plain_words(element, raw)):
            return self._text(element, Rule("C", vr, rule.kind, "D"), raw)
        if int(element.tag) in (CODE_VALUE, SCHEME_VERSION) and _WORD_IN_CODE.search(raw):
            return self._text(element, Rule("C", vr, rule.kind, "D"), raw)
        if vr in TEXT or vr == "PN":
            text = self._string(element, raw)
            if (self.dummy and not fixed) or text is None or text in self.walk.known:
                return self._fallback(element, rule)
        elif vr in ("DS", "IS"):
            if not NUMERIC.match(raw) or (self.walk.numbers and self._spells(raw)):
                return self._fallback(element, rule)
        elif vr == "AT":
            if any(not dictionary_has_tag(tag) for tag in self._tags(element, raw)):
                return self._fallback(element, rule)
        elif vr in WIDTH:
            if self.walk.numbers and self._holds_number(element, vr, raw):
                return self._fallback(element, rule)
            # One number has one width; seven "numbers" where the dictionary has one are seven pairs of letters.
            if raw and dictionary_VM(element.tag) == "1" and len(raw) != WIDTH[vr]:
                return self._fallback(element, rule)
        elif int(element.tag) in PALETTE:
            if first_value(self.dataset, PHOTOMETRIC).strip() != "PALETTE COLOR":
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

    def _plain_words(self, element: Element, raw: bytes) -> bool:
        """Whether the meaning of a code is made of words that are no names."""
        text = self._string(element, raw)
        if text is None:
            return False
        known = all(w in vocabulary() or w in descriptor_words() for w in _LETTERS.findall(text.lower()))
        return known and (self.walk.cleaner.detector is None or not any(self.walk.cleaner.detector.spans(text)))

    def _spells(self, raw: bytes) -> bool:
        """Whether a decimal has the digits of the patient's number, wherever its point stands."""
        numbers = self.walk.numbers
        if not numbers.isdisjoint(_NUMBER.findall(raw)):
            return True
        for part in raw.split(b"\\"):
            digits = _EXPONENT.split(part)[0].replace(b".", b"").strip(b" +-\0").lstrip(b"0")
            if any(
                n in digits if len(n) > 6 else len(plain := n.rstrip(b"0")) > 4 and digits.rstrip(b"0") == plain
                for n in numbers
            ):
                return True
        return False

    def _holds_number(self, element: Element, vr: str, raw: bytes) -> bool:
        """Whether one of the numbers of a binary element is the patient's."""
        numbers = self.walk.numbers
        if isinstance(element, RawDataElement):
            if vr == "US" and len(raw) == 2:
                return str(int.from_bytes(raw, "little" if self.little is not False else "big")).encode() in numbers
            return any(encoded in raw for encoded in self.walk.encoded)
        values = element.value if hasattr(element.value, "append") else [element.value]
        return any(isinstance(v, int | float) and v == int(v) and str(int(v)).encode() in numbers for v in values)

    def _tags(self, element: Element, raw: bytes) -> list[int]:
        """The tags that an AT element holds."""
        if not isinstance(element, RawDataElement):
            values = element.value if hasattr(element.value, "append") else [element.value]
            return [int(tag) for tag in values if tag is not None]
        order: Literal["little", "big"] = "little" if self.little is not False else "big"
        halves = [int.from_bytes(raw[i : i + 2], order) for i in range(0, len(raw), 2)]
        return [high << 16 | low for high, low in zip(halves[::2], halves[1::2], strict=False)]

    def _code_string(self, element: Element, rule: Rule, raw: bytes) -> Element | None:
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


@lru_cache(maxsize=1)
def coding_schemes() -> frozenset[str]:
    """Designators of coding schemes that are published, not made by a hospital (PS3.16 section 8)."""
    lines = tables.read_text("coding_schemes.txt").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
