"""A measurement is data: a value with its interval, its sample and its chance level.

Every attack and every utility measure ends here, and the gate judges nothing else. Where a sample is too small to be
sure, that is the outcome, and it says how many patients would do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

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
