"""`updp plan`: what a run would do with a source, how long it would take, and what the gate could say of it.

The source is read once without pixels. Three films, from the beginning, the middle and the end, are taken through every
station and the method, and timed; reports of a few dozen studies are looked at. Nothing is written.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from updp.core.global_state import quiet
from updp.core.keys import Key
from updp.core.measurement import FEWEST_PATIENTS, MISS
from updp.core.policy import Policy
from updp.core.questions import Kind, Question
from updp.core.reasons import Refused
from updp.core.record import BENCHMARK_KEY, Study, split_of
from updp.domains.base import Domain
from updp.methods import method_info
from updp.pipeline import stations
from updp.pipeline.stations import Stopped
from updp.release import certificate
from updp.release.film_file import film_file
from updp.sources.base import Refusal, Source

#: Films that are made for their time, and studies whose reports and headers are looked at.
TIMED, LOOKED = 3, 60
#: Names of labels that so many patients share are shown; a rarer one may be a patient's own words.
SHARED = 5
_SCORED = 0.3  # share of patients on whom attacks and measures are scored: those of val and test


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the gate can answer a question, and by which evidence."""

    question: str
    can: bool
    why: str


@dataclass(slots=True)
class Plan:
    """A run before it is made."""

    layout: str
    domain: str
    method: str
    films: int = 0
    skipped: int = 0
    patients: int = 0
    splits: dict[str, int] = field(default_factory=dict)  # patients
    views: dict[str, int] = field(default_factory=dict)
    labelled: int = 0
    labels: dict[str, int] = field(default_factory=dict)  # films by known label
    unknown_labels: dict[str, int] = field(default_factory=dict)  # shared by enough patients to be shown
    unknown_rare: int = 0  # films with others
    reports: int = 0
    looked: int = 0  # studies whose report and film were read
    languages: dict[str, int] = field(default_factory=dict)  # of the reports looked at
    refused: dict[str, int] = field(default_factory=dict)  # of all films, seen in the table or header
    refused_looked: dict[str, int] = field(default_factory=dict)  # of those looked at: station/reason
    timed: int = 0
    seconds_per_film: float | None = None
    seconds: float | None = None
    bytes: int | None = None
    workers: int = 1
    answers: tuple[Answer, ...] = ()


@quiet()
def plan(
    source: str | Path,
    policy: Policy | None = None,
    *,
    layout: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    workers: int | None = None,
) -> Plan:
    """What a run of ``source`` under ``policy`` would do. No key is needed and nothing is written."""
    from updp.sources import open_under

    policy = policy or Policy()
    opened = open_under(policy, Path(source), layout, limit, native=policy.image.native)
    opened.domain.check(policy)
    out = Plan(opened.layout, opened.domain.name, policy.method.name, workers=workers or os.cpu_count() or 1)
    chosen = _count(opened, policy, out)
    _look(opened, policy, chosen, seed, out)
    out.answers = tuple(_answers(policy, opened.domain, out, seed))
    return out


def _count(source: Source, policy: Policy, out: Plan) -> list[Study]:
    """Read the source without pixels, and choose studies from all over it to look at."""
    known = {*source.domain.labels.names, *policy.release.labels}
    views, labels, refused = Counter[str](), Counter[str](), Counter[str]()
    strange: dict[str, set[str]] = {}
    strange_films = Counter[str]()
    patients: dict[str, str] = {}
    chosen: list[Study] = []
    step = 1
    for item in source:
        out.films += 1
        if isinstance(item, Refusal):
            refused[item.reason.value] += 1
            continue
        patients.setdefault(item.patient_id, item.split or split_of(item.patient_id, BENCHMARK_KEY))
        views[item.view or "not stated"] += 1
        out.reports += bool(item.report) or item.report_path is not None
        if item.labels is not None:
            out.labelled += 1
            labels.update(label for label in item.labels if label in known)
            for label in set(item.labels) - known:
                strange_films[label] += 1
                held = strange.setdefault(label, set())
                if len(held) < SHARED:
                    held.add(item.patient_id)
        if (out.films - 1) % step == 0:
            chosen.append(item)
            if len(chosen) > 2 * LOOKED:  # evenly spread, however many there are
                chosen, step = chosen[::2], step * 2
    out.skipped = source.skipped
    out.patients, out.splits = len(patients), dict(Counter(patients.values()))
    out.views, out.labels, out.refused = dict(views.most_common()), dict(labels.most_common()), dict(refused)
    shown = {label for label, held in strange.items() if len(held) >= SHARED}
    out.unknown_labels = {label: n for label, n in strange_films.most_common() if label in shown}
    out.unknown_rare = sum(n for label, n in strange_films.items() if label not in shown)
    return chosen[:: max(1, -(-len(chosen) // LOOKED))]


def _look(source: Source, policy: Policy, chosen: list[Study], seed: int, out: Plan) -> None:
    """Read reports and headers of the chosen studies, and make the films of a few of them."""
    from updp.reports.language import language

    key = Key(bytes(32))  # nothing made here leaves
    line = stations.build(source, policy, key)
    make = stations.MakeFilm(policy, key, seed, source.domain.name)
    languages, refused = Counter[str](), Counter[str]()
    for study in chosen:
        out.looked += 1
        try:
            loaded = source.load(study)
            if loaded.report:
                languages[language(loaded.report.text())] += 1
        except Refused as reason:
            refused[f"read/{reason.reason.value}"] += 1
    out.languages = dict(languages.most_common())
    spread = [chosen[i] for i in sorted({0, len(chosen) // 2, len(chosen) - 1})] if chosen else []
    # Models and lexicons are loaded with the first film; its time is not the time of a film.
    _through(spread[:1], line, make, Counter())
    start = time.perf_counter()
    made = _through(spread[:TIMED], line, make, refused)
    elapsed = time.perf_counter() - start
    out.refused_looked = dict(refused.most_common())
    out.timed = len(spread)
    if spread:
        out.seconds_per_film = elapsed / len(spread)
        out.seconds = out.seconds_per_film * (out.films - sum(out.refused.values())) / out.workers
    if made:
        sizes = [sum(map(len, film_file(study, policy)[0])) for study in made]
        out.bytes = round(sum(sizes) / len(sizes) * out.films)


def _through(
    studies: list[Study], line: list[tuple[str, stations.Station]], make: stations.MakeFilm, refused: Counter[str]
) -> list[Study]:
    passed = []
    for study in studies:
        result = stations.passage(study, line)
        if isinstance(result, Stopped):
            refused[f"{result.station}/{result.reason.value}"] += 1
        else:
            passed.append(result)
    out = []
    for one in make(passed) if passed else []:
        if isinstance(one, Stopped):
            refused[f"{one.station}/{one.reason.value}"] += 1
        else:
            out.append(one)
    return out


# -- what the gate can say -------------------------------------------------------------------------------------------


def _answers(policy: Policy, domain: Domain, out: Plan, seed: int) -> list[Answer]:
    accepted = set(policy.gate.accept)
    info = method_info(policy.method.name)
    reads = stations.MakeFilm(policy, Key(bytes(32)), seed, domain.name).reads_pixels
    certified = {proof.question for proof in certificate.find(policy, dt.date.today()).proofs if proof.held}
    scored = round(out.patients * _SCORED) if not out.splits else sum(out.splits.get(s, 0) for s in ("val", "test"))
    found = []
    for question in domain.asked().values():
        if question.id == "text" and (not out.reports or policy.report.mode == "withhold"):
            found.append(Answer(question.id, True, "does not arise: no reports leave"))
        elif question.id == "membership" and not info.learned_from_images:
            found.append(Answer(question.id, True, "does not arise: the method learned from no images"))
        elif question.id == "film" and not reads and Kind.CONSTRUCTION in accepted:
            found.append(Answer(question.id, True, "by construction: the method reads no pixels at this strength"))
        elif question.id == "text" and Kind.CONSTRUCTION in accepted:
            found.append(
                Answer(question.id, True, "by construction: every released report is read by a second detector")
            )
        elif question.id in certified:
            found.append(
                Answer(question.id, True, "by a certificate of the method; its figures are held to the bounds")
            )
        else:
            found.append(_by_measurement(policy, question, scored, out.patients))
    return found


def _by_measurement(policy: Policy, question: Question, scored: int, patients: int) -> Answer:
    """Whether so many patients can narrow the interval enough, if the figure were as good as it can be."""
    needs = [_fewest(bound.limit, float(getattr(policy.gate, bound.limit))) for bound in question.bounds]
    need = max(needs, default=0)
    if need <= scored:
        return Answer(question.id, True, f"by measurement: {scored} patients are scored, at least {need} are needed")
    hospital = math.ceil(need * (patients / scored)) if scored else math.ceil(need / _SCORED)
    return Answer(
        question.id,
        False,
        f"too few patients: {scored} would be scored and at least {need} are needed, about {hospital} in the source",
    )


def _fewest(name: str, bound: float) -> int:
    """Patients whose interval reaches the bound at best: an AUC of one half, no report with PHI, all of the skill."""
    if name == "max_residual_phi":
        return math.ceil(math.log(MISS) / math.log1p(-bound)) if 0 < bound < 1 else FEWEST_PATIENTS
    if name in ("max_film_linkage", "max_membership"):
        # The variance of an AUC of one half, a pair per patient against many impostors, is 1 / 12n.
        return max(FEWEST_PATIENTS, math.ceil(1.96**2 / 12 / max(1e-3, bound - 0.5) ** 2))
    if name == "max_film_delta":
        return max(FEWEST_PATIENTS, math.ceil(1.96**2 / 6 / max(1e-3, bound) ** 2))
    if name == "min_skill":  # the same of two judges, the better of whom has an AUC of 0.75
        return max(FEWEST_PATIENTS, math.ceil(1.96**2 / 6 / (0.25 * max(1e-2, 1 - bound)) ** 2))
    return FEWEST_PATIENTS


def as_json(made: Plan) -> Mapping[str, Any]:
    from dataclasses import asdict

    return asdict(made)
