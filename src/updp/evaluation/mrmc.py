"""Several readers, several cases, two kinds of film: the difference of reading AUCs and its interval.

Obuchowski and Rockette (1995), "Hypothesis testing of diagnostic accuracy for multiple readers and multiple tests",
with jackknife covariances and the degrees of freedom of Hillis (2007), "A comparison of denominator degrees of freedom
methods for multiple observer ROC analysis". Readers and cases are both random: the interval holds for other readers
and other patients, not for these alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from updp.core.measurement import Floats, TooFewPatients
from updp.evaluation.intervals import Interval
from updp.evaluation.statistics import auc, binary, finite


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second kind of film against the first, and what the figure stands on."""

    areas: Floats  # kinds x readers
    difference: Interval  # second minus first, averaged over readers
    variance: float  # of one reader's area
    same_reader: float  # covariances: the same reader on both kinds,
    same_kind: float  # two readers on one kind,
    neither: float  # two readers on two kinds
    mean_square: float  # of kinds, and of kinds by readers
    interaction: float
    f: float
    degrees: float
    p: float


def jackknife_areas(truth: ArrayLike, ratings: ArrayLike) -> tuple[Floats, Floats]:
    """Areas (kinds x readers), and the jackknife covariance matrix of them all, kinds outermost."""
    present = binary(truth, "truth")
    scores = finite(ratings, "ratings")
    if scores.ndim != 3 or scores.shape[2] != len(present):
        raise ValueError(f"ratings are kinds x readers x cases, not {scores.shape} for {len(present)} cases")
    if min(present.sum(), (~present).sum()) < 2:
        raise TooFewPatients(len(present), len(present) + 2, "two cases with and two without the finding at least")
    kinds, readers, cases = scores.shape
    flat = scores.reshape(kinds * readers, cases)
    areas = np.array([auc(present, row) for row in flat])
    left_out = 1 - np.eye(cases)
    without = np.stack([auc(present, row, left_out) for row in flat])
    centred = without - without.mean(axis=1, keepdims=True)
    covariance: Floats = (cases - 1) / cases * centred @ centred.T
    return areas.reshape(kinds, readers), covariance


def compare(truth: ArrayLike, ratings: ArrayLike, level: float = 0.95) -> Comparison:
    """Two kinds of film read by the same readers: ratings are 2 x readers x cases, higher where a finding is surer."""
    areas, covariance = jackknife_areas(truth, ratings)
    kinds, readers = areas.shape
    if kinds != 2 or readers < 2:
        raise ValueError("two kinds of film and at least two readers are compared")
    kind, reader = np.divmod(np.arange(kinds * readers), readers)
    same_kind, same_reader = kind[:, None] == kind[None], reader[:, None] == reader[None]
    return analyse_areas(
        areas,
        float(covariance[same_kind & same_reader].mean()),
        float(covariance[~same_kind & same_reader].mean()),
        float(covariance[same_kind & ~same_reader].mean()),
        float(covariance[~same_kind & ~same_reader].mean()),
        level,
    )


def analyse_areas(
    areas: Floats, variance: float, same_reader: float, same_kind: float, neither: float, level: float = 0.95
) -> Comparison:
    """The test and interval from areas (2 x readers) and averaged covariances."""
    from scipy.special import stdtrit
    from scipy.stats import f as f_distribution

    kinds, readers = areas.shape
    by_kind, by_reader, mean = areas.mean(axis=1), areas.mean(axis=0), areas.mean()
    mean_square = readers * float(((by_kind - mean) ** 2).sum()) / (kinds - 1)
    rest = areas - by_kind[:, None] - by_reader[None] + mean
    interaction = float((rest**2).sum()) / ((kinds - 1) * (readers - 1))
    denominator = interaction + readers * max(same_kind - neither, 0.0)
    difference = float(by_kind[1] - by_kind[0])
    if denominator <= 0:  # every reader's areas differ alike and no case matters: all of them right, say
        return Comparison(
            areas, Interval(difference, difference, difference), variance, same_reader, same_kind, neither,
            mean_square, interaction, math.nan, math.inf, math.nan,
        )  # fmt: skip
    degrees = denominator**2 * (kinds - 1) * (readers - 1) / interaction**2 if interaction > 0 else 1e6
    degrees = min(degrees, 1e6)
    margin = float(stdtrit(degrees, (1 + level) / 2)) * math.sqrt(2 * denominator / readers)
    f = mean_square / denominator
    return Comparison(
        areas,
        Interval(difference, difference - margin, difference + margin),
        variance,
        same_reader,
        same_kind,
        neither,
        mean_square,
        interaction,
        f,
        degrees,
        float(f_distribution.sf(f, kinds - 1, degrees)),
    )
