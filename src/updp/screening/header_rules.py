"""What happens to each attribute of a header, by the profile of PS3.15 Table E.1-1 and the options of a policy."""

from __future__ import annotations

from dataclasses import dataclass

from pydicom.datadict import dictionary_VR, keyword_for_tag

from updp.core.policy import HeaderPolicy
from updp.screening import tables
from updp.screening.elements import (
    BINARY,
    BURNED_IN,
    CHARSET,
    CODE_ITEM,
    DATES_MODIFIED,
    LONG,
    METHOD_CODES,
    METHOD_TEXT,
    PATIENT_ID,
    PATIENT_NAME,
    PIXELS,
    REMOVED_FLAG,
    TEMPORAL,
    TEXT,
)

#: Written anew at the end, whatever the source said.
WRITTEN_ANEW = frozenset(
    (CHARSET, PATIENT_NAME, PATIENT_ID, REMOVED_FLAG, METHOD_TEXT, METHOD_CODES, BURNED_IN, DATES_MODIFIED)
)
#: What a device is: words of its maker, of which no list exists.
EQUIPMENT = frozenset((0x00080070, 0x00081090, 0x00181020))
#: Dates Table E.1-1 offers no temporal option for: birth date and time, GPS time.
_NEVER_SHIFTED = frozenset((0x00100030, 0x00100032, 0x00160077))


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to one attribute at one place of one kind of object."""

    op: str  # X Z D U, S shift, C descriptor, N narrative, K keep, Q walk into the items
    vr: str = ""
    kind: tables.Type = "3"
    fallback: str = "X"  # what happens when the value cannot be treated as ``op`` says


REMOVE = Rule("X")


class Rules:
    """The rules under one policy; each is worked out once."""

    def __init__(self, policy: HeaderPolicy) -> None:
        self.policy = policy
        self.options = options(policy)
        self._plans: dict[tuple[str | None, bool, str], dict[int, Rule]] = {}

    def known(self, iod: str | None, structured: bool, parent: str) -> dict[int, Rule]:
        """The rules met so far for the items of ``parent`` ('' for the object itself)."""
        return self._plans.setdefault((iod, structured, parent), {})

    def rule(self, iod: str | None, structured: bool, parent: str, tag: int) -> Rule:
        """The rule of one attribute."""
        group = tag >> 16
        if tag in WRITTEN_ANEW and (not parent or tag not in (PATIENT_NAME, PATIENT_ID)):
            return REMOVE
        if group < 0x0008 or not tag & 0xFFFF or group & 0xFF00 in (0x5000, 0x6000) or group in (0xFFFA, 0xFFFC):
            return REMOVE
        if group & 0xFF00 == 0x7F00:
            return Rule("K", "OW") if not parent and tag in PIXELS else REMOVE
        try:
            vr, keyword = str(dictionary_VR(tag)), keyword_for_tag(tag)
        except KeyError:
            return REMOVE
        kind = tables.type_of(iod, parent, keyword)
        row = tables.profile().get(tag)
        if row is None:
            return self._unlisted(tag, vr, kind, structured)
        basic = tables.resolve(row.action, kind)
        if vr == "SQ":
            return self._sequence(row, basic, kind, structured)
        if vr in TEMPORAL and self.policy.retain_longitudinal and tag not in _NEVER_SHIFTED:
            return Rule("S", vr, kind, basic)
        if vr == "UI" and basic in ("U", "D", "X") and (basic != "X" or self.policy.retain_uids):
            return Rule("K" if self.policy.retain_uids else "U", vr, kind, basic if basic != "U" else "D")
        for option, how in row.options:
            if option in self.options:
                if how == "K":
                    return Rule("K", vr, kind, basic)
                if vr in TEXT:
                    return Rule("C", vr, kind, basic)
        return Rule(basic, vr, kind, basic)

    def _sequence(self, row: tables.Row, basic: str, kind: tables.Type, structured: bool) -> Rule:
        walk = Rule("Q", "SQ", kind, "X")
        for option, how in row.options:
            if option == "structured":
                if structured and option in self.options:
                    return walk
            elif option in self.options and how == "K":
                return walk  # no code or item can be cleaned for certain, so a sequence under C takes its basic action
        if basic == "U*" or (self.policy.retain_uids and row.action in ("X/Z/U*", "U")):
            return walk
        if basic == "D":
            # a sequence the object does not need is gone; one it needs keeps its shape, filled with dummies
            return REMOVE if kind == "3" else Rule("D", "SQ", kind)
        return Rule(basic, "SQ", kind, basic)

    def _unlisted(self, tag: int, vr: str, kind: tables.Type, structured: bool) -> Rule:
        needed = tables.resolve("X/Z/D", kind)
        if vr == "SQ":
            return Rule("Q", vr, kind)
        if vr in ("PN", "AE", "UR"):
            return Rule(needed, vr, kind)
        if vr in TEMPORAL:
            return Rule("S" if self.policy.retain_longitudinal else needed, vr, kind, needed)
        if vr == "UI":
            return Rule("K" if self.policy.retain_uids else "U", vr, kind, needed)
        if vr in LONG or vr == "UC":
            return Rule("N" if structured else "C", vr, kind, "D")
        if not BINARY.isdisjoint(vr.split(" or ")) and kind == "3" and tag >> 16 != 0x0028:
            return REMOVE  # a block of bytes nobody needs can hold anything
        if tag in CODE_ITEM:
            return Rule("K", vr, kind, "D")  # Type 1 wherever there is a code
        if vr in TEXT and tag not in EQUIPMENT:
            return Rule("C", vr, kind, "Z" if needed == "X" else needed)  # a label or an explanation is free text
        return Rule("K", vr, kind, "Z" if needed == "X" else needed)  # empty does for Type 2 and for Type 3


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
