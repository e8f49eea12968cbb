"""A measurement is data: a value with its interval, its sample and its chance level, and the statistics behind it.

Every attack and every utility measure ends here. Intervals resample *patients*, not films: films of one patient are
alike, and an interval over films would be too narrow by the square root of how many there are (Davison and Hinkley
1997, §3.8). A pair of films belongs to two patients, so pair statistics resample both (Owen 2007, "The pigeonhole
bootstrap"). Where a sample is too small to be sure, that is the outcome, and it says how many patients would do.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Better = Literal["higher", "lower", "closer to chance"]
Method = Literal["percentile", "bca"]
Statistic = Callable[..., Any]
Floats = NDArray[np.float64]

#: Below this many patients a bootstrap interval is not to be believed, whatever it says.
FEWEST_PATIENTS = 10
#: A value nearer to its bound than this share of its half interval (a fifth of a standard error) may as well lie on the
#: other side: how many patients would settle it is not known.
NEAREST = 0.1
#: How often an exact one-sided 95 % bound is below the true rate.
_MISS = 0.05
#: Entries of one draws x rows block of weights (8 bytes each): bounds memory, not the result.
_BLOCK = 2_000_000


class TooFewPatients(ValueError):
    """Not enough independent patients for an interval; says how many there are and how many it takes."""

    def __init__(self, have: int, need: int, why: str = "", unit: str = "patients") -> None:
        self.have, self.need, self.why = have, need, why
        super().__init__(f"too few {unit}: {have}, at least {need} needed" + (f" ({why})" if why else ""))


class Interval(NamedTuple):
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure and what it stands on. ``n`` counts independent units (patients unless ``detail["unit"]`` differs)."""

    name: str
    value: float
    low: float
    high: float
    n: int
    chance: float | None
    better: Better
    attacker: str | None = None
    seed: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a measurement needs a name")
        if self.better not in get_args(Better):
            raise ValueError(f"better is one of {', '.join(get_args(Better))}, not {self.better!r}")
        if self.better == "closer to chance" and self.chance is None:
            raise ValueError(f"{self.name}: 'closer to chance' needs a chance level")
        if self.n < 0:
            raise ValueError(f"{self.name}: n is {self.n}")
        object.__setattr__(self, "detail", MappingProxyType(dict(self.detail)))
        if self.reason is not None:
            return
        if not all(map(math.isfinite, (self.value, self.low, self.high))):
            raise ValueError(f"{self.name}: value and interval must be finite; use Measurement.missing otherwise")
        if self.low > self.high:
            raise ValueError(f"{self.name}: the interval [{self.low}, {self.high}] is upside down")

    @classmethod
    def missing(
        cls,
        name: str,
        reason: str,
        *,
        n: int = 0,
        chance: float | None = None,
        better: Better = "higher",
        attacker: str | None = None,
        seed: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> Measurement:
        """What could not be measured, and why; the gate counts it as not measured."""
        nan = math.nan
        detail = {**(detail or {}), "not_measured": reason}
        return cls(name, nan, nan, nan, n, chance, better, attacker, seed, detail)

    @property
    def reason(self) -> str | None:
        """Why there is no figure; None where there is one."""
        reason: str | None = self.detail.get("not_measured")
        return reason

    @property
    def measured(self) -> bool:
        return self.reason is None

    @property
    def unit(self) -> str:
        return str(self.detail.get("unit", "patients"))

    def covers(self, value: float) -> bool:
        """Whether the interval includes the value (never, where nothing was measured)."""
        return self.measured and self.low <= value <= self.high

    def __str__(self) -> str:
        who = f" ({self.attacker})" if self.attacker else ""
        if self.reason is not None:
            return f"{self.name}{who}: not measured, {self.reason}"
        chance = "no chance level" if self.chance is None else f"chance {_figure(self.chance)}"
        interval = f"[{_figure(self.low)}, {_figure(self.high)}]"
        return f"{self.name}{who}: {_figure(self.value)} {interval}, n = {self.n} {self.unit}, {chance}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; what was not measured is null, since JSON has no NaN."""
        return {
            "name": self.name,
            "value": _plain(self.value),
            "low": _plain(self.low),
            "high": _plain(self.high),
            "n": self.n,
            "chance": _plain(self.chance),
            "better": self.better,
            "attacker": self.attacker,
            "seed": self.seed,
            "detail": _plain(self.detail),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        """The inverse of ``to_json``; refuses anything that is not a whole measurement."""
        fields = ("name", "value", "low", "high", "n", "chance", "better", "attacker", "seed", "detail")
        if absent := [f for f in fields if f not in data]:
            raise ValueError(f"not a measurement: {', '.join(absent)} missing")
        if extra := sorted(set(data) - set(fields)):
            raise ValueError(f"not a measurement: unknown {', '.join(extra)}")
        if not isinstance(data["detail"], Mapping) or not isinstance(data["n"], int):
            raise ValueError("not a measurement: n must be a whole number and detail a table")
        value, low, high = (math.nan if data[f] is None else float(data[f]) for f in ("value", "low", "high"))
        chance = None if data["chance"] is None else float(data["chance"])
        return cls(
            data["name"],
            value,
            low,
            high,
            data["n"],
            chance,
            data["better"],
            data["attacker"],
            data["seed"],
            data["detail"],
        )


def _figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# Input ---------------------------------------------------------------------------------------------------------------


def finite(values: ArrayLike, what: str) -> Floats:
    """The values as floats; NaN and infinity are refused, since they would sort somewhere and count as a score."""
    array = np.asarray(values, dtype=np.float64)
    if bad := int(np.count_nonzero(~np.isfinite(array))):
        raise ValueError(f"{what}: {bad} of {array.size} values are NaN or infinite")
    return array


def binary(labels: ArrayLike, what: str = "labels") -> NDArray[np.bool_]:
    """Labels that are 0 or 1, as truth values."""
    array = np.asarray(labels)
    if array.dtype != np.bool_:
        array = finite(array, what)
        if not np.isin(array, (0, 1)).all():
            raise ValueError(f"{what}: only 0 and 1 are labels")
    return array.astype(np.bool_)


def _codes(patients: Sequence[Hashable] | NDArray[Any]) -> tuple[NDArray[np.intp], int]:
    array = np.asarray(patients)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError("patients: some are NaN; every row needs its patient")
    if array.dtype == object and any(p is None for p in array):
        raise ValueError("patients: some are None; every row needs its patient")
    names, codes = np.unique(array, return_inverse=True)
    return codes.reshape(-1), len(names)


# Intervals -----------------------------------------------------------------------------------------------------------


def bootstrap(
    statistic: Statistic,
    patients: Sequence[Hashable] | NDArray[Any],
    *arrays: ArrayLike,
    draws: int = 1000,
    rng: np.random.Generator,
    level: float = 0.95,
    method: Method = "percentile",
    fewest: int = FEWEST_PATIENTS,
) -> Interval:
    """A statistic and its interval over resampled patients.

    A statistic with a ``weights`` argument is given how often each row was drawn, a block of draws at once
    (draws x rows), and gives one value a draw. Any other is called on the resampled rows, draw by draw.
    """
    codes, count = _codes(patients)
    return _bootstrap(statistic, (codes,), count, arrays, draws, rng, level, method, fewest)


def bootstrap_pairs(
    statistic: Statistic,
    left: Sequence[Hashable] | NDArray[Any],
    right: Sequence[Hashable] | NDArray[Any],
    *arrays: ArrayLike,
    draws: int = 1000,
    rng: np.random.Generator,
    level: float = 0.95,
    method: Method = "percentile",
    fewest: int = FEWEST_PATIENTS,
) -> Interval:
    """``bootstrap`` for rows that are pairs of films of the patients ``left`` and ``right``.

    One easily matched patient is in many pairs, on either side. Resampling pairs, or one side only, would treat
    these as independent. Patients are drawn once for both sides: a pair of two patients drawn a and b times counts
    a*b times, a pair within one patient drawn a times counts a times (each copy brings its own pairs). This errs on
    the wide side, by at most a factor of about 1.4 where pair noise dwarfs the patients' own effect.
    """
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        raise ValueError(f"{len(left)} left patients for {len(right)} right ones")
    both, count = _codes(np.concatenate([left, right]))
    sides = (both[: len(left)], both[len(left) :])
    return _bootstrap(statistic, sides, count, arrays, draws, rng, level, method, fewest)


def _bootstrap(
    statistic: Statistic,
    sides: tuple[NDArray[np.intp], ...],
    count: int,
    arrays: tuple[ArrayLike, ...],
    draws: int,
    rng: np.random.Generator,
    level: float,
    method: Method,
    fewest: int,
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
    # A draw without positives has no AUC. A few are harmless; many mean that the sample hangs on a few patients.
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
    *,
    rng: np.random.Generator,
    groups: int = 20,
    level: float = 0.95,
    fewest: int = FEWEST_PATIENTS,
) -> Interval:
    """A statistic of several samples, each (patients, rows), and its interval by leaving out groups of patients.

    For statistics that repeated rows distort: a copy is its own nearest neighbour, and shrinks a covariance. A
    patient in two samples leaves both at once. The interval is value ± t times the delete-a-group standard error
    (Kott 2001).
    """
    return jackknife_each(statistic, samples, rng=rng, groups=groups, level=level, fewest=fewest)[0]


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


def measure(
    name: str,
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
) -> Measurement:
    """A statistic bootstrapped over patients (or over both patients of each pair, with ``right``) as a measurement.

    Too few patients is an outcome, not an error: the measurement then says so and how many are needed.
    """
    patients = np.asarray(patients)
    everyone = patients if right is None else np.concatenate([patients, np.asarray(right)])
    n = _codes(everyone)[1]
    about = {"rows": len(patients), "unit": unit, "level": level, **(detail or {})}
    options: dict[str, Any] = {
        "draws": draws,
        "rng": np.random.default_rng(seed),
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
        return Measurement.missing(
            name, str(few), n=n, chance=chance, better=better, attacker=attacker, seed=seed, detail=about
        )
    return Measurement(name, *found, n, chance, better, attacker, seed, about)


def patients_needed(
    measurement: Measurement,
    *,
    width: float | None = None,
    below: float | None = None,
    above: float | None = None,
) -> int | None:
    """How many patients would make the interval narrow enough, if the value stayed what it is.

    Enough for a total ``width``, or for the upper bound to fall to ``below``, or for the lower bound to rise to
    ``above``. None where no number would do: the value itself is on the wrong side, or too near to tell (``NEAREST``).
    Intervals narrow with the square root of the number of patients; the exact bound of a rate of zero (``seldom``)
    falls with the number itself. Without a figure yet, the worst case of a rate between 0 and 1 is assumed.
    """
    if [width, below, above].count(None) != 2:
        raise ValueError("give exactly one of width, below and above")
    m = measurement
    if not m.measured:
        if width is None:
            return None
        return max(m.n, FEWEST_PATIENTS, math.ceil((1.96 / width) ** 2))
    if width is not None:
        now, allowed = m.high - m.low, width
    elif below is not None:
        now, allowed = m.high - m.value, below - m.value
    else:
        assert above is not None
        now, allowed = m.value - m.low, m.value - above
    if now <= 0 and allowed >= 0:
        return m.n
    if allowed <= 0:
        return None
    if below is not None and m.low == m.value == 0:
        # Resampling nothing gives nothing, so an upper bound above zero is the exact one: 1 − 0.05^(1/n).
        return m.n if now <= allowed or below >= 1 else math.ceil(math.log(_MISS) / math.log1p(-below))
    if width is None and allowed < NEAREST * now:
        return None
    return max(m.n, math.ceil(m.n * (now / allowed) ** 2)) if now > allowed else m.n


# Statistics ----------------------------------------------------------------------------------------------------------
# Each takes ``weights``: nothing (every row once), one weight a row, or a draws x rows block. The sort is done once
# for all draws; a draw is then a weighted cumulative sum, which is what makes a thousand draws cheap.


def mean(values: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """The mean over rows."""
    values = finite(values, "values")
    if not len(values):
        raise ValueError("the mean of nothing")
    if weights is None:
        return float(values.mean())
    weights = np.asarray(weights, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return weights @ values / weights.sum(axis=-1)


def ratio(numerators: ArrayLike, denominators: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Sum over sum, as in a micro-averaged rate; NaN where the denominators sum to zero."""
    top, bottom = finite(numerators, "numerators"), finite(denominators, "denominators")
    w = np.ones(len(top)) if weights is None else np.asarray(weights, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _same_kind((w @ top) / np.asarray(w @ bottom), weights)


def averaged(statistic: Statistic, parts: int) -> Statistic:
    """The mean of a statistic over so many equal parts of the rows: an experiment done several times on one set of
    patients, where the statistic of all rows together (a corpus BLEU, say) would lie beside those of its parts."""

    def over(*arrays: ArrayLike, weights: ArrayLike | None = None) -> Any:
        pieces = zip(*(np.split(np.asarray(array), parts) for array in arrays), strict=True)
        shares = [None] * parts if weights is None else np.split(np.asarray(weights), parts, axis=-1)
        each = [statistic(*piece, weights=share) for piece, share in zip(pieces, shares, strict=True)]
        return np.mean(each, axis=0) if weights is not None else float(np.mean(each))

    return statistic if parts == 1 else over


class _Roc(NamedTuple):
    """Weights of positives and negatives at each distinct score, highest first; draws x scores."""

    positives: Floats
    negatives: Floats


def _roc(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None) -> _Roc:
    truth, score = binary(labels), finite(scores, "scores")
    if truth.shape != score.shape or truth.ndim != 1:
        raise ValueError(f"{truth.shape} labels for {score.shape} scores; one label and one score a row")
    if truth.all() or not truth.any():
        raise ValueError("both classes are needed: every label is the same")
    order = np.argsort(-score, kind="stable")
    score, truth = score[order], truth[order]
    starts = np.flatnonzero(np.r_[True, score[1:] != score[:-1]])
    w = np.ones((1, len(score))) if weights is None else np.atleast_2d(np.asarray(weights, dtype=np.float64))[:, order]
    if len(starts) == len(score):  # no ties, nothing to sum
        return _Roc(w * truth, w * ~truth)
    return _Roc(np.add.reduceat(w * truth, starts, axis=1), np.add.reduceat(w * ~truth, starts, axis=1))


def _same_kind(values: Any, weights: ArrayLike | None) -> Any:
    """A number for one draw, an array for a block of them."""
    many = weights is not None and np.ndim(weights) == 2
    return np.asarray(values).reshape(-1) if many else float(np.asarray(values).reshape(-1)[0])


def auc(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Area under the ROC curve: the chance that a positive scores above a negative, ties counting half."""
    roc = _roc(labels, scores, weights)
    below = roc.negatives.sum(axis=1, keepdims=True) - np.cumsum(roc.negatives, axis=1) + roc.negatives / 2
    total = roc.positives.sum(axis=1) * roc.negatives.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _same_kind(np.einsum("ij,ij->i", roc.positives, below) / total, weights)


def folded_auc(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """max(AUC, 1 − AUC): an attacker who is reliably wrong negates the score. For its interval see ``fold``."""
    area = np.asarray(auc(labels, scores, weights))
    return _same_kind(np.maximum(area, 1 - area), weights)


def eer(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Equal error rate: where false acceptances and false rejections meet, linear between thresholds."""
    false_accepts, hits = _rates(_roc(labels, scores, weights))
    gap = false_accepts - (1 - hits)  # rises from -1 to 1 as the threshold falls
    after = np.argmax(gap >= 0, axis=1)
    i = np.arange(len(gap))
    g0, g1 = gap[i, after - 1], gap[i, after]
    f0, f1 = false_accepts[i, after - 1], false_accepts[i, after]
    return _same_kind(f0 + (f1 - f0) * (-g0 / np.where(g1 > g0, g1 - g0, 1)), weights)


def tpr_at_fpr(labels: ArrayLike, scores: ArrayLike, fpr: float = 1e-2, weights: ArrayLike | None = None) -> Any:
    """The largest true-positive rate of a threshold whose false-positive rate is at most ``fpr``; no interpolation."""
    if not 0 < fpr < 1:
        raise ValueError("fpr lies between 0 and 1")
    false_accepts, hits = _rates(_roc(labels, scores, weights))
    allowed = false_accepts <= fpr * (1 + 1e-9)
    out = np.where(allowed, hits, 0.0).max(axis=1)
    return _same_kind(np.where(np.isfinite(hits[:, -1]) & np.isfinite(false_accepts[:, -1]), out, np.nan), weights)


def _rates(roc: _Roc) -> tuple[Floats, Floats]:
    """False- and true-positive rates at every threshold, from "accept none" to "accept all"."""
    none = np.zeros((len(roc.positives), 1))
    negatives = np.hstack([none, np.cumsum(roc.negatives, axis=1)])
    positives = np.hstack([none, np.cumsum(roc.positives, axis=1)])
    with np.errstate(invalid="ignore", divide="ignore"):
        return negatives / negatives[:, -1:], positives / positives[:, -1:]


def accuracy(truth: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """The share of rows predicted right."""
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    if truth.shape != predicted.shape:
        raise ValueError(f"{truth.shape} classes for {predicted.shape} predictions")
    for what, array in (("truth", truth), ("predicted", predicted)):
        if array.dtype.kind == "f":
            finite(array, what)
    return mean((truth == predicted).astype(np.float64), weights)


def chances(truth: ArrayLike, classes: int | None = None) -> tuple[float, float]:
    """(uniform, majority): accuracy of guessing at random among the classes, and of always naming the largest."""
    names, counts = np.unique(np.asarray(truth), return_counts=True)
    if not len(names):
        raise ValueError("no rows, no chance level")
    return 1 / (classes or len(names)), float(counts.max() / counts.sum())


class Ranking(NamedTuple):
    """A probe's place in retrieval: rank of its first true match (from 1), average precision, and true matches."""

    rank: NDArray[np.intp]
    average_precision: Floats
    matches: NDArray[np.intp]
    kept: NDArray[np.bool_]  # probes that have a true match in the gallery at all
    gallery: int


def rankings(
    similarity: ArrayLike,
    probe_patients: Sequence[Hashable] | NDArray[Any],
    gallery_patients: Sequence[Hashable] | NDArray[Any],
) -> Ranking:
    """Where each probe's own patient stands among the gallery, by similarity (probes x gallery).

    Ties are broken at random, in expectation, so that a constant score ranks in the middle and never first.
    """
    scores = finite(similarity, "similarity")
    probes, gallery = np.asarray(probe_patients), np.asarray(gallery_patients)
    if scores.shape != (len(probes), len(gallery)):
        raise ValueError(f"similarity is {scores.shape}, not {len(probes)} probes x {len(gallery)} gallery films")
    rank = np.zeros(len(probes), dtype=np.intp)
    precision = np.zeros(len(probes))
    matches = np.zeros(len(probes), dtype=np.intp)
    for i, row in enumerate(scores):
        own = gallery == probes[i]
        matches[i] = own.sum()
        if not matches[i]:
            continue
        places = _places(row, row[own])
        rank[i] = math.ceil(places[0] - 1e-9)
        precision[i] = np.mean(np.arange(1, len(places) + 1) / places)
    return Ranking(rank, precision, matches, matches > 0, len(gallery))


def _places(row: Floats, own: Floats) -> Floats:
    """Expected places (from 1) of the scores ``own`` within ``row``, of which they are part; best first."""
    ordered = np.sort(row)
    values, together = np.unique(own, return_counts=True)
    places = []
    for value, matches in zip(values[::-1], together[::-1], strict=True):
        first, after = np.searchsorted(ordered, value, side="left"), np.searchsorted(ordered, value, side="right")
        # The j-th of m matches among t equal scores in random order is at (t + 1) j / (m + 1) on average.
        step = (after - first + 1) / (matches + 1)
        places.append(len(row) - after + step * np.arange(1, matches + 1))
    return np.concatenate(places)


def rank_k(ranks: ArrayLike, k: int = 1, weights: ArrayLike | None = None) -> Any:
    """The share of probes whose own patient is among the first k."""
    ranks = finite(ranks, "ranks")
    if (ranks < 1).any():
        raise ValueError("ranks count from 1; leave out probes without a match in the gallery")
    return mean((ranks <= k).astype(np.float64), weights)


def mean_average_precision(average_precisions: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """The mean over probes of their average precision (``rankings``)."""
    return mean(average_precisions, weights)


def rank_k_chance(matches: ArrayLike, gallery: int, k: int = 1) -> float:
    """The rank-k rate of a random order."""
    m = np.asarray(matches)
    miss = np.ones(len(m))
    for i in range(min(k, gallery)):
        miss *= np.clip(gallery - m - i, 0, None) / (gallery - i)
    return float(np.mean(1 - miss))


def mean_average_precision_chance(matches: ArrayLike, gallery: int) -> float:
    """The expected mean average precision of a random order."""
    if gallery < 2:
        return 1.0
    m = np.asarray(matches)
    harmonic = float(np.sum(1 / np.arange(1, gallery + 1)))
    return float(np.mean((harmonic + (m - 1) / (gallery - 1) * (gallery - harmonic)) / gallery))


def fixed_order(probe_patients: NDArray[Any], gallery_patients: NDArray[Any]) -> Ranking:
    """The best ranking that looks at no probe: the same order for all, patients with most probes first.

    To retrieval what the majority rate is to a classifier: features that say nothing often have a favourite, and with
    it this rate, not that of a random order.
    """
    names, counts = np.unique(probe_patients, return_counts=True)
    often = dict(zip(names.tolist(), counts.tolist(), strict=True))
    seen: dict[Any, int] = {}
    places = []
    for i, patient in enumerate(gallery_patients.tolist()):
        seen[patient] = seen.get(patient, 0) + 1
        places.append((seen[patient], -often.get(patient, 0), i))  # a patient's second film after everybody's first
    order = sorted(range(len(places)), key=places.__getitem__)
    score = np.empty(len(places))
    score[order] = -np.arange(len(places))
    return rankings(np.broadcast_to(score, (len(probe_patients), len(score))), probe_patients, gallery_patients)


# Whole measurements --------------------------------------------------------------------------------------------------


def seldom(measurement: Measurement) -> Measurement:
    """A rate of nothing with an upper bound: resampling nothing gives nothing, but a rate of 1 − 0.05^(1/n) would show
    nothing in n patients one time in twenty."""
    if not measurement.measured or measurement.value != 0:
        return measurement
    detail = {**measurement.detail, "interval": "exact one-sided 95 % bound, nothing was found"}
    return replace(measurement, high=max(measurement.high, 1 - _MISS ** (1 / measurement.n)), detail=detail)


def fold(measurement: Measurement, name: str | None = None) -> Measurement:
    """max(AUC, 1 − AUC) of a measured AUC: the interval is folded, not the draws.

    Folded draws are never below 0.5, so their percentiles could not include chance even where there is nothing to
    find. Folding the interval keeps its coverage: it starts at 0.5 exactly where the AUC's includes 0.5.
    """
    name = name or f"max(AUC, 1−AUC) of {measurement.name}"
    m = replace(measurement, name=name, chance=0.5)
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
            out.append(
                Measurement.missing(
                    name, reason, n=n, chance=fpr, better="lower", attacker=attacker, seed=seed, detail=about
                )
            )
            continue

        def at_low_fpr(y: ArrayLike, s: ArrayLike, weights: ArrayLike | None = None, fpr: float = fpr) -> Any:
            return tpr_at_fpr(y, s, fpr, weights)

        out.append(measure(name, at_low_fpr, left, truth, scores, chance=fpr, better="lower", **options))
    return out


def identification(
    name: str,
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
) -> Measurement:
    """Accuracy of a classifier of patients, sex or age bins; chance is the majority rate, the uniform in detail."""
    uniform, majority = chances(truth, classes)
    found = measure(
        name,
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
            yield found(f"retrieval rank-{k}", hits, constant, random)
        random = mean_average_precision_chance(ranking.matches[kept], ranking.gallery)
        yield found("retrieval mAP", ranking.average_precision[kept], fixed.average_precision, random)

    if not kept.any():
        reason = "no probe has a film of its patient in the gallery"
        names = [f"retrieval rank-{k}" for k in ks] + ["retrieval mAP"]
        return [
            Measurement.missing(n, reason, better="lower", attacker=attacker, seed=seed, detail=about) for n in names
        ]
    return list(all_measures())
