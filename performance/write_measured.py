"""Copy the figures of a bench, or of certificates, into what `updp methods` shows.

    updp bench methods --data CHESTXRAY14 --method keep --method privdiff --method dcm --out methods
    python performance/write_measured.py methods/methods.json
    updp certify --data CHESTXRAY14 --method keep --out keep.json
    python performance/write_measured.py keep.json

Methods measured anew replace their old entries; others keep theirs. ``--fresh`` removes all others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

import updp.methods
from updp.methods import METHODS, make_method
from updp.methods.measured import FIGURES, BadMeasurements, Interval, Measured, read_measured

#: Options that say where a method's networks come from, not what it does.
WHERE = ("pack", "weights")
PLACE = Path(updp.methods.__file__).with_name("measured.toml")


def from_bench(path: Path) -> list[Measured]:
    """The rows of a ``methods.json``; ablations by options are rows of their own. Controls are no methods."""
    try:
        facts = json.loads(path.read_bytes())
        about, rows = facts["about"], facts["rows"]
        patients = about["patients"]
        pack = f"{about['pack']['name']} {about['pack']['sha256'][:12]}"
        return [
            Measured(
                name=row["method"],
                options={k: v for k, v in row.get("options", {}).items() if k not in WHERE},
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
    seen = [(one.name, dict(one.options)) for one in new]
    return [*(one for one in old if (one.name, dict(one.options)) not in seen), *new]


def as_toml(entries: Sequence[Measured], command: str, order: Sequence[str]) -> str:
    """The text of ``measured.toml``, with the methods in this order."""
    def key(one: Measured) -> tuple[int, str, float]:
        return order.index(one.name), str(one.options), one.strength or 0.0

    tables = []
    for one in sorted(entries, key=key):
        table = {"method": one.name, "options": dict(one.options), "strength": one.strength}
        table |= {name: getattr(one, name) for name in (*FIGURES, "patients", "films", "quick", "pack")}
        tables.append({name: value for name, value in table.items() if value not in (None, {})})
    head = f"# Written from the output of a bench; do not edit by hand.\n# {command}\n\n"
    return head + tomli_w.dumps({"measured": tables})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path, nargs="+", help="methods.json of a bench, or certificates; later ones win")
    parser.add_argument("--out", type=Path, default=PLACE)
    parser.add_argument("--fresh", action="store_true", help="keep no entry of before")
    arguments = parser.parse_args()
    entries = [] if arguments.fresh or not arguments.out.exists() else read_measured(arguments.out)
    for bench in arguments.bench:
        new = from_bench(bench) if bench.name == "methods.json" else [from_certificate(bench)]
        entries = merged(entries, new)
    arguments.out.write_text(
        as_toml(entries, "python performance/write_measured.py FILE", list(METHODS)),
        encoding="utf-8",
    )
    print("| method | strength | original found | another film found | skill kept | patients |")
    print("|---|---|---|---|---|---|")
    for one in read_measured(arguments.out):
        cells = ("not measured" if v is None else f"{v[0]:.2f} [{v[1]:.2f}, {v[2]:.2f}]"
                 for v in (one.own, one.other, one.skill))  # fmt: skip
        strength = "" if one.strength is None else f"{one.strength:.2g}"
        print(f"| {one.name} {dict(one.options) or ''} | {strength} | {' | '.join(cells)} | {one.patients} |")


if __name__ == "__main__":
    main()
