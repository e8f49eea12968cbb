"""Films of a source under a method at some strength, without making a release: what `tune` and `bench` measure.

Films pass the stations of a release up to the method (burned-in text aside, which the caller's policy decides), so a
method sees what it would see in a run. Patients come whole, those with several films first: linkage needs two films of
one patient. What a method made of the sample is kept in one file, so that a long bench can be cut off and resumed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import FolderCache, kept_once
from updp.core.global_state import quiet
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.reasons import Refused
from updp.core.record import BENCHMARK_KEY, Report, Split, Study, split_of
from updp.domains.base import Domain
from updp.evaluation.cohort.exhibit import Exhibit
from updp.evaluation.cohort.load import decode_films, label_matrix
from updp.evaluation.cohort.settings import CONTROLS, Setting
from updp.imaging.grey import grey8
from updp.imaging.square import square
from updp.methods import make_method, packs_of
from updp.pipeline import stations
from updp.sources import open_source

if TYPE_CHECKING:
    from updp.evaluation.probes.base import Probe
    from updp.models.pack import Pack

#: Most films one patient brings: a patient with seventy films would be half of the sample.
PER_PATIENT = 10
#: Films given to a method at a time, and films kept at a time.
_BATCH, _KEPT = 32, 96
#: The stations need a key. Nothing leaves here, so it is the public one of the benchmarks, and so are the splits.
PUBLIC_KEY = Key(hashlib.sha256(BENCHMARK_KEY).digest())
#: Films as they are read: burned-in text has a benchmark of its own.
PLAIN = Policy.model_validate({"burned_in": {"mode": "off"}})


#: Gives the split of a study of a layout; None leaves it out.
Place = Callable[[Study, str], Split | None]


def public_place(study: Study, layout: str) -> Split:
    """The split of the source, else by the benchmark key."""
    return study.split or split_of(study.patient_id, BENCHMARK_KEY)


class NoSample(ValueError):
    """The source cannot be sampled; the message says why."""


@dataclass(frozen=True)
class Sample:
    """Films of a source, ready for a method."""

    studies: list[Study]  # cleaned and under pseudonyms, without pixels
    real: NDArray[np.uint8]
    real_texts: list[str]
    released_texts: list[str]
    ages: NDArray[np.float32]
    sexes: NDArray[np.str_]
    digest: str  # of everything above
    domain: Domain

    def __len__(self) -> int:
        return len(self.studies)


@dataclass(frozen=True)
class Made:
    """What a method made of a sample."""

    films: NDArray[np.uint8]  # one per row of the sample; black where the method kept the film back
    kept: NDArray[np.bool_]
    seconds: float  # per film, wall time
    origin: str = ""  # digest of what it came from: the sample, the seed, the weights

    @property
    def kept_back(self) -> int:
        return int(np.count_nonzero(~self.kept))


@quiet()
def take_sample(
    source: Path,
    films: int,
    *,
    splits: Mapping[Split, float],
    policy: Policy = PLAIN,
    seed: int = 0,
    layout: str | None = None,
    domain: str | None = None,
    cache: Path,
    place: Place | None = None,
    per_patient: int = PER_PATIENT,
) -> Sample:
    """About ``films`` films of whole patients, shared between splits as ``splits`` says.

    ``domain`` is that of the source's layout unless it is given. ``place`` gives the split of a study of a layout, or
    None to leave it out; without it a study falls where its source says, else by the benchmark key.
    """
    image = policy.image
    opened = open_source(
        source, layout, domain=domain, frontal_only=True, max_pixels=image.max_pixels, min_side=image.min_side
    )
    found = (item for item in opened if isinstance(item, Study) and item.path is not None)
    placed = [study.but(split=(place or public_place)(study, opened.layout)) for study in found]
    chosen = choose(placed, films, splits, seed, per_patient)
    if not chosen:
        raise NoSample("the source has no film of the splits asked for")
    line = stations.build(opened, policy, PUBLIC_KEY)
    kept: list[tuple[Study, str]] = []
    pixels: list[NDArray[np.uint8]] = []
    for study in chosen:
        try:
            text = opened.load_report(study).report if hasattr(opened, "load_report") else study.report
        except Refused:
            text = None
        passed = stations.passage(study, line)
        if isinstance(passed, Study) and passed.pixels is not None:
            pixels.append(grey8(passed.pixels))
            kept.append((passed.but(pixels=None, header=None), text.text(policy.report.sections) if text else ""))
    if not kept:
        raise NoSample("none of the sampled films can be read")
    studies = [cleaned for cleaned, _ in kept]
    ids = "\n".join(study.film_id for study in studies)
    what = ("sample", ids, image.side, image.fit, _sum(pixels))
    real = decode_films(cache, what, len(kept), pixels[0].shape, lambda: iter(pixels))
    return Sample(
        studies=studies,
        real=real,
        real_texts=[text for _, text in kept],
        released_texts=[s.report.text(policy.report.sections) if s.report else "" for s in studies],
        ages=np.array([np.nan if s.age is None else s.age for s in studies], np.float32),
        sexes=np.array([s.sex or "" for s in studies]),
        digest=hashlib.sha256(f"{ids}\0{_sum(pixels)}".encode()).hexdigest(),
        domain=opened.domain,
    )


def _sum(pixels: Sequence[NDArray[np.uint8]]) -> str:
    running = hashlib.sha256()
    for one in pixels:
        running.update(np.ascontiguousarray(one).tobytes())
    return running.hexdigest()


def choose(
    studies: Sequence[Study], films: int, splits: Mapping[Split, float], seed: int, most: int = PER_PATIENT
) -> list[Study]:
    """Patients of each split up to its share of ``films``, those with several films first, at most so many of one."""
    out: list[Study] = []
    for split, share in splits.items():
        by_patient: dict[str, list[Study]] = {}
        for study in studies:
            if study.split == split:
                by_patient.setdefault(study.patient_id, []).append(study)
        order = sorted(by_patient.items(), key=lambda item: (len(item[1]) < 2, _place(seed, item[0])))
        room = round(films * share)
        for _, own in order:
            if room <= 0:
                break
            out += own[: min(most, room)]
            room -= min(most, len(own), room)
    return out


def _place(seed: int, patient: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{patient}".encode()).digest()


# -- methods ---------------------------------------------------------------------------------------------------------


def make(sample: Sample, setting: Setting, seed: int, rows: range | None = None) -> Made:
    """A method's films of a sample or of these rows of it, in batches."""
    method = make_method(setting.name, dict(setting.options), sample.domain.name)
    rows = range(len(sample)) if rows is None else rows
    out = np.zeros((len(rows), *sample.real.shape[1:]), np.uint8)
    kept = np.zeros(len(rows), bool)
    start = time.perf_counter()
    for first in range(rows.start, rows.stop, _BATCH):
        some = range(first, min(first + _BATCH, rows.stop))
        batch = [sample.studies[i].but(pixels=sample.real[i].astype(np.float32) / 255) for i in some]
        if getattr(method, "baseline_of_raw_reports", False):  # nothing of it leaves a bench
            batch = [
                study.but(report=Report({"findings": sample.real_texts[i]})) if sample.real_texts[i] else study
                for i, study in zip(some, batch, strict=True)
            ]
        streams = [PUBLIC_KEY.rng("film", study.film_id, str(seed)) for study in batch]
        for i, done in zip(some, method.deidentify(batch, setting.strength, streams), strict=True):
            if done.pixels is not None and done.refused is None:
                out[i - rows.start] = grey8(square(done.pixels, out.shape[1], "stretch"))
                kept[i - rows.start] = True
    return Made(out, kept, (time.perf_counter() - start) / max(1, len(rows)), origin(sample, setting, seed))


def control(sample: Sample, name: str, seed: int) -> Made:
    """A release whose answer is known: noise, films of other patients, or noise with every third patient untouched."""
    rng = np.random.default_rng([seed, CONTROLS.index(name)])
    if name == "shuffled":
        films = sample.real[rng.permutation(len(sample))]
    else:
        films = rng.integers(0, 256, sample.real.shape, dtype=np.uint8)
    if name == "planted":
        patients = np.array([study.patient_id for study in sample.studies])
        third = np.searchsorted(np.unique(patients), patients) % 3 == 0
        films[third] = sample.real[third]
    digest = hashlib.sha256(f"{name}\0{seed}\0{sample.digest}".encode()).hexdigest()
    return Made(films, np.ones(len(sample), bool), 0.0, digest)


def origin(sample: Sample, setting: Setting, seed: int) -> str:
    """A digest of all that decides what a method makes of a sample: weights that were trained further are another
    method."""
    from updp.core import version
    from updp.models import load_pack

    method = make_method(setting.name, dict(setting.options), sample.domain.name)
    digests = [load_pack(name, verify=False).digest for name in packs_of(method).values()]
    whole = [version.__version__, sample.digest, str(seed), setting.label, *digests]
    return hashlib.sha256("\0".join(whole).encode()).hexdigest()


def made_once(
    sample: Sample, setting: Setting, seed: int, folder: Path, say: Callable[[int, int], None] | None = None
) -> Made:
    """``make``, or what an earlier call with the same sample and weights left in ``folder``; a control by its name.

    Films are kept some at a time, so that a run that was cut off goes on where it was.
    """
    if setting.name in CONTROLS:
        return control(sample, setting.name, seed)
    came = origin(sample, setting, seed)
    parts: list[Mapping[str, NDArray[Any]]] = []
    for first in range(0, len(sample), _KEPT):
        rows = range(first, min(first + _KEPT, len(sample)))

        def compute(rows: range = rows) -> dict[str, NDArray[Any]]:
            done = make(sample, setting, seed, rows)
            return {"films": done.films, "kept": done.kept, "seconds": np.array(done.seconds * len(rows))}

        parts.append(kept_once(FolderCache(folder), f"{came}-{first}", compute))
        if say:
            say(rows.stop, len(sample))
    films, kept = (np.concatenate([part[name] for part in parts]) for name in ("films", "kept"))
    seconds = sum(float(part["seconds"]) for part in parts) / len(sample)
    return Made(films, kept, seconds, came)


def exhibit_of(sample: Sample, made: Made) -> Exhibit:
    """The sample beside what a method made of it."""
    return Exhibit(
        real=sample.real,
        released=made.films,
        patients=np.array([study.patient_id for study in sample.studies]),
        splits=np.array([study.split or "train" for study in sample.studies]),
        views=np.array([study.view or "" for study in sample.studies]),
        labels=label_matrix(sample.studies, sample.real_texts, sample.domain),
        classes=sample.domain.labels.classes,
        ages=sample.ages,
        sexes=sample.sexes,
        real_texts=sample.real_texts,
        released_texts=[text if kept else "" for text, kept in zip(sample.released_texts, made.kept, strict=True)],
        kept_back=~made.kept,
    )


def pack_for(sample: Sample, given: str | None) -> Pack | None:
    """The models that attackers and judges of a sample use: the given pack, else that of the domain, if it has one."""
    from updp.models import load_pack

    name = given or sample.domain.pack
    return None if name is None else load_pack(name)


def probes_for(sample: Sample, names: Sequence[str]) -> list[Probe]:
    """The probes of these names; all its own for a domain that has probes of its own."""
    from updp.evaluation.probes import probes

    return probes(names if sample.domain.probes is None else sample.domain.probes)
