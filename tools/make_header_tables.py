"""Make the tables of the header station: ``python tools/make_header_tables.py CONFIDENTIALITY_JSON``.

``e11.tsv``
    Table E.1-1 of PS3.15 (Application Level Confidentiality Profile Attributes), edition 2026c, as carried by
    dicom-anonymizer 2.1.0 (BSD-3-Clause, Kitware).
``iod_types.json``
    The Type (1, 1C, 2, 2C; everything else is 3) of the attributes of Table E.1-1 in the modules of the information
    objects a radiography archive holds, from the module and IOD maps of highdicom 0.28.2 (MIT), and the strictest Type
    over all modules of the standard for objects not among them.

``e11_options.json``
    The option columns of Table E.1-1, from dicom-standard 0.1.0 (MIT, Innolitics; edition 2020). Rows younger than
    that edition are offered under an option only where the rule in :func:`options` says so: descriptions, labels and
    comments in text. Everywhere else the basic action applies, which is the stricter one. The temporal columns and the
    UID column follow from VR and basic action and need no list.

The packages are needed to run this file, none of them to run updp.
"""

from __future__ import annotations

import importlib.resources
import json
import re
import sys
from pathlib import Path

from dicomanonymizer.dicomfields_selector import dicom_anonymization_database_selector  # type: ignore[import-untyped]
from pydicom.datadict import dictionary_VR, keyword_for_tag, tag_for_keyword

EDITION = "2026c"
ACTIONS = {
    "X_TAGS": "X",
    "Z_TAGS": "Z",
    "D_TAGS": "D",
    "U_TAGS": "U",
    "X_Z_TAGS": "X/Z",
    "X_D_TAGS": "X/D",
    "Z_D_TAGS": "Z/D",
    "X_Z_D_TAGS": "X/Z/D",
    "X_Z_U_STAR_TAGS": "X/Z/U*",
}
IODS = (
    "computed-radiography-image",
    "digital-x-ray-image",
    "digital-mammography-x-ray-image",
    "x-ray-angiographic-image",
    "x-ray-radiofluoroscopic-image",
    "ct-image",
    "secondary-capture-image",
    "multi-frame-single-bit-secondary-capture-image",
    "multi-frame-grayscale-byte-secondary-capture-image",
    "multi-frame-grayscale-word-secondary-capture-image",
    "multi-frame-true-color-secondary-capture-image",
    "grayscale-softcopy-presentation-state",
    "encapsulated-pdf",
    "encapsulated-cda",
    "basic-text-sr",
    "enhanced-sr",
    "comprehensive-sr",
    "comprehensive-3d-sr",
    "extensible-sr",
    "key-object-selection-document",
    "mammography-cad-sr",
    "chest-cad-sr",
    "x-ray-radiation-dose-sr",
    "enhanced-x-ray-radiation-dose-sr",
    "patient-radiation-dose-sr",
    "acquisition-context-sr",
)
OPTIONS = {
    "cleanDescOpt": "descriptors",
    "rtnDevIdOpt": "device",
    "rtnPatCharsOpt": "patient",
    "rtnInstIdOpt": "institution",
    "cleanStructContOpt": "structured",
}
DESCRIPTOR = re.compile(r"(Description|Label|Comments|Notes|CommentsOn\w+)$|^CommentsOn")
STRICTNESS = {"3": 0, "2C": 1, "2": 2, "1C": 3, "1": 4}
#: VRs that can identify though the attribute is not in the table: these are removed where the IOD allows it.
IDENTIFYING = {"PN", "AE", "UR", "DA", "DT", "TM", "OB", "UN"}


def profile() -> dict[str, tuple[str, str]]:
    """tag pattern -> (keyword, basic action)."""
    lists = dicom_anonymization_database_selector(f"dicomfields_{EDITION}")
    rows = {}
    for name, action in ACTIONS.items():
        for entry in lists[name]:
            group, element, *mask = entry
            if mask:
                tag = f"{group >> 8:02X}xx" + ("xxxx" if mask[1] == 0 else f"{element:04X}")
                keyword = {"50xxxxxx": "CurveData", "60xx3000": "OverlayData", "60xx4000": "OverlayComments"}[tag]
            else:
                tag = f"{group:04X}{element:04X}"
                keyword = keyword_for_tag(int(tag, 16))
            rows[tag] = (keyword, action)
    rows["ggggeeee"] = ("PrivateAttributes", "X")
    return rows


def options(table: dict[str, tuple[str, str]], source: Path) -> dict[str, dict[str, list[str]]]:
    """Option columns by keyword; ``source`` is dicom-standard's confidentiality_profile_attributes.json."""
    found: dict[str, dict[str, set[str]]] = {name: {} for name in OPTIONS.values()}
    known = set()
    for row in json.loads(source.read_text()):
        tag = re.sub(r"[^0-9A-F]", "", row["tag"].upper())
        known.add(tag)
        for column, name in OPTIONS.items():
            if row.get(column) in ("K", "C") and tag in table:
                found[name].setdefault(row[column], set()).add(table[tag][0])
    for tag, (keyword, _) in table.items():
        later = tag not in known and keyword and re.fullmatch(r"[0-9A-F]{8}", tag)
        if later and DESCRIPTOR.search(keyword) and dictionary_VR(int(tag, 16)) in ("SH", "LO", "ST", "LT", "UT"):
            found["descriptors"]["C"].add(keyword)
    return {name: {a: sorted(words) for a, words in sorted(columns.items())} for name, columns in found.items()}


def types(wanted: set[str]) -> dict[str, object]:
    base = importlib.resources.files("highdicom") / "_standard"
    modules = json.loads((base / "module_attribute_map.json").read_text())
    iods = json.loads((base / "iod_module_map.json").read_text())
    classes = json.loads((base / "sop_class_iod_map.json").read_text())

    def rows(module: str) -> dict[str, str]:
        out: dict[str, str] = {}
        for attribute in modules.get(module, ()):
            keyword = attribute["keyword"]
            tag = tag_for_keyword(keyword)
            if tag is None or attribute["type"] not in ("1", "1C", "2", "2C"):
                continue
            if keyword not in wanted and dictionary_VR(tag) not in IDENTIFYING:
                continue
            parent = attribute["path"][-1] if attribute["path"] else ""
            # the code sequence macro is everywhere: one row stands for all its parents
            parent = "*" if keyword in ("ContextGroupVersion", "ContextGroupLocalVersion") else parent
            place = f"{parent}>{keyword}" if parent else keyword
            out[place] = max(out.get(place, "3"), attribute["type"], key=STRICTNESS.__getitem__)
        return out

    strictest: dict[str, str] = {}
    for module in modules:
        for place, kind in rows(module).items():
            strictest[place] = max(strictest.get(place, "3"), kind, key=STRICTNESS.__getitem__)
    used = sorted({m["key"] for iod in IODS for m in iods[iod]})
    return {
        "about": "Attribute Types by module; 'Sequence>Attribute' inside an item, '*' any sequence. highdicom 0.28.2.",
        "sop_classes": {uid: iod for uid, iod in sorted(classes.items()) if iod in IODS},
        "iods": {iod: [m["key"] for m in iods[iod] if rows(m["key"])] for iod in IODS},
        "modules": {module: found for module in used if (found := rows(module))},
        "strictest": dict(sorted(strictest.items())),
    }


def main(standard: Path) -> None:
    here = Path(__file__).parents[1] / "src/updp/screening/data"
    table = profile()
    lines = [
        f"# PS3.15 Table E.1-1, edition {EDITION}; from dicom-anonymizer 2.1.0 (BSD-3-Clause)",
        "tag\tkeyword\taction",
    ]
    lines += [f"{tag}\t{keyword}\t{action}" for tag, (keyword, action) in sorted(table.items())]
    (here / "e11.tsv").write_text("\n".join(lines) + "\n")
    wanted = {keyword for keyword, _ in table.values() if keyword}
    (here / "iod_types.json").write_text(json.dumps(types(wanted), indent=0, separators=(",", ":")) + "\n")
    (here / "e11_options.json").write_text(json.dumps(options(table, standard), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
