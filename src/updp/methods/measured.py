"""What was measured of each method, for `updp methods`: figures copied by machine from a bench or from certificates.

``measured.toml`` beside this file holds them; ``performance/write_measured.py`` writes it from the ``methods.json`` of
`updp bench methods` or from certificates of `updp certify`. A method that neither measured has no entry, and the
listing says so.
"""

from __future__ import annotations

import json
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
#: Options that say where a method's networks come from, not what it does.
_WHERE = ("pack", "weights")

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

    @property
    def method(self) -> tuple[str, dict[str, Any]]:
        """What makes two entries figures of the same method."""
        return self.name, dict(self.options)

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


def from_bench(path: Path) -> list[Measured]:
    """The rows of a ``methods.json``; ablations by options are rows of their own. Controls are no methods."""
    from updp.methods import METHODS

    try:
        facts = json.loads(path.read_bytes())
        about, rows = facts["about"], facts["rows"]
        patients = about["patients"]
        pack = f"{about['pack']['name']} {about['pack']['sha256'][:12]}"
        return [
            Measured(
                name=row["method"],
                options={k: v for k, v in row.get("options", {}).items() if k not in _WHERE},
                strength=None if row["strength"] is None else round(row["strength"], 4),
                **{name: _figure(row["measurements"], wanted) for name, wanted in FIGURES.items()},
                patients=_scored(row["measurements"]) or int(patients["val"] + patients["test"]),
                films=int(about["films"]),
                quick=bool(about["quick"]),
                pack=pack,
            )
            for row in rows
            if row["method"] in METHODS
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadMeasurements(f"{path} is no methods.json of updp bench methods ({type(error).__name__})") from error


def from_certificate(path: Path) -> Measured:
    """What a certificate says of its method."""
    try:
        held = json.loads(path.read_bytes())["certificate"]
        subject, cohort = held["subject"], held["cohort"]
        options = _changed(subject["method"], subject["options"])
        return Measured(
            name=subject["method"],
            options=options,
            strength=subject["strength"],
            **{name: _figure(held["measurements"], wanted) for name, wanted in FIGURES.items()},
            patients=int(cohort["patients"]),
            films=int(cohort["films"]),
            quick=bool(cohort["quick"]),
            pack=", ".join(f"{use} {digest[:12]}" for use, digest in subject["packs"].items()) or "none",
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadMeasurements(f"{path} is no certificate of updp certify ({type(error).__name__})") from error


def _scored(measurements: Sequence[Mapping[str, Any]]) -> int:
    """The most patients that a figure of the listing stands on: where they are few, all are scored in turn."""
    metrics = {wanted["metric"] for wanted in FIGURES.values()}
    return max((int(m.get("n", 0)) for m in measurements if m["metric"] in metrics), default=0)


def _changed(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not as the method has them by itself."""
    from updp.methods import make_method

    own = getattr(make_method(name), "options", None)
    default = {} if own is None else own.model_dump(mode="json")
    return {key: value for key, value in options.items() if value != default.get(key)}


def _figure(measurements: Sequence[Mapping[str, Any]], wanted: Mapping[str, str]) -> Interval | None:
    for one in measurements:
        if one["value"] is not None and all(one.get(field) == value for field, value in wanted.items()):
            return round(one["value"], 4), round(one["low"], 4), round(one["high"], 4)
    return None


def merged(old: Sequence[Measured], new: Sequence[Measured]) -> list[Measured]:
    """Old entries, those measured anew replaced; a method measured anew loses all its old strengths.

    Figures of one method from two runs would suggest a comparison that no run made.
    """
    seen = [one.method for one in new]
    return [*(one for one in old if one.method not in seen), *new]


def as_toml(entries: Sequence[Measured], command: str, order: Sequence[str]) -> str:
    """The text of ``measured.toml``, with the methods in this order."""
    import tomli_w

    def key(one: Measured) -> tuple[int, str, float]:
        return order.index(one.name), str(one.options), one.strength or 0.0

    tables = []
    for one in sorted(entries, key=key):
        table = {"method": one.name, "options": dict(one.options), "strength": one.strength}
        table |= {name: getattr(one, name) for name in (*FIGURES, "patients", "films", "quick", "pack")}
        tables.append({name: value for name, value in table.items() if value not in (None, {})})
    head = f"# Written from the output of a bench; do not edit by hand.\n# {command}\n\n"
    return head + tomli_w.dumps({"measured": tables})
