"""Intervals that resample *patients*, not films, and measurements made with them.

Films of one patient are alike, and an interval over films would be too narrow by the square root of how many there are
(Davison and Hinkley 1997, §3.8). A pair of films belongs to two patients, so pair statistics resample both (Owen 2007,
"The pigeonhole bootstrap").
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from updp.core.measurement import FEWEST_PATIENTS, Better, Floats, Measurement, TooFewPatients
from updp.evaluation.statistics import Statistic

Method = Literal["percentile", "bca"]
#: Entries of one draws x rows block of weights (8 bytes each): bounds memory, not the result.
_BLOCK = 2_000_000


class Resampling(TypedDict, total=False):
    """How patients are resampled; ``_bootstrap`` has the defaults."""

    rng: Required[np.random.Generator]
    draws: int
    level: float
    method: Method
    fewest: int


class LeavingOut(TypedDict, total=False):
    """How groups of patients are left out; ``jackknife_each`` has the defaults."""

    groups: int
    level: float
    fewest: int


class Interval(NamedTuple):
    value: float
    low: float
    high: float


def _codes(patients: Sequence[Hashable] | NDArray[Any]) -> tuple[NDArray[np.intp], int]:
    array = np.asarray(patients)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError("patients: some are NaN; every row needs its patient")
    if array.dtype == object and any(p is None for p in array):
        raise ValueError("patients: some are None; every row needs its patient")
    names, codes = np.unique(array, return_inverse=True)
    return codes.reshape(-1), len(names)


def bootstrap(
    statistic: Statistic,
    patients: Sequence[Hashable] | NDArray[Any],
    *arrays: ArrayLike,
    **options: Unpack[Resampling],
) -> Interval:
    """A statistic and its interval over resampled patients.

    A statistic with a ``weights`` argument is given how often each row was drawn, a block of draws at once (draws x
    rows), and gives one value per draw. Any other is called on the resampled rows, draw by draw.
    """
    codes, count = _codes(patients)
    return _bootstrap(statistic, (codes,), count, arrays, **options)


def bootstrap_pairs(
    statistic: Statistic,
    left: Sequence[Hashable] | NDArray[Any],
    right: Sequence[Hashable] | NDArray[Any],
    *arrays: ArrayLike,
    **options: Unpack[Resampling],
) -> Interval:
    """``bootstrap`` for rows that are pairs of films of the patients ``left`` and ``right``.

    One easily matched patient is in many pairs, on either side. Resampling pairs, or one side only, would treat
    these as independent. Patients are drawn once for both sides: a pair of two patients drawn a and b times counts
    a*b times, a pair within one patient drawn a times counts a times (each copy brings its own pairs). The interval is
    too wide rather than too narrow, by at most a factor of about 1.4 where pair noise is much larger than the effect of
    the patients.
    """
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        raise ValueError(f"{len(left)} left patients for {len(right)} right ones")
    both, count = _codes(np.concatenate([left, right]))
    sides = (both[: len(left)], both[len(left) :])
    return _bootstrap(statistic, sides, count, arrays, **options)


def _bootstrap(
    statistic: Statistic,
    sides: tuple[NDArray[np.intp], ...],
    count: int,
    arrays: tuple[ArrayLike, ...],
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    level: float = 0.95,
    method: Method = "percentile",
    fewest: int = FEWEST_PATIENTS,
) -> Interval:
    rows = [np.asarray(a) for a in arrays]
    if not rows:
        raise ValueError("nothing to measure: no arrays")
    for array in rows:
        if len(array) != len(sides[0]):
            raise ValueError(f"{len(array)} rows for {len(sides[0])} patients' rows")
    if not 0 < level < 1 or draws < 1:
        raise ValueError("level lies between 0 and 1, and draws is at least 1")
    if count < max(fewest, 2):
        raise TooFewPatients(count, max(fewest, 2))
    value = float(np.asarray(statistic(*rows)).reshape(()))
    multiplicities = rng.multinomial(count, np.full(count, 1 / count), size=draws)
    values = _redraw(statistic, rows, sides, multiplicities)
    defined = values[np.isfinite(values)]
    # A draw without positives has no AUC. A few are harmless; many mean that the sample depends on a few patients.
    if not math.isfinite(value) or len(defined) < 0.9 * draws:
        raise TooFewPatients(count, 2 * count, "too many resamples lack a class")
    alpha = _tails(level, count)
    if method == "bca":
        left_out = 1 - np.eye(count, dtype=np.int64)
        alpha = _bca(alpha, value, defined, _redraw(statistic, rows, sides, left_out))
    low, high = np.quantile(defined, alpha)
    return Interval(value, float(low), float(high))


def _redraw(
    statistic: Statistic, rows: list[NDArray[Any]], sides: tuple[NDArray[np.intp], ...], multiplicities: NDArray[Any]
) -> Floats:
    """The statistic for each draw of patients."""
    out = np.empty(len(multiplicities))
    if _takes_weights(statistic):
        step = max(1, _BLOCK // max(1, len(sides[0])))
        for start in range(0, len(multiplicities), step):
            block = multiplicities[start : start + step]
            out[start : start + step] = statistic(*rows, weights=_row_weights(block, sides))
        return out
    for i, drawn in enumerate(multiplicities):
        index = np.repeat(np.arange(len(sides[0])), _row_weights(drawn[None], sides)[0].astype(np.intp))
        out[i] = statistic(*(array[index] for array in rows)) if len(index) else math.nan
    return out


def _row_weights(multiplicities: NDArray[Any], sides: tuple[NDArray[np.intp], ...]) -> Floats:
    weights = multiplicities[:, sides[0]].astype(np.float64)
    if len(sides) == 2:
        left, right = sides
        weights *= np.where(left == right, 1, multiplicities[:, right])
    return weights


def _takes_weights(statistic: Statistic) -> bool:
    try:
        return "weights" in inspect.signature(statistic).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False


def _tails(level: float, count: int) -> Floats:
    """Tail probabilities widened for few patients: Hesterberg 2015, "expanded percentile interval"."""
    from scipy.special import ndtr, stdtrit

    tail = (1 - level) / 2
    low = float(ndtr(math.sqrt(count / (count - 1)) * stdtrit(count - 1, tail)))
    return np.array([low, 1 - low])


def _bca(alpha: Floats, value: float, values: Floats, left_out: Floats) -> Floats:
    """Bias-corrected and accelerated tail probabilities (Efron 1987)."""
    from scipy.special import ndtr, ndtri

    below = (np.count_nonzero(values < value) + 0.5 * np.count_nonzero(values == value)) / len(values)
    if not 0 < below < 1:
        return alpha
    bias = ndtri(below)
    influence = left_out[np.isfinite(left_out)]
    influence = influence.mean() - influence
    spread = float(np.sum(influence**2)) ** 1.5
    acceleration = float(np.sum(influence**3)) / (6 * spread) if spread > 0 else 0.0
    z = bias + ndtri(alpha)
    corrected: Floats = ndtr(bias + z / (1 - acceleration * z))
    return corrected


def jackknife(
    statistic: Statistic,
    samples: Sequence[tuple[Sequence[Hashable] | NDArray[Any], ArrayLike]],
    rng: np.random.Generator,
    **options: Unpack[LeavingOut],
) -> Interval:
    """A statistic of several samples, each (patients, rows), and its interval by leaving out groups of patients.

    For statistics that repeated rows distort: a copy is its own nearest neighbour, and shrinks a covariance. A
    patient in two samples leaves both at once. The interval is value ± t times the delete-a-group standard error
    (Kott 2001).
    """
    return jackknife_each(statistic, samples, rng=rng, **options)[0]


def jackknife_each(
    statistic: Statistic,
    samples: Sequence[tuple[Sequence[Hashable] | NDArray[Any], ArrayLike]],
    *,
    rng: np.random.Generator,
    groups: int = 20,
    level: float = 0.95,
    fewest: int = FEWEST_PATIENTS,
) -> list[Interval]:
    """``jackknife`` of a statistic with several values, an interval each."""
    from scipy.special import stdtrit

    rows = [np.asarray(values) for _, values in samples]
    owners = [np.asarray(patients) for patients, _ in samples]
    for owner, row in zip(owners, rows, strict=True):
        if len(owner) != len(row):
            raise ValueError(f"{len(row)} rows for {len(owner)} patients' rows")
    codes, count = _codes(np.concatenate(owners))
    if count < max(fewest, 2):
        raise TooFewPatients(count, max(fewest, 2))
    groups = min(groups, count)
    group_of = rng.permutation(count) % groups
    parts = np.split(group_of[codes], np.cumsum([len(o) for o in owners])[:-1])
    value = np.atleast_1d(np.asarray(statistic(*rows), dtype=np.float64))
    left_out = np.stack(
        [
            np.atleast_1d(statistic(*(r[p != g] for r, p in zip(rows, parts, strict=True)))).astype(np.float64)
            for g in range(groups)
        ]
    )
    if not np.isfinite(left_out).all() or not np.isfinite(value).all():
        raise TooFewPatients(count, 2 * count, "the statistic is undefined without some of them")
    error = np.sqrt((groups - 1) / groups * np.sum((left_out - left_out.mean(axis=0)) ** 2, axis=0))
    margin = float(stdtrit(groups - 1, (1 + level) / 2)) * error
    return [Interval(float(v), float(v - m), float(v + m)) for v, m in zip(value, margin, strict=True)]


def crossed(
    values: ArrayLike,
    weights: ArrayLike,
    *sides: Sequence[Hashable] | NDArray[Any],
    level: float = 0.95,
    fewest: int = FEWEST_PATIENTS,
) -> Interval:
    """The weighted mean of rows that belong to several patients at once, one on each side, and its interval.

    A film that is a near match for everybody raises the rows of its own patient and lowers those in which it is the
    impostor. What a patient does to the mean is therefore the sum over all rows in which they take part, on whatever
    side; the variance is the sum of its squares (Aronow, Samii and Assenova 2015, "Cluster-robust variance estimation
    for dyadic data", without the term for rows that two patients share, so that the interval is rather too wide).
    Resampling one side alone takes these parts for independent, and is too wide where they cancel and too narrow where
    they add.
    """
    from scipy.special import stdtrit

    x, w = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    codes, count = _codes(np.concatenate([np.asarray(side) for side in sides]))
    if count < max(fewest, 2):
        raise TooFewPatients(count, max(fewest, 2))
    total = float(w.sum())
    value = float((w * x).sum() / total)
    residuals = w * (x - value)
    parts = np.zeros(count)
    for side in np.split(codes, len(sides)):
        parts += np.bincount(side, residuals, count)
    error = math.sqrt(count / (count - 1) * float(np.sum(parts**2))) / total
    margin = float(stdtrit(count - 1, (1 + level) / 2)) * error
    return Interval(value, value - margin, value + margin)


def measure(
    metric: str,
    statistic: Statistic,
    patients: Sequence[Hashable] | NDArray[Any],
    *arrays: ArrayLike,
    better: Better,
    seed: int,
    right: Sequence[Hashable] | NDArray[Any] | None = None,
    chance: float | None = None,
    attacker: str | None = None,
    detail: Mapping[str, Any] | None = None,
    unit: str = "patients",
    draws: int = 1000,
    level: float = 0.95,
    method: Method = "percentile",
    fewest: int = FEWEST_PATIENTS,
    protocol: str | None = None,
    regime: str | None = None,
) -> Measurement:
    """A statistic bootstrapped over patients (or over both patients of each pair, with ``right``) as a measurement.

    Too few patients is an outcome, not an error: the measurement then says so and how many are needed.
    """
    patients = np.asarray(patients)
    everyone = patients if right is None else np.concatenate([patients, np.asarray(right)])
    n = _codes(everyone)[1]
    about = {"rows": len(patients), "unit": unit, "level": level, **(detail or {})}
    who: dict[str, Any] = {"attacker": attacker, "seed": seed, "protocol": protocol, "regime": regime}
    options: Resampling = {
        "rng": np.random.default_rng(seed),
        "draws": draws,
        "level": level,
        "method": method,
        "fewest": fewest,
    }
    try:
        if right is None:
            found = bootstrap(statistic, patients, *arrays, **options)
        else:
            found = bootstrap_pairs(statistic, patients, right, *arrays, **options)
    except TooFewPatients as few:
        few = TooFewPatients(few.have, few.need, few.why, unit)
        about["patients_needed"] = few.need
        return Measurement.missing(metric, str(few), n=n, chance=chance, better=better, detail=about, **who)
    return Measurement(metric, *found, n, chance, better, detail=about, **who)
