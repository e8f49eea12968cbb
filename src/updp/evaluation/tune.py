"""`updp tune`: the frontier of a method on a source, and the strength to use.

A sample of the source is de-identified at several strengths and each is attacked and put to use. Attackers learn on
training patients and are scored on validation patients; test patients are never used, so that the release's own
evaluation is not tuned to them. A strength is recommended only when the far ends of both intervals keep the limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.policy import GatePolicy
from updp.core.storage import write_bytes
from updp.evaluation import charts
from updp.evaluation.cohort.load import private
from updp.evaluation.cohort.sample import exhibit_of, made_once, pack_for, probes_for, take_sample
from updp.evaluation.cohort.settings import MethodPlan, settings
from updp.evaluation.evaluate import budget_of, learned_in, pack_facts, run_probes
from updp.evaluation.report import point_of, points

if TYPE_CHECKING:
    from updp.evaluation.apart import Apart
    from updp.evaluation.probes.base import Probe

Say = Callable[[str], None]
#: Strengths tried unless the user names others.
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: Half of the films teach the attackers, half test them: validation patients are few.
SPLITS: Mapping[Any, float] = {"train": 0.5, "val": 0.5}


@dataclass(frozen=True)
class Frontier:
    """A method's strengths between privacy and utility."""

    points: tuple[Mapping[str, Any], ...]
    strength: float | None  # to use; None where no strength keeps both limits
    advice: str
    folder: Path


def tune(
    source: str | Path,
    *,
    out: str | Path,
    method: str | MethodPlan = "updp",
    strengths: Sequence[float] | None = None,
    max_linkage: float | None = None,
    min_utility: float | None = None,
    films: int = 600,
    pack: str | None = None,
    seed: int = 0,
    layout: str | None = None,
    domain: str | None = None,
    probes: Callable[[], Sequence[Probe]] | None = None,
    say: Say | None = None,
    apart: Apart | None = None,
) -> Frontier:
    """De-identify a sample at several strengths, evaluate each, and recommend one. The same call resumes.

    ``pack`` is that of the source's domain unless it is given; ``apart`` is the engine that attacks run on.
    """
    limits = GatePolicy()
    linkage = limits.max_film_linkage if max_linkage is None else max_linkage
    utility = limits.min_skill if min_utility is None else min_utility
    tell = say or (lambda text: None)
    target = Path(out).absolute()
    tried = settings([method], strengths if strengths is not None else STRENGTHS, pack)
    private(target)
    budget = budget_of(True)
    films_kept = target / ".cache" / "films"
    sample = take_sample(Path(source), films, splits=SPLITS, seed=seed, layout=layout, domain=domain, cache=films_kept)
    models = pack_for(sample, pack)
    counted = {split: len({s.patient_id for s in sample.studies if s.split == split}) for split in ("train", "val")}
    tell(
        f"{len(sample)} films; attackers learn on {counted['train']} patients, scored on {counted['val']} of validation"
    )
    found: list[dict[str, Any]] = []
    missing: list[str] = []
    for setting in tried:
        made = made_once(sample, setting, seed, target / ".cache" / "made")
        measured = run_probes(
            exhibit_of(sample, made),
            models,
            budget,
            seed,
            probes=probes() if probes else probes_for(sample, ("film", "diagnosis")),
            cache=learned_in(target / ".cache" / "learned"),
            apart=apart,
        )
        point = point_of(setting.shown, setting.strength, measured, kept_back=made.kept_back)
        if point is None:
            why = "; ".join(dict.fromkeys(str(m.reason) for m in measured if not m.measured)) or "no figure"
            missing.append(f"{setting.label}: not measured, {why}")
            tell(missing[-1])
        else:
            found.append(point)
            tell(describe_point(point))
    strength, advice = choose_strength(found, linkage, utility)
    facts = {
        "format": "updp-frontier-1",
        "points": found,
        "not_measured": missing,
        "strength": strength,
        "advice": advice,
        "max_linkage": linkage,
        "min_utility": utility,
        "films": len(sample),
        "patients": counted,
        "seed": seed,
        "quick": True,
        "pack": pack_facts(models),
        "hypervolume": hypervolume(found),
    }
    write_bytes(target / "frontier.json", (json.dumps(facts, indent=2) + "\n").encode())
    if found:
        picture = charts.plane(points(found), linkage, utility)
        write_bytes(target / "frontier.svg", charts.standalone(picture))
    return Frontier(tuple(found), strength, advice, target)


def describe_point(point: Mapping[str, Any]) -> str:
    """A point of the frontier in words."""

    def figure(m: Mapping[str, float]) -> str:
        return f"{m['value']:.3f} [{m['low']:.3f}, {m['high']:.3f}]"

    strength = "" if point["strength"] is None else f" {point['strength']:g}"
    return (
        f"{point['method']}{strength}: film linkage {figure(point['linkage'])} (chance 0.500), "
        f"skill kept {figure(point['utility'])}, n = {point['linkage']['n']} patients"
    )


def choose_strength(
    found: Sequence[Mapping[str, Any]], max_linkage: float, min_utility: float
) -> tuple[float | None, str]:
    """The most useful strength that is private enough for certain, and the words that say why."""
    if not found:
        return None, "nothing was measured; see the reasons above"
    private_enough = [p for p in found if p["linkage"]["high"] <= max_linkage]
    good = [p for p in private_enough if p["utility"]["low"] >= min_utility]
    if good:
        best = max(good, key=lambda p: (p["utility"]["value"], -p["linkage"]["value"]))
        return best["strength"], f"use --strength {best['strength']:g}" if best[
            "strength"
        ] is not None else "use it as it is"
    if private_enough:
        best = max(private_enough, key=lambda p: p["utility"]["low"])
        return None, (
            f"no strength keeps enough use for certain: of those private enough, {describe_point(best)}; "
            f"its lower bound has to be at least {min_utility:.2f}"
        )
    best = min(found, key=lambda p: p["linkage"]["high"])
    sure = best["linkage"]["value"] <= max_linkage
    more = "; more films may settle it (--films)" if sure else ""
    return None, (
        f"no strength is private enough for certain: best is {describe_point(best)}; "
        f"its upper bound has to be at most {max_linkage:.2f}{more}"
    )


def hypervolume(found: Sequence[Mapping[str, Any]]) -> float:
    """Area under the best of the frontier: privacy 1 - |2 AUC - 1| across, usefulness up; 1 is a perfect method."""
    pairs = sorted(
        ((2 - 2 * p["linkage"]["value"], min(1.0, max(0.0, p["utility"]["value"]))) for p in found), reverse=True
    )
    area, top = 0.0, 0.0
    for i, (privacy, use) in enumerate(pairs):
        top = max(top, use)
        below = pairs[i + 1][0] if i + 1 < len(pairs) else 0.0
        area += (privacy - below) * top
    return round(area, 4)
