"""A measurement is data: a value with its interval, its sample and its chance level.

Every attack and every utility measure ends here, and the gate judges nothing else. Where a sample is too small to be
sure, that is the outcome, and it says how many patients would do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from updp.core.questions import Exemption, Kind

Better = Literal["higher", "lower", "closer to chance"]
Floats = NDArray[np.float64]
#: Below this many patients a bootstrap interval is not to be believed, whatever it says.
FEWEST_PATIENTS = 10
#: A value nearer to its bound than this share of its half interval (a fifth of a standard error) may as well lie on the
#: other side: how many patients would settle it is not known.
NEAREST = 0.1
#: How often an exact one-sided 95 % bound is below the true rate.
MISS = 0.05


class TooFewPatients(ValueError):
    """Not enough independent patients for an interval; says how many there are and how many it takes."""

    def __init__(self, have: int, need: int, why: str = "", unit: str = "patients") -> None:
        self.have, self.need, self.why = have, need, why
        super().__init__(f"too few {unit}: {have}, at least {need} needed" + (f" ({why})" if why else ""))


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure and what it stands on. ``n`` counts independent units (patients unless ``detail["unit"]`` differs).

    What is measured is said in fields; ``name`` is made from them for people and is never taken apart again.
    """

    metric: str
    value: float
    low: float
    high: float
    n: int
    chance: float | None
    better: Better
    attacker: str | None = None
    seed: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    protocol: str | None = None  # which films or texts are compared
    regime: str | None = None  # what a model learned from and was tested on
    question: str | None = None  # id in ``updp.core.questions``
    kind: Kind = Kind.MEASURED

    def __post_init__(self) -> None:
        if not self.metric:
            raise ValueError("a measurement needs a metric")
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
            raise ValueError(f"{self.name}: the interval [{self.low}, {self.high}] has its ends in the wrong order")

    @classmethod
    def missing(
        cls,
        metric: str,
        reason: str,
        *,
        n: int = 0,
        chance: float | None = None,
        better: Better = "higher",
        detail: Mapping[str, Any] | None = None,
        exemption: Exemption | None = None,
        **fields: Any,
    ) -> Measurement:
        """What could not be measured, and why; the gate counts it as not measured.

        ``exemption`` says that the question does not arise, and why.
        """
        nan = math.nan
        detail = {**(detail or {}), "not_measured": reason}
        if exemption is not None:
            detail["exemption"] = exemption.value
        return cls(metric, nan, nan, nan, n, chance, better, detail=detail, **fields)

    @property
    def title(self) -> str:
        """What was measured, in words: metric, protocol and regime."""
        where = f", {self.protocol}" if self.protocol else ""
        return f"{self.metric}{where}{f': {self.regime}' if self.regime else ''}"

    @property
    def name(self) -> str:
        """The title and who attacked."""
        return f"{self.title} ({self.attacker})" if self.attacker else self.title

    @property
    def reason(self) -> str | None:
        """Why there is no figure; None where there is one."""
        reason: str | None = self.detail.get("not_measured")
        return reason

    @property
    def exemption(self) -> Exemption | None:
        """Why the question does not arise, where that was found."""
        code = self.detail.get("exemption")
        return None if code is None else Exemption(code)

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
        if self.reason is not None:
            return f"{self.name}: not measured, {self.reason}"
        chance = "no chance level" if self.chance is None else f"chance {_figure(self.chance)}"
        interval = f"[{_figure(self.low)}, {_figure(self.high)}]"
        return f"{self.name}: {_figure(self.value)} {interval}, n = {self.n} {self.unit}, {chance}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; what was not measured is null, since JSON has no NaN. ``name`` is for readers only."""
        return {"name": self.name} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        """The inverse of ``to_json``; refuses anything that is not a whole measurement."""
        given = {name: value for name, value in data.items() if name != "name"}
        known = [f.name for f in fields(cls)]
        if absent := [name for name in known if name not in given]:
            raise ValueError(f"not a measurement: {', '.join(absent)} missing")
        if extra := sorted(set(given) - set(known)):
            raise ValueError(f"not a measurement: unknown {', '.join(extra)}")
        if not isinstance(given["detail"], Mapping) or not isinstance(given["n"], int):
            raise ValueError("not a measurement: n must be a whole number and detail a table")
        given |= {end: math.nan if given[end] is None else float(given[end]) for end in ("value", "low", "high")}
        given["chance"] = None if given["chance"] is None else float(given["chance"])
        given["kind"] = Kind(given["kind"])
        return cls(**given)


def find(measurements: Iterable[Measurement], metric: str, **fields: Any) -> Measurement | None:
    """The first measurement of this metric with these fields (``attacker``, ``protocol``, ``regime``, …)."""
    for m in measurements:
        if m.metric == metric and all(getattr(m, name) == value for name, value in fields.items()):
            return m
    return None


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
        return m.n if now <= allowed or below >= 1 else math.ceil(math.log(MISS) / math.log1p(-below))
    if width is None and allowed < NEAREST * now:
        return None
    return max(m.n, math.ceil(m.n * (now / allowed) ** 2)) if now > allowed else m.n
