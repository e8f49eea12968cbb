"""What a person and a machine read first: the README of a release, its evidence page, its Croissant description."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.keys import Key
from updp.core.manifest_files import manifest_files
from updp.core.policy import Policy
from updp.core.reasons import REPAIR, Reason
from updp.domains import domain_of
from updp.methods import method_info
from updp.release.manifest import COLUMNS, names
from updp.release.provenance import provenance
from updp.release.signature import file_sum, public_key

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        autoescape=lambda name: name is not None and ".html" in name,
        keep_trailing_newline=True,
    )


def readme(facts: Mapping[str, Any], policy: Policy, key: Key) -> str:
    """The dataset card."""
    return (
        _templates()
        .get_template("readme.md.jinja")
        .render(
            facts=facts,
            policy=policy,
            images=domain_of(policy).summary,
            info=method_info(policy.method.name),
            columns=COLUMNS,
            public_key=public_key(key),
            made=provenance(policy),
            sizes=_sizes(facts["tallies"]),
            suffix=" or ".join(_kinds(policy)),
            manifests=names(facts["counts"]["released"]),
        )
    )


def _sizes(tallies: Mapping[str, int]) -> str:
    """The sizes of the films; of many, how many there are and the most frequent."""
    found = {name.removeprefix("size/"): count for name, count in tallies.items() if name.startswith("size/")}
    if len(found) <= _SIZES:
        return ", ".join(found)
    most = max(found, key=lambda name: found[name])
    return f"{len(found)} sizes, most often {most}"


#: More sizes than these are counted, not listed.
_SIZES = 5
#: Suffix of a released film -> its media type.
_MEDIA = {"dcm": "application/dicom", "png": "image/png"}


def _kinds(policy: Policy) -> list[str]:
    """The suffixes that files of released films may have."""
    return {"dicom": ["dcm"], "png": ["png"], "source": ["dcm", "png"]}[policy.image.format]


def boundary(policy: Policy) -> list[tuple[str, str, str]]:
    """Place by place, what leaves under a policy and what stays."""
    method = method_info(policy.method.name)
    report = {
        "surrogate": "the sections " + ", ".join(policy.report.sections) + ", PHI replaced by consistent surrogates",
        "tag": "the sections " + ", ".join(policy.report.sections) + ", PHI replaced by typed tags",
        "structured": "the sections "
        + ", ".join(policy.report.sections)
        + ", restated: terms, sides, negations and measurements in standard sentences, none of the wording",
        "withhold": "nothing",
    }[policy.report.mode]
    burned = {
        "ocr": "side markers and acquisition words",
        "header": "films whose header rules burned-in text out",
        "off": "whatever is burned in: films were not checked",
    }[policy.burned_in.mode]
    header = "nothing" if policy.image.format == "png" else "a cleaned header (PS3.15)"
    return [
        ("film", method.summary, "the original film"),
        ("burned-in text", burned, "names, numbers, dates, times"),
        ("header", header, "every identifying attribute, private elements"),
        ("report", report, "the original text, all other sections"),
        ("ids", "keyed pseudonyms of patient, study and film", "the ids, the key, the vault that links them"),
        ("manifest", ", ".join(policy.release.attributes) or "ids only", "every other attribute"),
    ]


def evidence_page(
    facts: Mapping[str, Any],
    policy: Policy,
    *,
    title: str | None = None,
    notice: str = "",
    pairs: list[dict[str, Any]] | None = None,
    evaluation: str = "",
    sentence: str = "",
) -> str:
    """The evidence as one self-contained page. ``pairs`` shows films before and after: for inside the hospital only.
    ``evaluation`` is what attacks and measures found, as HTML; ``sentence`` is the verdict."""
    tallies = facts["tallies"]
    phi = [(name.removeprefix("phi/"), count) for name, count in tallies.items() if name.startswith("phi/")]
    kept = {name.removeprefix("retention/"): n for name, n in tallies.items() if name.startswith("retention/")}
    kinds = dict.fromkeys(name.rsplit("_", 1)[0] for name in kept if name.endswith(("_before", "_after")))
    return (
        _templates()
        .get_template("page.html.jinja")
        .render(
            title=title or f"Release {policy.release.name}",
            notice=notice,
            facts=facts,
            policy=policy,
            pairs=pairs or [],
            evaluation=evaluation,
            sentence=sentence,
            boundary=boundary(policy),
            phi=phi,
            retention=[(k, kept.get(f"{k}_before", 0), kept.get(f"{k}_after", 0)) for k in kinds],
            quarantine=[(code, n, REPAIR[Reason(code)]) for code, n in facts["counts"]["quarantined"].items()],
        )
    )


def croissant(build: Path, facts: Mapping[str, Any], policy: Policy) -> str:
    """The release in Croissant 1.0 (MLCommons), so that loaders and catalogues understand it."""
    kinds = {"bool": "sc:Boolean", "int16": "sc:Integer", "date32": "sc:Date"}
    suffixes = _kinds(policy)
    films = [
        {
            "@type": "cr:FileSet",
            "@id": name,
            "name": name,
            "encodingFormat": _MEDIA[suffix],
            "includes": f"images/*/*.{suffix}",
        }
        for suffix in suffixes
        for name in ["films-files" if len(suffixes) == 1 else f"films-{suffix}"]
    ]
    rows = manifest_files(build)
    kind_of_manifest = "fileObject" if len(rows) == 1 else "fileSet"
    manifest: dict[str, Any] = {
        "@type": "cr:FileObject",
        "@id": "manifest",
        "name": "manifest.parquet",
        "contentUrl": "manifest.parquet",
        "encodingFormat": "application/x-parquet",
        "sha256": file_sum(rows[0]),
    } if len(rows) == 1 else {
        "@type": "cr:FileSet",
        "@id": "manifest",
        "name": "manifest",
        "encodingFormat": "application/x-parquet",
        "includes": "manifest-*.parquet",
    }  # fmt: skip
    fields: list[dict[str, Any]] = []
    for name, kind, text in COLUMNS:
        column: dict[str, Any] = {
            "@type": "cr:Field",
            "@id": f"films/{name}",
            "name": name,
            "description": text,
            "dataType": kinds.get(kind, "sc:Text"),
            "source": {kind_of_manifest: {"@id": "manifest"}, "extract": {"column": name}},
        }
        if kind.startswith("list"):
            column["repeated"] = True
        fields.append(column)
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": policy.release.name,
        "description": f"De-identified {domain_of(policy).summary}, {facts['counts']['released']} films, method "
        f"{policy.method.name}, status {facts['gate']['status']}. {provenance(policy).statement}",
        "license": policy.release.licence,
        "version": "1.0.0",
        "distribution": [
            manifest,
            *films,
            {
                "@type": "cr:FileSet",
                "@id": "reports-files",
                "name": "reports-files",
                "encodingFormat": "application/jsonlines",
                "includes": "reports/*.jsonl",
            },
        ],
        "recordSet": [{"@type": "cr:RecordSet", "@id": "films", "name": "films", "field": fields}],
    }
    return json.dumps(document, indent=2) + "\n"


#: The vocabulary of Croissant 1.0; these are names of terms, nothing is fetched.
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
