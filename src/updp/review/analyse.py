"""`updp study analyse`: what readers answered, as measurements in the evidence.

Agreement of the original with the released film is Cohen's kappa per finding, by reader and by majority vote; readers
among each other Fleiss' kappa; a reader over time kappa over repeated films. Confidence against the truth of the
plan gives AUCs, compared by Obuchowski and Rockette. Real-or-generated is an accuracy beside chance, image quality a
mean on five steps. Intervals resample patients. What is too little for an interval is said to be, with a reason.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.core.keys import Key
from updp.core.measurement import MISS, Measurement, TooFewPatients
from updp.core.policy import Policy
from updp.core.storage import write_bytes
from updp.evaluation.agreement import MAJORITY, VERSIONS, cohen_kappa, fleiss_kappa, mean_kappa, perfect_bound
from updp.evaluation.intervals import measure
from updp.evaluation.mrmc import compare
from updp.evaluation.statistics import mean
from updp.review.answers import Answer, Answers
from updp.review.plan import PRESENT, BadPlan, Plan

#: Names of the measures, for the report and for readers of the evidence.
KAPPA, FLEISS, AREA, GUESS, RATING = (
    "Cohen's kappa", "Fleiss' kappa", "reading AUC", "real-or-generated accuracy", "image quality",
)  # fmt: skip
ALL = "all findings"
AGAINST, TWICE, BETWEEN = "original against released", "same film twice", "between readers"


@dataclass(frozen=True)
class Analysis:
    """What a study found."""

    plan: Plan
    measurements: tuple[Measurement, ...]
    complete: bool  # whether every reader has answered every item

    def to_json(self) -> dict[str, Any]:
        """The study as the evidence states it; no film, no pseudonym, no single answer."""
        return {
            "plan": self.plan.digest,
            "design": self.plan.design,
            "simulated": self.plan.simulated,
            "readers": [reader.name for reader in self.plan.readers],
            "patients": len({film.patient for film in self.plan.films.values()}),
            "findings": list(self.plan.findings),
            "washout": self.plan.washout,
            "days": self.plan.days,
            "complete": self.complete,
            "manifest_sha256": self.plan.release,
            "measurements": [m.to_json() for m in self.measurements],
        }


@dataclass(frozen=True)
class _Readings:
    """Answers as arrays: reader x patient, of patients whom every reader has read in both versions."""

    patients: NDArray[np.str_]
    confidence: NDArray[np.float64]  # version x reader x patient x finding
    quality: NDArray[np.float64]  # version x reader x patient
    generated: NDArray[np.bool_]  # version x reader x patient
    truth: NDArray[np.float64]  # patient x finding, NaN where not known


def analyse(plan: Plan, given: Mapping[str, Mapping[int, Answer]], *, seed: int = 0) -> Analysis:
    """Every measurement of a study from the last answers of each reader."""
    table = _table(plan, given)
    who = [reader.name for reader in plan.readers]
    seen = table.confidence >= PRESENT
    out: list[Measurement] = []

    def add(
        metric: str, statistic: Callable[..., Any], *arrays: NDArray[Any], regime: str, reader: str | None = None,
        compares: str | None = None, **more: Any,
    ) -> None:  # fmt: skip
        more = {"better": "higher", "protocol": None, "chance": None, "patients": table.patients} | more
        patients = more.pop("patients")
        facts = {"simulated": plan.simulated or None, "reader": reader, "compares": compares}
        detail = {name: value for name, value in facts.items() if value is not None}
        if plan.simulated and reader not in who:  # their names say so themselves
            regime = f"{regime} (simulated)"
        if not len(patients):
            out.append(
                Measurement.missing(
                    metric, "no patient was read by every reader in both versions",
                    better=more["better"], chance=more["chance"], protocol=more["protocol"], regime=regime,
                    detail=detail,
                )
            )  # fmt: skip
            return
        made = measure(metric, statistic, patients, *arrays, seed=seed, regime=regime, detail=detail, **more)
        out.append(_widened(made, arrays))

    for n, name in [*enumerate(who), *([(-1, MAJORITY)] if len(who) > 2 else [])]:
        original, released = (_vote(side) if n < 0 else side[n] for side in seen)
        about: dict[str, Any] = {"regime": f"{AGAINST}, {name}", "reader": name, "compares": VERSIONS, "chance": 0.0}
        add(KAPPA, mean_kappa, original, released, protocol=ALL, **about)
        for f, finding in enumerate(plan.findings):
            add(KAPPA, cohen_kappa, original[:, f], released[:, f], protocol=finding, **about)
    if len(who) > 1:
        for version, side in zip(("original", "released"), seen, strict=True):
            for f, finding in enumerate(plan.findings):
                add(
                    FLEISS, fleiss_kappa, side[:, :, f].T.astype(int),
                    protocol=finding, regime=f"{BETWEEN}, {version} films", chance=0.0,
                )  # fmt: skip
    for name in who:
        first, second, patients = _repeats(plan, given.get(name, {}), name)
        add(
            KAPPA, mean_kappa, first, second,
            protocol=ALL, regime=f"{TWICE}, {name}", reader=name, chance=0.0, patients=patients,
        )  # fmt: skip
    for f, finding in enumerate(plan.findings):
        out += _areas(plan, table, f, finding)
    origin = np.array([False, True])[:, None, None]
    right = table.generated == origin
    for n, name in enumerate(who):
        add(GUESS, mean, right[:, n].mean(axis=0), regime=name, reader=name, chance=0.5, better="closer to chance")
    add(GUESS, mean, right.mean(axis=(0, 1)), regime="all readers", chance=0.5, better="closer to chance")
    for version, side in zip(("original films", "released films"), table.quality, strict=True):
        add(RATING, mean, side.mean(axis=0), regime=version)
    add(RATING, mean, (table.quality[1] - table.quality[0]).mean(axis=0), regime="released minus original")
    complete = all(len(given.get(reader.name, {})) == len(reader.items) for reader in plan.readers)
    return Analysis(plan, tuple(out), complete)


def _widened(m: Measurement, readings: tuple[NDArray[Any], ...]) -> Measurement:
    """A figure with its exact bound where all patients are alike: resampling them gives the same figure again."""
    if not m.measured or m.low < m.high or m.n < 1:
        return m
    if m.metric == GUESS:
        end = MISS ** (1 / m.n)
        low, high = (end if m.value == 1 else m.low, 1 - end if m.value == 0 else m.high)
        return replace(m, low=low, high=high)
    if m.metric in (KAPPA, FLEISS) and m.value == 1:
        table = readings[0] if m.metric == FLEISS else np.stack(readings, axis=1)
        columns = table.reshape(len(table), 2, -1).transpose(2, 0, 1) if m.metric == KAPPA else table[None]
        bounds = [bound for column in columns if np.isfinite(bound := perfect_bound(column))]
        return replace(m, low=float(np.mean(bounds)))
    return m


def _vote(seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What most readers see; an even split is not seen."""
    most: NDArray[np.bool_] = seen.sum(axis=0) * 2 > len(seen)
    return most


def _table(plan: Plan, given: Mapping[str, Mapping[int, Answer]]) -> _Readings:
    versions = ("original", "released")
    first: dict[tuple[str, str, str], Answer] = {}  # version, reader, patient
    for reader in plan.readers:
        for item, answer in given.get(reader.name, {}).items():
            planned = reader.items[item]
            film = plan.films[planned.film]
            if not planned.repeat:
                first[film.version, reader.name, film.patient] = answer
    everyone = sorted({film.patient for film in plan.films.values()})
    whole = [
        p for p in everyone if all((version, r.name, p) in first for version in versions for r in plan.readers)
    ]  # fmt: skip
    truths = {film.patient: film.truth for film in plan.films.values()}
    shape = (len(versions), len(plan.readers), len(whole))
    rows = [first[version, r.name, p] for version in versions for r in plan.readers for p in whole]
    unknown = (np.nan,) * len(plan.findings)
    return _Readings(
        np.array(whole, dtype=np.str_),
        np.array([a.findings for a in rows], float).reshape(*shape, len(plan.findings)),
        np.array([a.quality for a in rows], float).reshape(shape),
        np.array([a.origin == "generated" for a in rows], bool).reshape(shape),
        np.array([truths[p] if truths[p] is not None else unknown for p in whole], float).reshape(
            len(whole), len(plan.findings)
        ),
    )


def _repeats(
    plan: Plan, answers: Mapping[int, Answer], name: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.str_]]:
    """First and second reading of the films that a reader saw twice."""
    items = plan.reader(name).items
    before = {item.film: place for place, item in enumerate(items) if not item.repeat}
    pairs = [
        (answers[before[item.film]], answers[place])
        for place, item in enumerate(items)
        if item.repeat and place in answers and before.get(item.film) in answers
    ]
    width = len(plan.findings)
    first, second = (
        (np.array([pair[side].findings for pair in pairs], int).reshape(-1, width) >= PRESENT) for side in (0, 1)
    )
    return first, second, np.array([plan.films[pair[0].film].patient for pair in pairs], dtype=np.str_)


def _areas(plan: Plan, table: _Readings, f: int, finding: str) -> list[Measurement]:
    """AUC of original and released films, and the difference over readers and cases."""
    known = np.isfinite(table.truth[:, f]) if len(table.truth) else np.zeros(0, bool)
    n = int(known.sum())
    mark = " (simulated)" if plan.simulated else ""
    detail: dict[str, Any] = {"simulated": True} if plan.simulated else {}
    regime = f"released minus original{mark}"
    if len(plan.readers) < 2:
        return [Measurement.missing(AREA, "needs two readers", n=n, protocol=finding, regime=regime, detail=detail)]
    try:
        if not n:
            raise TooFewPatients(0, 10, "the source has no such label")
        found = compare(table.truth[known, f], table.confidence[:, :, known, f])
    except TooFewPatients as few:
        return [Measurement.missing(AREA, str(few), n=n, protocol=finding, regime=regime, detail=detail)]
    detail |= {
        "method": "Obuchowski-Rockette, jackknife covariances, Hillis degrees of freedom",
        "original": [round(float(a), 6) for a in found.areas[0]],
        "released": [round(float(a), 6) for a in found.areas[1]],
        "f": found.f,
        "degrees": found.degrees,
        "p": found.p,
    }
    return [Measurement(AREA, *found.difference, n, None, "higher", protocol=finding, regime=regime, detail=detail)]


# -- the evidence ----------------------------------------------------------------------------------------------------


def into_release(analysis: Analysis, release: Path, key: Key) -> Path:
    """Write a study into the evidence of its release, which is sealed anew; refuses simulated readers."""
    from updp.evaluation.cohort.load import opened_release
    from updp.evaluation.report import page, released_sheet
    from updp.release import manifest
    from updp.release.assemble import restate

    if analysis.plan.simulated:
        raise BadPlan("simulated readers are not readers; their figures are not written into a release")
    facts, policy = opened_release(release, key)
    if analysis.plan.release != manifest.digest(release):
        raise BadPlan("the study is about other films than this release has")
    facts = {**facts, "readers": analysis.to_json()}
    return restate(release, facts, policy, key, page(facts, policy, films=released_sheet(release)), dt.date.today())


def into_folder(analysis: Analysis, out: Path, policy: Policy | None = None) -> Path:
    """Write a study as JSON and as a page of its own."""
    from updp.evaluation.report import readers_page

    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(analysis.to_json(), indent=2, sort_keys=True) + "\n"
    write_bytes(out / "study.json", text.encode())
    write_bytes(out / "study.html", readers_page(analysis.to_json()).encode())
    return out / "study.html"


def load_answers(plan: Plan, folder: Path) -> dict[str, dict[int, Answer]]:
    """The last answers of every reader of a study."""
    base = Answers(folder, plan)
    return {reader.name: base.of(reader.name) for reader in plan.readers}
