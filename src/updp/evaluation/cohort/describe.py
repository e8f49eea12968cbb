"""A cohort in shares of views, findings and decades of age: what a certificate says of its patients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit

_OLDEST = 90
_KINDS = ("views", "findings", "ages")


def describe(exhibit: Exhibit) -> dict[str, Any]:
    """How many films and patients there are, and what share of films has each view, finding and age."""
    known = exhibit.ages[~np.isnan(exhibit.ages)]
    found = np.nansum(exhibit.labels == 1, axis=0)
    return {
        "films": len(exhibit),
        "patients": len(set(exhibit.patients.tolist())),
        "views": _shares(Counter(view or "not known" for view in exhibit.views.tolist()), len(exhibit)),
        "findings": _shares(dict(zip(exhibit.classes, found.tolist(), strict=True)), len(exhibit)),
        "ages": _shares(Counter(f"{min(int(age) // 10 * 10, _OLDEST)}s" for age in known), len(known)),
    }


def _shares(counts: Mapping[str, int], total: int) -> dict[str, float]:
    return {name: round(count / max(1, total), 4) for name, count in sorted(counts.items()) if count}


def merge(cohorts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several cohorts as one, weighted by their films."""
    films = sum(c["films"] for c in cohorts)
    out: dict[str, Any] = {"films": films, "patients": sum(c["patients"] for c in cohorts), "sources": len(cohorts)}
    for kind in _KINDS:
        names = sorted({name for c in cohorts for name in c[kind]})
        out[kind] = {
            name: round(sum(c["films"] * c[kind].get(name, 0.0) for c in cohorts) / max(1, films), 4) for name in names
        }
    return out
