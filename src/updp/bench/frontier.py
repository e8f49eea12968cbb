"""`updp bench frontier`: privacy and use of every method by its strength, on patients that no model has seen.

Privacy is the film beyond its record (strongest attacker that adapts), use the diagnostic skill kept; the record's own
linkage, fidelity and cost stand beside. A method's hypervolume is the area that its strengths dominate, 1 for a perfect
method. Its interval follows from those of the points: figures are drawn within them, the area is computed for each
draw, and the draws are shifted by what the best of noisy points gains by chance. Each method and strength has a file,
so an interrupted bench resumes. The methods and strengths are data (``frontier.toml``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.bench.evidence import Column, Row, rows_of
from updp.bench.methods import BEYOND, RELATIVE, BadBench, measured_row, take_unseen
from updp.bench.tables import cell, read_rows
from updp.core.markdown import table_lines
from updp.core.policy import GatePolicy
from updp.core.registry import unknown
from updp.core.storage import write_bytes
from updp.evaluation import charts
from updp.evaluation.cohort.sample import pack_for
from updp.evaluation.cohort.settings import MethodPlan, placed, read_plan, settings
from updp.evaluation.evaluate import budget_of, pack_facts
from updp.evaluation.intervals import Interval
from updp.evaluation.report import point_of, points
from updp.evaluation.tune import hypervolume

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from updp.evaluation.probes.base import Probe

Say = Callable[[str], None]
COLUMNS = (
    BEYOND,
    RELATIVE,
    Column("record linkage", "record linkage AUC"),
    Column("coverage", "coverage", percent=False),
    Column("FD-classifier", "FD-classifier", percent=False),
)
_DRAWS = 2000
#: Few films of each patient: a figure is as sure as its patients are many, and privacy is that of the film itself.
_PER_PATIENT = 2


@dataclass(frozen=True)
class Volume:
    """The hypervolume of a method over its strengths."""

    method: str
    area: Interval
    points: int


def every_method(source: Path, names: Sequence[str] | None = None, weights: str | None = None) -> list[MethodPlan]:
    """The plan of ``frontier.toml`` on a source: all methods, or those named."""
    with resources.as_file(resources.files("updp.bench").joinpath("frontier.toml")) as path:
        plans = read_plan(path)
    known = dict.fromkeys(plan.name for plan in plans)
    if wrong := sorted(set(names or ()) - set(known)):
        raise BadBench(f"the frontier has {unknown('method', wrong[0], known)}")
    return [_placed(plan, source, weights) for plan in plans if names is None or plan.name in names]


def _placed(plan: MethodPlan, source: Path, weights: str | None) -> MethodPlan:
    from updp.methods import LEARNED

    here = placed(plan, source)
    own = {"weights": weights} if weights is not None and plan.name in LEARNED else {}
    return here.model_copy(update={"options": own | here.options})


def bench_frontier(
    source: Path,
    out: Path,
    *,
    plans: Sequence[MethodPlan] | None = None,
    names: Sequence[str] | None = None,
    weights: str | None = None,
    films: int = 2000,
    pack: str | None = None,
    quick: bool = False,
    seed: int = 0,
    layout: str | None = None,
    probes: Callable[[], Sequence[Probe]] | None = None,
    part: tuple[int, int] | None = None,
    say: Say = print,
) -> list[Volume]:
    """Measure every method at every strength; ``frontier.md``, ``.json`` and ``.svg`` go to ``out``.

    ``part`` (2, 5) measures the second fifth of the settings and writes no table: processes share ``out``, and a last
    call without ``part`` writes the tables. Methods without weights, or with weights of another pack, end the bench
    before any film is read.
    """
    chosen = [placed(plan, source) for plan in plans] if plans is not None else every_method(source, names, weights)
    todo = settings(chosen, None, pack)
    sample = take_unseen(source, films, out, todo, pack, seed, layout, per_patient=_PER_PATIENT)
    judges = pack_for(sample, pack)
    counted = len({study.patient_id for study in sample.studies})
    say(f"{len(sample)} films of {counted} patients that trained no model; {len(todo)} settings")
    budget = budget_of(quick)
    rows: list[Row] = []
    volumes: list[Volume] = []
    for setting in todo if part is None else todo[part[0] - 1 :: part[1]]:
        rows.append(measured_row(sample, setting, judges, budget, seed, ["frontier"], out, probes))
        say(f"{rows[-1].setting.label}: {'; '.join(f'{c.heading} {rows[-1].cell(c)}' for c in (BEYOND, RELATIVE))}")
        if part is None:  # after every setting, so that a bench that is stopped leaves what it has
            volumes = write(rows, out, {"films": len(sample), "patients": counted, "seed": seed, "quick": quick,
                                        "pack": pack_facts(judges)})  # fmt: skip
    return volumes


def write(rows: Sequence[Row], out: Path, about: Mapping[str, Any]) -> list[Volume]:
    """The table, the figures and the picture of what was measured so far."""
    found = [p for row in rows if (p := point_of(row.method, row.setting.strength, row.measurements))]
    volumes = ranked(found, int(about["seed"]))
    write_bytes(out / "frontier.md", markdown(rows, volumes, about, found).encode())
    facts = {"format": "updp-frontier-1", "points": found, "hypervolume": [asdict(v) for v in volumes], **about,
             "rows": [row.to_json() for row in rows]}  # fmt: skip
    write_bytes(out / "frontier.json", (json.dumps(facts, indent=2) + "\n").encode())
    if found:
        write_bytes(out / "frontier.svg", picture(found))
    return volumes


def picture(found: Sequence[Mapping[str, Any]]) -> bytes:
    """A line per method, with one label at its most useful point: labels of all strengths would hide the points."""
    best: dict[str, Mapping[str, Any]] = {}
    for p in found:
        if p["method"] not in best or p["utility"]["value"] > best[p["method"]]["utility"]["value"]:
            best[p["method"]] = p
    shown = [replace(drawn, label=drawn.series if best[p["method"]] is p else "")
             for p, drawn in zip(found, points(found), strict=True)]  # fmt: skip
    limits = GatePolicy()
    svg = charts.planes(
        [charts.Plane(shown, limits.max_film_linkage, limits.min_skill)],
        "Privacy and utility of every method by its strength",
        (900, 640),
    )
    return charts.standalone(svg)


def page(facts: Mapping[str, Any]) -> str:
    """The tables of a ``frontier.json``."""
    volumes = read_rows(Volume, facts["hypervolume"])
    return markdown(rows_of({**facts, "about": facts}), volumes, facts, facts.get("points", ()))


def ranked(found: Sequence[Mapping[str, Any]], seed: int = 0) -> list[Volume]:
    """Hypervolume of each method, largest first."""
    names = dict.fromkeys(str(p["method"]) for p in found)
    out = []
    for name in names:
        own = [p for p in found if p["method"] == name]
        out.append(Volume(name, area_of(own, np.random.default_rng([seed, len(own)])), len(own)))
    return sorted(out, key=lambda v: -v.area.value)


def area_of(found: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> Interval:
    """The hypervolume of points and its 95 % interval."""
    value = hypervolume(found)
    low, high = (float(q) for q in np.quantile(_areas(found, rng), (0.025, 0.975)))
    return Interval(value, max(0.0, min(low, value)), min(1.0, max(high, value)))


def leads(found: Sequence[Mapping[str, Any]], names: Sequence[str], seed: int = 0) -> dict[str, Interval]:
    """By how much the first of these methods has a larger hypervolume than each of the others. Their figures are drawn
    apart, though they are of the same patients: the interval errs on the wide side."""
    own = {name: [p for p in found if p["method"] == name] for name in names}
    drawn = {name: _areas(own[name], np.random.default_rng([seed, n])) for n, name in enumerate(names)}
    first, *others = names
    out = {}
    for name in others:
        value = hypervolume(own[first]) - hypervolume(own[name])
        low, high = (float(q) for q in np.quantile(drawn[first] - drawn[name], (0.025, 0.975)))
        out[name] = Interval(value, min(low, value), max(high, value))
    return out


def _areas(found: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> NDArray[np.float64]:
    """Hypervolumes of figures drawn anew, shifted by what the best of noisy points gains by chance."""
    drawn = []
    for _ in range(_DRAWS):
        moved = [{side: {"value": _within(p[side], rng)} for side in ("linkage", "utility")} for p in found]
        for p in moved:
            p["linkage"]["value"] = min(1.0, max(0.5, p["linkage"]["value"]))
        drawn.append(hypervolume(moved))
    areas: NDArray[np.float64] = np.array(drawn) - (np.mean(drawn) - hypervolume(found))
    return areas


def _within(figure: Mapping[str, float], rng: np.random.Generator) -> float:
    """A random figure within its interval, each side of which has a spread of its own."""
    z = float(rng.standard_normal())
    reach = figure["high"] - figure["value"] if z > 0 else figure["value"] - figure["low"]
    return float(figure["value"] + z * reach / 1.96)


def markdown(
    rows: Sequence[Row], volumes: Sequence[Volume], about: Mapping[str, Any], found: Sequence[Mapping[str, Any]]
) -> str:
    """Hypervolumes first, then every setting."""
    lead = leads(found, [v.method for v in volumes], int(about["seed"])) if found else {}
    out = [
        f"{about['films']} films of {about['patients']} patients that trained no model, seed {about['seed']}, "
        f"{'quick' if about['quick'] else 'full'} budget. Brackets are 95 % intervals.",
        "",
        "### Hypervolume",
        "",
        *table_lines(
            ["method", "area", "strengths", "less than the first by"],
            [[v.method, cell(v.area, 3), str(v.points), cell(lead.get(v.method), 3)] for v in volumes],
        ),
        "### Every strength",
        "",
        *table_lines(
            ["method", "strength", *(c.heading for c in COLUMNS), "seconds per film", "kept back"],
            [
                [
                    row.method,
                    "" if row.setting.strength is None else f"{row.setting.strength:g}",
                    *map(row.cell, COLUMNS),
                    f"{row.seconds:.2f}",
                    f"{row.kept_back} of {row.films}",
                ]
                for row in rows
            ],
        ),
    ]
    return "\n".join(out) + "\n"
