"""`updp certify`: measure a method on a large cohort that trained neither it nor its packs, and sign what was found.

Films are sampled from one or more sources as for a bench: whole patients, those with several films first. Patients who
trained the method's packs or those of the attackers have no part: every figure would be too good with them. The list of
training films that a pack brings is searched for every sampled film, so that a copy of a public set under another name
is found out.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.core.policy import MethodPolicy, Policy
from updp.domains import DOMAINS
from updp.evaluation.cohort.describe import describe, merge
from updp.evaluation.cohort.sample import NoSample, exhibit_of, made_once, pack_for, probes_for, take_sample
from updp.evaluation.cohort.settings import Setting
from updp.evaluation.cohort.unseen import unseen
from updp.evaluation.evaluate import budget_of, learned_in, method_use, run_probes
from updp.release.certificate import Certificate, Subject, write

if TYPE_CHECKING:
    from updp.core.keys import Key
    from updp.core.measurement import Measurement
    from updp.evaluation.apart import Apart
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.evaluation.probes.base import Probe
    from updp.models.pack import Pack

#: Shares of the patients that attackers and judges learn from, and that they are scored on.
SPLITS: Mapping[Any, float] = {"train": 0.6, "val": 0.13, "test": 0.27}
#: What is a property of the method and not of one release: its films, what it learned from, what its films teach.
PROBES = ("film", "membership", "diagnosis", "other judges")


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
    apart: Apart | None = None,
    say: Callable[[str], None] = print,
) -> Certificate:
    """Measure ``method`` on ``films`` films of every source and write the signed certificate to ``out``.

    ``work`` keeps what was sampled, made and learned, so that a run that was cut off goes on. ``apart`` lets probes run
    in workers of an engine; on a cluster ``work`` is a folder that every node has.
    """
    from updp.methods import make_method, pack_of, packs_of
    from updp.models import load_pack

    subject = Subject.of(method, domain)
    judges = DOMAINS[subject.domain].pack
    used = {*packs_of(make_method(method.name, method.options)).values(), *([judges] if judges else [])}
    place = unseen([load_pack(name, verify=False) for name in sorted(used)])
    setting = Setting(method.name, tuple(sorted(method.options.items())), subject.strength)
    measured: list[Measurement] = []
    described: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = work or Path(scratch)
        for number, source in enumerate(sources):
            own = folder / f"source-{number}"
            sample = take_sample(
                source, films, splits=SPLITS, seed=seed, domain=domain, cache=own / "films", place=place
            )
            if domain not in (None, sample.domain.name):
                raise NoSample(f"a certificate is of one domain, but sources are of {domain} and {sample.domain.name}")
            domain = sample.domain.name
            say(f"{len(sample)} films of {len({s.patient_id for s in sample.studies})} patients")
            exhibit = exhibit_of(sample, made_once(sample, setting, seed, own / "made"))
            cache = learned_in(own / "learned")
            pack = pack_for(sample, pack_of(method.name, method.options, None))
            if pack is not None:
                refuse_seen(exhibit, pack, cache)
            asked = probes_for(sample, PROBES) if probes is None else probes
            budget = budget_of(quick).but(films=len(exhibit))
            use = method_use(Policy(method=method))
            measured += run_probes(exhibit, pack, budget, seed, probes=asked, cache=cache, method=use, apart=apart)
            described.append(describe(exhibit))
    subject = replace(subject, domain=domain or subject.domain)
    cohort = merge(described) | {"quick": quick, "seed": seed}
    made = Certificate(subject, today or dt.date.today(), cohort, tuple(_plain(m) for m in measured))
    write(out, made, key)
    return made


class SeenPatients(ValueError):
    """Films of the cohort trained the models that are to be certified."""


def refuse_seen(exhibit: Exhibit, pack: Pack, cache: Any) -> None:
    """Refuse a cohort with films from the pack's list of training films, whatever name the source goes by."""
    from updp.evaluation.probes.attacks.features import encode_films
    from updp.evaluation.probes.attacks.membership import SAME_FILM, nearest, training_codes

    codes = training_codes(pack)
    if codes is None:
        return
    seen = (
        nearest(encode_films(exhibit.real, pack, "identity", cache)["embedded"].astype(np.float32), codes) >= SAME_FILM
    )
    if count := int(seen.sum()):
        raise SeenPatients(f"{count} of {len(seen)} films trained the pack {pack.name}: certify on other patients")


def _plain(m: Measurement) -> Measurement:
    """A measurement without what only the hospital that measured it needs."""
    kept = ("unit", "patients_needed", "not_measured", "exemption", "probe", "folds", "judges", "judges_start_from")
    return replace(m, detail={name: m.detail[name] for name in kept if name in m.detail})
