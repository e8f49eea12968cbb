"""The conformance statement of the screening station, written from the tables it really used.

Goes into a release as ``evidence/conformance.md``. Nothing here is prose about intentions: every count and every list
is read from the same tables and the same policy the cleaner reads.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from updp.screening import tables

if TYPE_CHECKING:
    from updp.core.policy import Policy

_ACTIONS = {
    "X": "removed",
    "Z": "emptied",
    "D": "replaced by a dummy of the same VR",
    "U": "replaced by a UID made from the key, the same in every file",
    "X/Z": "removed; emptied where Type 2",
    "X/D": "removed; dummy where Type 1",
    "Z/D": "emptied; dummy where Type 1",
    "X/Z/D": "removed; emptied where Type 2; dummy where Type 1",
    "X/Z/U*": "removed; emptied where Type 2; kept with new UIDs where Type 1",
}


def conformance(policy: Policy) -> str:
    """The statement for one policy, in Markdown."""
    from updp.screening.burned_in import kept_words
    from updp.screening.header_rules import options

    rows = tables.profile()
    further = tables.read_tsv("further.tsv")
    listed = [row for tag, row in rows.items() if f"{tag:08X}" not in {tag for tag, *_ in further}]
    counts = Counter(row.action for row in listed)
    counts.update(tables.repeating().values())  # type: ignore[arg-type]
    chosen = ("basic", *options(policy.headers), *(("pixels",) if policy.burned_in.mode == "ocr" else ()))
    codes = tables.method_codes()

    out = [
        "# DICOM conformance statement: de-identification",
        "",
        f"Profile: DICOM PS3.15 Annex E, Basic Application Level Confidentiality Profile, Table E.1-1 of edition "
        f"{tables.edition()}: {sum(counts.values())} attributes and attribute patterns.",
        "",
        "## Options",
        "",
        "| code (CID 7050) | meaning | this policy |",
        "|---|---|---|",
    ]
    for name, (value, meaning) in sorted(codes.items(), key=lambda entry: entry[1]):
        out.append(f"| {value} | {meaning} | {'yes' if name in chosen else 'no'} |")
    out += [
        "",
        "The codes answered yes are written to De-identification Method Code Sequence (0012,0064), and (0012,0062) is",
        "YES. Clean Pixel Data is written only to objects whose film was read for burned-in text.",
        f"Longitudinal Temporal Information Modified (0028,0303) is "
        f"{'MODIFIED' if policy.headers.retain_longitudinal else 'REMOVED'}.",
        "",
        "## Basic actions",
        "",
        "| action | attributes | what is done |",
        "|---|---|---|",
    ]
    out += [f"| {action} | {counts[action]} | {text} |" for action, text in _ACTIONS.items()]  # type: ignore[index]
    out += [
        "",
        "A compound action is decided by the attribute's Type at its place (top level, or the sequence it stands in)",
        "in the object's IOD. Types are known for:",
        "",
        *(f"- {iod}" for iod in tables.iods()),
        "",
        "For any other object the strictest Type found in any module of the standard is assumed. An X or Z that would",
        "break the IOD (Type 2 or 1 inside a sequence that is kept) becomes an empty or dummy value.",
        "",
        "## What options change",
        "",
        "| option | attributes kept or cleaned |",
        "|---|---|",
    ]
    for option in ("descriptors", "structured", "device", "institution", "patient"):
        names = sorted(row.keyword for row in listed if any(name == option for name, _ in row.options))
        state = "on" if option in chosen else "off, basic action applies"
        out.append(f"| {option} ({state}) | {', '.join(names)} |")
    dates = (
        "Dates move back by whole weeks and times round the clock, both by an amount of the patient's own derived from "
        "the key; seconds and fractions of a second are drawn anew by key."
        if policy.headers.retain_longitudinal
        else "Dates and times take their basic action."
    )
    out += [
        "",
        dates,
        "Birth dates take their basic action always. A code string keeps only terms the standard defines for it. A "
        "description keeps only words of radiography from a fixed list",
        "and nothing the report detector objects to; sequences of descriptions take their basic action.",
        "Ages over 89 years are written 090Y where ages are kept. AE titles cannot be cleaned and take their basic",
        "action.",
        "",
        "## Beyond the table",
        "",
        "| attribute | action | reason |",
        "|---|---|---|",
        *(f"| ({tag[:4]},{tag[4:]}) {keyword} | {action} | {why} |" for tag, keyword, action, why in further),
        "",
        "- Private elements are removed"
        + (", those of `safe_private.tsv` (numeric, PS3.15 E.3.10) excepted." if "private" in chosen else "."),
        "- Curves (50xx) and overlays (60xx) are removed as whole groups.",
        "- Tags the data dictionary does not know, group lengths, and blocks of bytes the IOD does not need are",
        "  removed.",
        "- An element stays only if its VR can hold what the dictionary says and its value fits the VR; otherwise it",
        "  is removed, emptied or replaced, by its Type.",
        "- Person names, AE titles and URLs the table does not list are removed, emptied or replaced, by Type.",
        "- Any text that contains one of the patient's own identifiers from the same header is removed, emptied or",
        "  replaced, by Type. Text in an unknown character set goes unless it is plain ASCII.",
        "- UIDs outside the root of the standard are re-mapped wherever they stand, unless UIDs are retained.",
        "- The file meta group is written anew; preamble, AE titles and private information are dropped.",
        "- DICOMDIR files are refused.",
        "",
        "## Structured reports",
        "",
        "The content tree is walked whole: names become surrogates, dates and UIDs follow the rules above, text passes "
        "the report detector."
        if policy.headers.clean_structured_content
        else "The content tree keeps its shape and is filled with dummies.",
        "",
        "## Burned-in text",
        "",
        {
            "ocr": "Every film is read at its native resolution, turned and mirrored; text, bar codes and matrix codes "
            "are painted out, and the film is read again. A film with legible text left, or one that could not be "
            "read, does not leave. "
            + (
                "Text-like marks nobody can read are painted out too."
                if policy.burned_in.doubt == "paint"
                else "A film with a text-like mark nobody can read does not leave."
            ),
            "header": "Films whose header does not say Burned In Annotation = NO do not leave; pixels are not read.",
            "off": "Films leave **unchecked** for burned-in text.",
        }[policy.burned_in.mode],
    ]
    if policy.burned_in.mode == "ocr":
        words = sorted(kept_words(policy.burned_in))
        out += ["", f"Words that stay on a film: {', '.join(words)}."]
    return "\n".join(out) + "\n"
