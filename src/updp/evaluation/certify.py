"""`updp certify`: measure a method on a large cohort that trained neither it nor its packs, and sign what was found.

Films are sampled from one or more sources as for a bench: whole patients, those with several films first. Only patients
of the held-out part of each source take part; a patient of the training part of a pack would flatter every figure.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.core.policy import MethodPolicy
from updp.evaluation.cohort.sample import NoSample, Sample, exhibit_of, made_once, pack_for, probes_for, take_sample
from updp.evaluation.cohort.settings import Setting
from updp.evaluation.evaluate import budget_of, learned_in, run_probes
from updp.release.certificate import Certificate, Subject, write

if TYPE_CHECKING:
    from updp.core.keys import Key
    from updp.core.measurement import Measurement
    from updp.evaluation.probes.base import Probe

#: Shares of the patients that attackers and judges learn from, and that they are scored on.
SPLITS: Mapping[Any, float] = {"train": 0.6, "val": 0.13, "test": 0.27}
#: Decades of age that a cohort is described by.
DECADES = range(0, 100, 10)


def certify(
    sources: Sequence[Path],
    method: MethodPolicy,
    out: Path,
    *,
    key: Key,
    films: int = 2000,
    quick: bool = False,
    domain: str | None = None,
    seed: int = 0,
    today: dt.date | None = None,
    work: Path | None = None,
    probes: Sequence[Probe] | None = None,
    say: Callable[[str], None] = print,
) -> Certificate:
    """Measure ``method`` on ``films`` films of every source and write the signed certificate to ``out``.

    ``work`` keeps what was sampled, made and learned, so that a run that was cut off goes on.
    """
    from updp.evaluation.probes import PROBES
    from updp.methods import pack_of

    subject = Subject.of(method, domain)
    setting = Setting(method.name, tuple(sorted(method.options.items())), subject.strength)
    measured: list[Measurement] = []
    described: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = work or Path(scratch)
        for number, source in enumerate(sources):
            own = folder / f"source-{number}"
            sample = take_sample(source, films, splits=SPLITS, seed=seed, domain=domain, cache=own / "films")
            if domain not in (None, sample.domain.name):
                raise NoSample(f"a certificate is of one domain, but sources are of {domain} and {sample.domain.name}")
            domain = sample.domain.name
            say(f"{len(sample)} films of {len({s.patient_id for s in sample.studies})} patients")
            exhibit = exhibit_of(sample, made_once(sample, setting, seed, own / "made"))
            cache = learned_in(own / "learned")
            pack = pack_for(sample, pack_of(method.name, method.options, None))
            asked = probes_for(sample, list(PROBES)) if probes is None else probes
            measured += run_probes(exhibit, pack, budget_of(quick), seed, probes=asked, cache=cache)
            described.append(describe(sample))
    subject = replace(subject, domain=domain or subject.domain)
    made = Certificate(subject, today or dt.date.today(), merge(described), tuple(_plain(m) for m in measured))
    write(out, made, key)
    return made


def _plain(m: Measurement) -> Measurement:
    """A measurement without what only the hospital that measured it needs."""
    kept = ("unit", "patients_needed", "not_measured", "exemption", "probe")
    return replace(m, detail={name: m.detail[name] for name in kept if name in m.detail})


def describe(sample: Sample) -> dict[str, Any]:
    """A cohort in shares: views, findings, decades of age."""
    count = len(sample)
    views: Counter[str] = Counter(study.view or "not known" for study in sample.studies)
    findings = Counter(label for study in sample.studies for label in study.labels or ())
    known = sample.ages[~np.isnan(sample.ages)]
    ages = Counter(f"{min(int(age) // 10 * 10, DECADES[-1])}s" for age in known)
    return {
        "films": count,
        "patients": len({study.patient_id for study in sample.studies}),
        "views": _shares(views, count),
        "findings": _shares(findings, count),
        "ages": _shares(ages, len(known)),
    }


def _shares(counts: Counter[str], total: int) -> dict[str, float]:
    return {name: round(count / max(1, total), 4) for name, count in sorted(counts.items())}


def merge(cohorts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several cohorts as one, weighted by their films."""
    films = sum(c["films"] for c in cohorts)
    out: dict[str, Any] = {"films": films, "patients": sum(c["patients"] for c in cohorts), "sources": len(cohorts)}
    for kind in ("views", "findings", "ages"):
        names = sorted({name for c in cohorts for name in c[kind]})
        out[kind] = {
            name: round(sum(c["films"] * c[kind].get(name, 0.0) for c in cohorts) / max(1, films), 4) for name in names
        }
    return out
