"""Findings from the MeSH headings that indexers gave the IU X-Ray reports (Demner-Fushman et al., JAMIA 2016).

A heading reads ``Cardiomegaly/mild`` or ``Thickening/pleura/apex``; headings of other things (devices, spine) name no
finding of the table. A film with headings of that kind alone has no finding; one that was not indexed is unlabelled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from updp.domains.chest.labels import FINDINGS


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("updp.sources").joinpath("mesh.json").read_text("utf-8"))
    return table


@cache
def _findings(term: str) -> frozenset[str]:
    return frozenset(name for name, terms in _table()["findings"].items() if term in terms)


def findings(headings: Iterable[str]) -> tuple[str, ...] | None:
    """The findings among MeSH headings, None if the report was not indexed."""
    table, indexed = _table(), False
    out: set[str] = set()
    for heading in headings:
        term, *qualifiers = (part.strip() for part in heading.split("/"))
        if not term or term in table["unknown"]:
            continue
        indexed = True
        out |= _findings(term)
        for name, pairs in table["qualified"].items():
            if any(term == word and any(place.startswith(part) for place in qualifiers) for word, part in pairs):
                out.add(name)
    return tuple(name for name in FINDINGS if name in out) if indexed else None
