"""`updp evaluate`: attack a release, measure its usefulness, decide, and write the evidence.

Attacks and measures run one by one and independently: one that fails leaves its question unanswered; the others still
run, and the release does not pass. What attackers learned is kept by content, so that for a second release of the same
source only what changed is computed. The evidence goes into the release, which is signed again under the name its
verdict gives it; a copy for the hospital (``out``) may show real films beside released ones and touches nothing.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.core.cache import Layered, MemoryCache, default_folder
from updp.core.global_state import quiet
from updp.core.keys import Key, default_path
from updp.core.measurement import Measurement, TooFewPatients
from updp.core.policy import Policy
from updp.core.questions import Outcome
from updp.core.storage import write_bytes
from updp.domains import domain_of
from updp.evaluation.cohort.describe import describe
from updp.evaluation.cohort.load import Case, NotComparable, load_case, private
from updp.release import certificate
from updp.release.assemble import located, restate
from updp.release.evidence import Content, judge_release
from updp.release.gate import Verdict
from updp.release.signature import content_sum

if TYPE_CHECKING:
    from updp.evaluation.apart import Apart
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.evaluation.probes.base import MethodUse, Probe
    from updp.models.pack import Pack

log = logging.getLogger("updp")

#: Called before each attack or measure with its name, how many are done, and how many there are.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Evaluation:
    """What was found about a release."""

    folder: Path  # the release under its new name, or where the hospital's copy went
    report: Path
    cache: Path  # real films, and what attackers learned from them
    facts: Mapping[str, Any]  # evaluation.json
    verdict: Verdict
    measurements: tuple[Measurement, ...]

    @property
    def status(self) -> str:
        return self.verdict.status

    @property
    def missing(self) -> tuple[Measurement, ...]:
        """What was not measured; each says why."""
        return tuple(m for m in self.measurements if not m.measured)


@quiet()
def evaluate(
    release: str | Path,
    source: str | Path,
    *,
    key: Key | str | Path | None = None,
    out: str | Path | None = None,
    pack: str | None = None,
    quick: bool = False,
    seed: int = 0,
    cache: str | Path | None = None,
    vault: str | Path | None = None,
    layout: str | None = None,
    frontier: Sequence[Mapping[str, Any]] = (),
    probes: Sequence[Probe] | None = None,
    progress: Progress | None = None,
    apart: Apart | None = None,
) -> Evaluation:
    """Run attacks on a release of ``source``, measure its usefulness, and decide whether it passes the gate.

    ``release`` is its folder, or the output of the run that made it.
    Without ``out`` the evidence is written into the release; the release is signed again and its folder is named after
    the verdict. With ``out`` the release is not changed and a report for the hospital is written there. ``pack`` is
    that of the release unless it is given. ``frontier`` are points of `updp tune` or `updp bench methods` to show
    beside this release. ``apart`` lets probes run in workers of an engine.
    """
    from updp.evaluation.probes import probes as find_probes
    from updp.methods import pack_of
    from updp.models import load_pack

    folder = located(Path(release).absolute())
    opened = key if isinstance(key, Key) else Key.load(Path(key) if key else default_path())
    target = None if out is None else _outside(Path(out).absolute(), folder, "out")
    store = default_folder() if cache is None else _outside(Path(cache).absolute(), folder, "cache")
    case = load_case(
        folder, Path(source), opened, vault=Path(vault) if vault else None, layout=layout, cache=store / "films"
    )
    domain = domain_of(case.policy)
    own = pack or pack_of(case.policy.method.name, case.policy.method.options, domain.pack)
    models = None if own is None else load_pack(own)
    budget = budget_of(quick)
    measured = run_probes(
        case.exhibit,
        models,
        budget,
        seed,
        probes=find_probes(domain.probes, quick=quick) if probes is None else probes,
        cache=learned_in(store / "learned"),
        progress=progress,
        method=method_use(case.policy),
        apart=apart,
    )
    facts, verdict = judge_case(case, measured, models, budget, quick, seed, frontier)
    return _written(case, facts, verdict, measured, opened, target, store)


def method_use(policy: Policy) -> MethodUse:
    """How the films of a release were made, for probes that know the method."""
    from updp.evaluation.probes.base import MethodUse
    from updp.methods import method_info

    method = policy.method
    info = method_info(method.name)
    return MethodUse(method.name, method.options, method.strength, info.learned_from_images, info.needs)


def budget_of(quick: bool) -> Any:
    from updp.evaluation.probes.base import Budget

    return Budget.quick() if quick else Budget.full()


def learned_in(folder: Path) -> Any:
    from updp.core.cache import FolderCache

    private(folder)
    return FolderCache(folder)


def _outside(place: Path, release: Path, option: str) -> Path:
    resolved = place.resolve()
    if resolved == release.resolve() or release.resolve() in resolved.parents:
        raise NotComparable(f"real films may not lie inside the release; choose another --{option}")
    return place


def run_probes(
    exhibit: Exhibit,
    pack: Pack | None,
    budget: Any,
    seed: int,
    *,
    probes: Iterable[Probe] | None = None,
    cache: Any = None,
    progress: Progress | None = None,
    method: MethodUse | None = None,
    apart: Apart | None = None,
) -> tuple[Measurement, ...]:
    """Every measurement of every probe, each marked with its question and the probe that made it.

    A probe has a random stream of its own, named after it: leaving one out changes no figure of another, and neither
    does running some at the same time (``apart``, with a cache in a folder).
    """
    from updp.evaluation.probes import probes as find_probes

    todo = list(find_probes() if probes is None else probes)
    found: list[list[Measurement]] = [[] for _ in todo]
    if apart is None:
        shared = Layered(MemoryCache(), cache)  # a network runs once per film, for all probes
        for done, probe in enumerate(todo):
            if progress:
                progress(probe.name, done, len(todo))
            found[done] = _run(probe, exhibit, pack, budget, seed, shared, method)
    else:
        from updp.evaluation.apart import run_apart

        ended = run_apart(_run, todo, exhibit, pack, budget, seed, cache, method, apart)
        for done, (place, measured) in enumerate(ended):
            if progress:
                progress(todo[place].name, done, len(todo))
            lost = Measurement.missing(todo[place].name, "its worker died", detail={"failed": True})
            found[place] = [lost] if measured is None else measured
    if progress:
        progress("", len(todo), len(todo))
    return tuple(
        replace(m, question=m.question or probe.question, detail={**m.detail, "probe": probe.name})
        for probe, measured in zip(todo, found, strict=True)
        for m in measured
    )


def _run(
    probe: Probe, exhibit: Exhibit, pack: Pack | None, budget: Any, seed: int, cache: Any, method: MethodUse | None
) -> list[Measurement]:
    digest = hashlib.sha256(probe.name.encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest[:8], "big")])
    try:
        return probe.run(exhibit, pack, budget, rng, cache=cache, method=method)
    except TooFewPatients as few:
        return [Measurement.missing(probe.name, str(few), n=few.have, detail={"patients_needed": few.need})]
    except Exception as error:  # its message may quote the data; its type does not
        from updp.pipeline.stations import whereabouts

        log.debug("%s: %s", probe.name, whereabouts(error))
        return [Measurement.missing(probe.name, f"it failed ({type(error).__name__})", detail={"failed": True})]


def judge_case(
    case: Case,
    measured: Sequence[Measurement],
    pack: Pack | None,
    budget: Any,
    quick: bool,
    seed: int,
    frontier: Sequence[Mapping[str, Any]] = (),
) -> tuple[dict[str, Any], Verdict]:
    """The release's facts with the evidence in them, and the verdict on it."""
    from updp.core import version
    from updp.evaluation.probes import PROBES

    counts = case.facts["counts"]
    tallies = case.facts["tallies"]
    certified = certificate.find(case.policy, dt.date.today())
    content = Content(counts["released"], tallies.get("reports", 0), disjoint=True)
    patients = len(set(case.exhibit.patients[~case.exhibit.kept_back].tolist()))
    kept_back = sum(counts["quarantined"].values())
    verdict = judge_release(case.policy, content, kept_back, tallies, measured, certified.proofs, patients)
    exhibit = case.exhibit
    rows = {split: (exhibit.splits == split) & ~exhibit.kept_back for split in ("train", "val", "test")}
    facts = {name: value for name, value in case.facts.items() if name not in ("verification", "sweep")}
    facts |= {
        "updp": version.__version__,
        "measurements": [m.to_json() for m in measured],
        "gate": verdict.to_json(),
        **certified.to_json(),
        "unlike_the_cohort": unlike(certified.signed, exhibit),
        "frontier": [dict(point) for point in frontier],
        "evaluation": {
            "quick": quick,
            "seed": seed,
            "budget": _plain_budget(budget),
            "pack": pack_facts(pack),
            "manifest_sha256": case.manifest,
            "content_sha256": content_sum(case.release),
            "films": {split: int(own.sum()) for split, own in rows.items()},
            "patients": {split: len(set(exhibit.patients[own].tolist())) for split, own in rows.items()},
            "labels": labels_told(exhibit),
            "kept_back": int(exhibit.kept_back.sum()),  # by the method; real films that judges learned from too
            "left_out": [
                *left_out(budget),
                *(f"{name}: {Outcome.NOT_ASKED}" for name, probe in PROBES.members() if quick and not probe.quick),
            ],
            "versions": {"updp": version.__version__, **{name: metadata.version(name) for name in ("numpy", "torch")}},
        },
    }
    return facts, verdict


def labels_told(exhibit: Exhibit) -> dict[str, int]:
    """How many films have labels of the source, how many derived ones, and how many none."""
    known = ~np.isnan(exhibit.labels).all(axis=1)
    counts = {"given": known & ~exhibit.derived, "derived": known & exhibit.derived, "none": ~known}
    return {name: int(rows.sum()) for name, rows in counts.items()}


def unlike(signed: Iterable[Mapping[str, Any]], exhibit: Exhibit) -> list[str]:
    """Where the released films are unlike the cohorts of the certificates that answer for them."""
    released = describe(exhibit.take(~exhibit.kept_back))
    cohorts = [one["certificate"]["cohort"] for one in signed]
    return list(dict.fromkeys(words for cohort in cohorts for words in certificate.differences(cohort, released)))


#: What a smaller budget leaves out, in words.
SAVINGS = {
    "steps": "optimiser steps of the trained Siamese attacker and of trained judges",
    "films": "films attacked",
    "pairs": "pairs of different patients",
    "draws": "bootstrap draws behind an interval",
    "sizes": "points of the attacker-size curve",
    "galleries": "points of the gallery-size curve",
    "networks": "further networks that attackers use",
    "noise_levels": "noise levels of the membership attack",
    "members": "films of the membership attack",
    "again": "films that the attacker puts through the method itself",
    "rebuilt": "films of the reconstruction attack",
}


def left_out(budget: Any) -> list[str]:
    """What this budget spends less on than a full one."""
    try:
        full, own = _plain_budget(budget_of(False)), _plain_budget(budget)
    except TypeError:
        return []
    out = []
    for name, most in full.items():
        have = own.get(name)
        if have == most:
            continue
        shown = [len(v) if isinstance(v, list | tuple) else v for v in (have, most)]
        out.append(f"{SAVINGS.get(name, name)}: {shown[0] or 'none'} instead of {shown[1]}")
    return out


def _plain_budget(budget: Any) -> dict[str, Any]:
    return asdict(budget) if is_dataclass(budget) and not isinstance(budget, type) else dict(vars(budget))


def pack_facts(pack: Pack | None) -> dict[str, str] | None:
    """Which models were used, as evidence names them."""
    return None if pack is None else {"name": pack.name, "sha256": pack.digest}


def _written(
    case: Case,
    facts: dict[str, Any],
    verdict: Verdict,
    measured: tuple[Measurement, ...],
    key: Key,
    target: Path | None,
    cache: Path,
) -> Evaluation:
    from updp.evaluation.report import page, sheet

    if target is None:
        policy = case.policy.public()
        made = page(facts, policy, films=sheet(case.exhibit, real=False))
        folder = restate(case.release, facts, policy, key, made, dt.date.today())
        report = folder / "evidence" / "report.html"
    else:
        private(target)
        made = page(facts, case.policy, films=sheet(case.exhibit, real=True))
        folder, report = target, target / "report.html"
        text = json.dumps(facts, indent=2, sort_keys=True) + "\n"
        write_bytes(target / "evaluation.json", text.encode(), mode=0o600)
        write_bytes(report, made.encode(), mode=0o600)
    return Evaluation(folder, report, cache, facts, verdict, measured)
