"""What was measured of each method, for `updp methods`: figures copied by machine from a bench or from certificates.

``measured.toml`` beside this file holds them; ``performance/write_measured.py`` writes it from the ``methods.json`` of
`updp bench methods` or from certificates of `updp certify`. A method that neither measured has no entry, and the
listing says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

#: Figure of the listing -> fields of the bench's measurement.
FIGURES: dict[str, dict[str, str]] = {
    "own": {"metric": "film linkage", "protocol": "own film"},
    "other": {"metric": "film linkage", "protocol": "another film"},
    "skill": {"metric": "diagnostic skill kept"},
    "other_judges": {
        "metric": "skill kept",
        "protocol": "judges through VGG16",
        "regime": "train released, test real",
    },
}
Interval = tuple[float, float, float]  # value, low, high


class BadMeasurements(ValueError):
    """The file is not what `updp bench methods` writes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A method at one strength, on unseen patients; what was not measured is None."""

    name: str
    options: Mapping[str, Any]
    strength: float | None
    own: Interval | None  # AUC of finding a released film's original among real films with the same published record
    other: Interval | None  # the same of another film of the patient
    skill: Interval | None  # share of the skill above guessing that released films teach
    other_judges: Interval | None  # the same by judges that look through a network without a part in any training
    patients: int  # scored
    films: int
    quick: bool
    pack: str  # name and the first digits of its digest

    def __str__(self) -> str:
        at = "" if self.strength is None else f"at {self.strength:.2g}: "
        options = ", ".join(f"{name} = {value}" for name, value in self.options.items())
        return (
            f"{at}its original is found at {_shown(self.own)}, another film of the patient at {_shown(self.other)} "
            f"(0.5 is guessing); skill kept {_shown(self.skill)}, by other judges {_shown(self.other_judges)}; "
            f"{self.patients} patients"
            + (f" ({options})" if options else "")
        )


def _shown(value: Interval | None) -> str:
    return "not measured" if value is None else "{:.2f} [{:.2f}, {:.2f}]".format(*value)


def measured(name: str, path: Path | None = None) -> tuple[Measured, ...]:
    """What is known of method ``name``, in the order it was measured; nothing if no bench measured it."""
    return tuple(one for one in read_measured(path) if one.name == name)


def read_measured(path: Path | None = None) -> list[Measured]:
    """Every entry of ``measured.toml``, or of another file of its form."""
    place = resources.files("updp.methods").joinpath("measured.toml") if path is None else path
    held = tomllib.loads(place.read_text("utf-8"))
    try:
        return [_entry(raw) for raw in held.get("measured", [])]
    except (KeyError, TypeError, ValueError) as error:
        raise BadMeasurements(f"measured.toml: an entry is not in its form ({error!r})") from None


def _entry(raw: Mapping[str, Any]) -> Measured:
    figures = {name: _interval(raw[name]) if name in raw else None for name in FIGURES}
    return Measured(
        name=raw["method"],
        options=raw.get("options", {}),
        strength=raw.get("strength"),
        patients=raw["patients"],
        films=raw["films"],
        quick=raw["quick"],
        pack=raw["pack"],
        **figures,
    )


def _interval(raw: Sequence[float]) -> Interval:
    value, low, high = (float(number) for number in raw)
    return value, low, high
