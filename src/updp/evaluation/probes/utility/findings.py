"""Whether two reports state and deny the same findings: ``findings_f1``.

A lexical measure that needs no weights: what :mod:`updp.reports.findings` reads in each report. It is neither
CheXbert's F1 nor RadGraph's, and bears its own name. Its point is what n-gram measures and BERTScore miss:
"Pleural effusion" is not "No pleural effusion".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from updp.core.measurement import Floats, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.probes.utility.text_metrics import Patients, checked
from updp.evaluation.statistics import averaged, ratio
from updp.reports.findings import findings


def _f1(counts: ArrayLike, weights: ArrayLike | None = None) -> Any:
    counts = np.asarray(counts, dtype=np.float64)
    return ratio(2 * counts[:, 0], counts[:, 1] + counts[:, 2], weights)


def findings_counts(references: Sequence[str], hypotheses: Sequence[str]) -> Floats:
    """Per report: findings said alike (same name, same polarity), said by the hypothesis, said by the reference."""
    rows = []
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        theirs, ours = findings(reference), findings(hypothesis)
        rows.append((len(theirs & ours), len(ours), len(theirs)))
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def findings_f1(
    references: Sequence[str],
    hypotheses: Sequence[str],
    patients: Patients,
    *,
    seed: int,
    repeats: int = 1,
    **options: Any,
) -> Measurement:
    """Micro-averaged F1 of (finding, present or denied) over reports; the mean of ``repeats`` captioners' F1."""
    checked(references, hypotheses, patients)
    counts = findings_counts(references, hypotheses)
    alike, ours, theirs = counts.sum(axis=0)
    n = len(set(patients))
    if not ours + theirs:
        why = "no report mentions a finding"
        return Measurement.missing("findings F1", why, n=n, seed=seed, regime=options.get("regime"))
    detail = {
        "precision": alike / ours if ours else 0.0,
        "recall": alike / theirs if theirs else 0.0,
        "findings_in_references": int(theirs),
        "findings_in_hypotheses": int(ours),
    }
    statistic = averaged(_f1, repeats)
    return measure("findings F1", statistic, patients, counts, better="higher", seed=seed, detail=detail, **options)
