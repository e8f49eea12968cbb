"""How well films of one patient are linked, as whole measurements: verification, identification, retrieval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from updp.core.measurement import FEWEST_PATIENTS, MISS, Floats, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.statistics import (
    accuracy,
    auc,
    binary,
    chances,
    eer,
    fixed_order,
    mean,
    mean_average_precision_chance,
    rank_k_chance,
    rankings,
    tpr_at_fpr,
)


def seldom(measurement: Measurement) -> Measurement:
    """A rate of nothing with an upper bound: resampling nothing gives nothing, but a rate of 1 − 0.05^(1/n) would show
    nothing in n patients one time in twenty."""
    if not measurement.measured or measurement.value != 0:
        return measurement
    detail = {**measurement.detail, "interval": "exact one-sided 95 % bound, nothing was found"}
    return replace(measurement, high=max(measurement.high, 1 - MISS ** (1 / measurement.n)), detail=detail)


def fold(measurement: Measurement, metric: str | None = None) -> Measurement:
    """max(AUC, 1 − AUC) of a measured AUC: the interval is folded, not the draws.

    Folded draws are never below 0.5, so their percentiles could not include chance even where there is nothing to
    find. Folding the interval keeps its coverage: it starts at 0.5 exactly where the AUC's includes 0.5.
    """
    m = replace(measurement, metric=metric or f"max(AUC, 1−AUC) of {measurement.metric}", chance=0.5)
    if not m.measured:
        return m
    low = max(0.5, m.low, 1 - m.high)
    return replace(m, value=max(m.value, 1 - m.value), low=low, high=max(m.high, 1 - m.low), better="lower")


def verification(
    labels: ArrayLike,
    scores: ArrayLike,
    left: Sequence[Hashable] | NDArray[Any],
    right: Sequence[Hashable] | NDArray[Any],
    *,
    seed: int,
    attacker: str | None = None,
    fprs: Sequence[float] = (1e-2, 1e-3),
    draws: int = 1000,
    fewest: int = FEWEST_PATIENTS,
    detail: Mapping[str, Any] | None = None,
    protocol: str | None = None,
) -> list[Measurement]:
    """AUC, max(AUC, 1−AUC), EER and TPR at low FPR of same-or-different pairs, over both patients of each pair."""
    truth = binary(labels)
    negatives = int(np.count_nonzero(~truth))
    about = {**(detail or {}), "same": int(truth.sum()), "different": negatives}
    options: dict[str, Any] = {
        "right": right,
        "seed": seed,
        "attacker": attacker,
        "draws": draws,
        "fewest": fewest,
        "detail": about,
        "protocol": protocol,
    }
    if not truth.any() or truth.all():
        which = "the same patient" if not truth.any() else "different patients"
        names = ["verification AUC", "verification max(AUC, 1−AUC)", "verification EER"]
        names += [f"verification TPR at {fpr:.3g} FPR" for fpr in fprs]
        return [
            Measurement.missing(
                name,
                f"no pair of films of {which}",
                chance=None,
                better="lower",
                attacker=attacker,
                seed=seed,
                detail=about,
                protocol=protocol,
            )
            for name in names
        ]
    area = measure("verification AUC", auc, left, truth, scores, chance=0.5, better="closer to chance", **options)
    out = [area, fold(area, "verification max(AUC, 1−AUC)")]
    out.append(measure("verification EER", eer, left, truth, scores, chance=0.5, better="closer to chance", **options))
    for fpr in fprs:
        name = f"verification TPR at {fpr:.3g} FPR"
        if negatives * fpr < 1 - 1e-9:
            need = math.ceil(1 / fpr)
            reason = f"{negatives} pairs of different patients cannot show this rate, at least {need} needed"
            n = len(np.unique(np.concatenate([np.asarray(left), np.asarray(right)])))
            absent: dict[str, Any] = {
                "chance": fpr,
                "better": "lower",
                "attacker": attacker,
                "seed": seed,
                "protocol": protocol,
            }
            out.append(Measurement.missing(name, reason, n=n, detail=about, **absent))
            continue

        def at_low_fpr(y: ArrayLike, s: ArrayLike, weights: ArrayLike | None = None, fpr: float = fpr) -> Any:
            return tpr_at_fpr(y, s, fpr, weights)

        out.append(measure(name, at_low_fpr, left, truth, scores, chance=fpr, better="lower", **options))
    return out


def identification(
    metric: str,
    truth: ArrayLike,
    predicted: ArrayLike,
    patients: Sequence[Hashable] | NDArray[Any],
    *,
    seed: int,
    classes: int | None = None,
    attacker: str | None = None,
    draws: int = 1000,
    fewest: int = FEWEST_PATIENTS,
    detail: Mapping[str, Any] | None = None,
    protocol: str | None = None,
) -> Measurement:
    """Accuracy of a classifier of patients, sex or age bins; chance is the majority rate, the uniform in detail."""
    uniform, majority = chances(truth, classes)
    found = measure(
        metric,
        accuracy,
        patients,
        np.asarray(truth),
        np.asarray(predicted),
        chance=max(uniform, majority),
        better="lower",
        seed=seed,
        attacker=attacker,
        draws=draws,
        fewest=fewest,
        detail={**(detail or {}), "uniform_chance": uniform, "majority_chance": majority},
        protocol=protocol,
    )
    return seldom(found)


def retrieval(
    similarity: ArrayLike,
    probe_patients: Sequence[Hashable] | NDArray[Any],
    gallery_patients: Sequence[Hashable] | NDArray[Any],
    *,
    seed: int,
    ks: Iterable[int] = (1, 5),
    attacker: str | None = None,
    draws: int = 1000,
    fewest: int = FEWEST_PATIENTS,
    protocol: str | None = None,
    of: str = "retrieval",
) -> list[Measurement]:
    """Rank-k and mAP of probes in a gallery, over probe patients; probes without a match are left out and counted.

    Chance is the larger of a random order's and of the best fixed order's; both are in detail.
    """
    probes, gallery = np.asarray(probe_patients), np.asarray(gallery_patients)
    ranking = rankings(similarity, probes, gallery)
    kept = ranking.kept
    about = {"gallery": ranking.gallery, "probes_without_match": int(np.count_nonzero(~kept))}
    options: dict[str, Any] = {
        "seed": seed,
        "attacker": attacker,
        "draws": draws,
        "fewest": fewest,
        "better": "lower",
        "protocol": protocol,
    }

    def found(name: str, values: Floats, fixed: Floats, random: float) -> Measurement:
        constant = float(fixed.mean())
        detail = {**about, "random_order_chance": random, "fixed_order_chance": constant}
        chance = max(random, constant)
        return seldom(measure(name, mean, probes[kept], values, chance=chance, detail=detail, **options))

    def all_measures() -> Iterator[Measurement]:
        fixed = fixed_order(probes[kept], gallery)
        for k in ks:
            random = rank_k_chance(ranking.matches[kept], ranking.gallery, k)
            hits, constant = ((ranks <= k).astype(np.float64) for ranks in (ranking.rank[kept], fixed.rank))
            yield found(f"{of} rank-{k}", hits, constant, random)
        random = mean_average_precision_chance(ranking.matches[kept], ranking.gallery)
        yield found(f"{of} mAP", ranking.average_precision[kept], fixed.average_precision, random)

    if not kept.any():
        reason = "no probe has a film of its patient in the gallery"
        who: dict[str, Any] = {"attacker": attacker, "seed": seed, "protocol": protocol}
        names = [*(f"{of} rank-{k}" for k in ks), f"{of} mAP"]
        return [Measurement.missing(name, reason, better="lower", detail=about, **who) for name in names]
    return list(all_measures())
