"""What attacks and measures of utility share: one base class, what a probe may spend, its films, pairs and curves.

``Probe.run`` takes the films within the budget, gives every probe its seed, threads and cache, and marks what it found
with its question. A subclass writes ``measure``. See ``updp.evaluation.probes`` for how one is added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, MemoryCache
from updp.core.global_state import limited
from updp.core.measurement import FEWEST_PATIENTS, Better, Measurement
from updp.core.threads import threads

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.evaluation.probes.attacks.features import Features
    from updp.models.pack import Pack

#: Splits whose patients no attacker learned from.
SCORED = ("val", "test")
#: Points kept of a curve that is only drawn.
POINTS = 60
#: Attackers whose largest max(AUC, 1−AUC) is the strongest linkage; its interval is widened for so many (Bonferroni).
CONTENDERS = ("A1", "A2", "A3", "A2 own film", "A3 own film", "A4", "A4 own film")


@dataclass(frozen=True)
class Budget:
    """How much an attacker may spend. What a smaller budget leaves out is missing with that reason, not guessed."""

    steps: int = 120  # optimiser steps of the Siamese net, each view; 0 leaves the net out
    batch: int = 48  # films of one step
    films: int = 4000  # most films attacked: more are left out, whole patients at a time
    pairs: int = 40_000  # most pairs of different patients in the all-pairs protocol
    per_patient: int = 10  # most same-patient pairs one patient brings to the balanced protocol
    draws: int = 1000  # bootstrap draws behind an interval
    sizes: tuple[float, ...] = (0.125, 0.25, 0.5, 1.0)  # shares of the training patients of the attacker-size curve
    galleries: tuple[int, ...] = (10, 25, 50, 100, 200, 400)  # patients of the gallery-size curve
    patients: int = 50  # N of the N-patient classifier
    #: Used beside the identity network: roles of the pack, and networks trained on no film.
    networks: tuple[str, ...] = ("vlm", "classifier", "imagenet", "alexnet")
    noise_levels: int = 3  # noise levels at which the generator is asked about a film
    members: int = 150  # most members, and most non-members, of membership inference
    again: int = 300  # most films that A3 puts through a method with networks itself; 0: it runs no method
    rebuilt: int = 400  # most films rebuilt by the reconstruction attack; 0 leaves it out
    threads: int = field(default_factory=threads)  # of the linear algebra

    @classmethod
    def full(cls) -> Budget:
        return cls()

    @classmethod
    def quick(cls) -> Budget:
        """For a first estimate: fewer films, no trained net, no reconstruction."""
        return cls(
            steps=0,
            films=900,
            pairs=10_000,
            draws=300,
            sizes=(0.5, 1.0),
            galleries=(25, 100),
            networks=("imagenet",),
            noise_levels=2,
            members=60,
            again=0,
            rebuilt=0,
        )

    def but(self, **changes: Any) -> Budget:
        return replace(self, **changes)


#: Released with real films: another film of the patient, the very film a released one was made from; or released films
#: among themselves.
PairKind = Literal["another film", "own film", "released-released"]


@dataclass(frozen=True)
class MethodUse:
    """How the released films were made, and what the method says of itself."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    strength: float | None = None
    learned_from_images: bool = True
    roles: frozenset[str] = frozenset()  # of the model pack that it uses


class Inquiry:
    """What one probe works with. Everything is computed when first asked for.

    ``whole`` is the exhibit as given, ``originals`` whole patients of it within the budget, ``exhibit`` those of them
    that have a released counterpart.
    """

    def __init__(
        self,
        whole: Exhibit,
        pack: Pack | None,
        budget: Budget,
        seed: int,
        cache: Cache | None = None,
        method: MethodUse | None = None,
    ) -> None:
        self.whole, self._pack, self.budget, self.seed, self.method = whole, pack, budget, seed, method
        self.cache: Cache = MemoryCache() if cache is None else cache

    @property
    def pack(self) -> Pack:
        if self._pack is None:
            raise ValueError("this probe needs a model pack, and neither the method nor the domain has one")
        return self._pack

    @property
    def has_pack(self) -> bool:
        return self._pack is not None

    @cached_property
    def originals(self) -> Exhibit:
        return within(self.whole, self.budget.films)

    @cached_property
    def exhibit(self) -> Exhibit:
        return self.originals.paired

    @cached_property
    def features(self) -> Features:
        """Features of the films, for attackers."""
        return self.features_of(self.originals)

    def features_of(self, originals: Exhibit) -> Features:
        from updp.evaluation.probes.attacks.features import Features

        again = self.made_again if originals.real is self.originals.real else None
        return Features(originals, self.pack, self.budget, self.cache, again)

    @cached_property
    def made_again(self) -> dict[str, NDArray[Any]] | None:
        """Films that the attacker puts through the method itself."""
        from updp.evaluation.probes.attacks.oracle import made_again

        return made_again(self.exhibit, self.method, self.budget.again, self.cache)

    @property
    def rng(self) -> np.random.Generator:
        """A fresh stream from the probe's seed."""
        return np.random.default_rng(self.seed)

    @cached_property
    def scored(self) -> NDArray[np.int64]:
        """Rows of the exhibit whose patients no attacker learned from."""
        return self.exhibit.rows(*SCORED)

    @cached_property
    def patient_rows(self) -> list[NDArray[np.intp]]:
        """The scored rows of each patient."""
        return by_patient(self.exhibit.patients, self.scored)

    @property
    def several(self) -> int:
        """Scored patients with two films or more."""
        return sum(len(films) > 1 for films in self.patient_rows)

    def pairs(self, kind: PairKind, rows: NDArray[Any] | None = None) -> Pairs:
        """As many pairs of one patient as of two, among the scored rows or these."""
        patients, most = self.exhibit.patients, self.budget.per_patient
        rows = self.scored if rows is None else rows
        rng = np.random.default_rng([self.seed, *kind.encode()])
        if kind == "own film":
            return own_pairs(patients, rows, rng, most)
        return balanced_pairs(patients, rows, rng, most, ordered=kind == "another film")


class Probe(ABC):
    """An attack or a measure of utility: it answers one question about a release.

    It learns from the train split of an exhibit and is measured on the patients of the others.
    """

    name: ClassVar[str]
    question: ClassVar[str]  # an id in ``updp.core.questions``
    quick: ClassVar[bool] = True  # whether a quick evaluation asks it
    by_name: ClassVar[bool] = False  # asked only where it is named
    domains: ClassVar[tuple[str, ...]] = ()  # that it is made for; () is for every one

    def run(
        self,
        exhibit: Exhibit,
        pack: Pack | None,
        budget: Budget,
        rng: np.random.Generator,
        cache: Cache | None = None,
        method: MethodUse | None = None,
    ) -> list[Measurement]:
        """Every figure, and every one that could not be had with the reason."""
        inquiry = Inquiry(exhibit, pack, budget, int(rng.integers(2**31)), cache, method)
        with limited(budget.threads):
            found = self.measure(inquiry)
        return [
            replace(m, question=m.question or self.question, seed=inquiry.seed if m.seed is None else m.seed)
            for m in found
        ]

    @abstractmethod
    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        """What this probe finds."""


def within(exhibit: Exhibit, most: int) -> Exhibit:
    """The exhibit, or whole patients of it with at most about ``most`` films; the choice depends on its rows alone.

    Patients with several films are kept first, those of one film fill up; the shares of the splits stay as they are.
    """
    if len(exhibit) <= most:
        return exhibit
    rng = np.random.default_rng(len(exhibit))
    kept: list[NDArray[np.intp]] = []
    for splits in (("train",), SCORED):
        rows = exhibit.rows(*splits)
        quota = most * len(rows) / len(exhibit)
        patient_rows = by_patient(exhibit.patients, rows)
        order = rng.permutation(len(patient_rows))
        films = [patient_rows[i] for i in sorted(order, key=lambda i: len(patient_rows[i]) < 2)]
        taken = 0
        for own in films:
            # No patient takes more than a fiftieth of the room: many patients give more information than many films of
            # one.
            own = own[: max(4, int(quota / 50))]
            if taken + len(own) > quota:
                break
            kept.append(own)
            taken += len(own)
    return exhibit.take(np.sort(np.concatenate(kept))) if kept else exhibit


def cross_fit(originals: Exhibit, seed: int, enough: int, parts: int = 3) -> list[Exhibit]:
    """The exhibit as it is split, or, where fewer than ``enough`` patients would be scored, once for each part of the
    patients, who are scored by what learned from the others."""
    if len({*originals.patients[originals.rows(*SCORED)].tolist()}) >= enough:
        return [originals]
    patients = np.unique(originals.patients)
    part = np.random.default_rng(seed).permutation(len(patients)) % parts
    place = part[np.searchsorted(patients, originals.patients)]
    return [originals.but(splits=np.where(place == k, "test", "train")) for k in range(parts)]


def by_patient(patients: NDArray[np.str_], rows: NDArray[Any]) -> list[NDArray[np.intp]]:
    """The rows of each patient, patients in order of their name."""
    own = patients[rows]
    order = np.argsort(own, kind="stable")
    _, starts = np.unique(own[order], return_index=True)
    return [np.asarray(rows)[part].astype(np.intp) for part in np.split(order, starts[1:])] if len(rows) else []


class Pairs(NamedTuple):
    """Rows of a probe (released) and of a candidate film, and whether they are of one patient."""

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    same: NDArray[np.bool_]


def balanced_pairs(
    patients: NDArray[np.str_], rows: NDArray[Any], rng: np.random.Generator, most: int, ordered: bool
) -> Pairs:
    """PriCheXy's protocol: as many pairs of different patients as of the same; never a film with itself.

    At most ``most`` pairs per patient, or the patient with seventy films would be half of the figure. ``ordered`` pairs
    count both ways round, since probe and candidate come from different sides.
    """
    patient_rows = by_patient(patients, rows)
    left: list[int] = []
    right: list[int] = []
    for films in patient_rows:
        found = [(a, b) for i, a in enumerate(films) for b in films[i + 1 :]]
        if ordered:
            found += [(b, a) for a, b in found]
        for place in rng.permutation(len(found))[:most]:
            left.append(int(found[place][0]))
            right.append(int(found[place][1]))
    count = len(left)
    if len(patient_rows) > 1:
        # The probes stay the same, so that no patient is favoured on either side of the comparison.
        where = {int(row): i for i, films in enumerate(patient_rows) for row in films}
        for probe in left[:count]:
            other = int(rng.integers(len(patient_rows) - 1))
            films = patient_rows[other + (other >= where[probe])]
            left.append(probe)
            right.append(int(rng.choice(films)))
    same = np.arange(len(left)) < count
    return Pairs(np.array(left, np.intp), np.array(right, np.intp), same)


def own_pairs(patients: NDArray[np.str_], rows: NDArray[Any], rng: np.random.Generator, most: int) -> Pairs:
    """Each released film with the real film it was made from, and with one of another patient."""
    patient_rows = by_patient(patients, rows)
    own = [int(row) for films in patient_rows for row in rng.permutation(films)[:most]]
    where = {int(row): i for i, films in enumerate(patient_rows) for row in films}
    others: list[int] = []
    if len(patient_rows) > 1:
        for row in own:
            place = int(rng.integers(len(patient_rows) - 1))
            others.append(int(rng.choice(patient_rows[place + (place >= where[row])])))
    left = np.array(own + own[: len(others)], np.intp)
    return Pairs(left, np.array(own + others, np.intp), np.arange(len(left)) < len(own))


def all_pairs(
    patients: NDArray[np.str_], rows: NDArray[Any], rng: np.random.Generator, most: int, ordered: bool
) -> Pairs:
    """Every pair of two films; of the pairs of different patients ``most`` drawn at random where there are more."""
    rows = np.asarray(rows)
    a, b = np.triu_indices(len(rows), 1)
    if ordered:
        a, b = np.concatenate([a, b]), np.concatenate([b, a])
    left, right = rows[a].astype(np.intp), rows[b].astype(np.intp)
    same = patients[left] == patients[right]
    kept, different = np.flatnonzero(same), np.flatnonzero(~same)
    if len(kept) > most // 2:
        kept = np.sort(rng.choice(kept, most // 2, replace=False))
    if len(different) > most:
        different = np.sort(rng.choice(different, most, replace=False))
    chosen = np.concatenate([kept, different])
    return Pairs(left[chosen], right[chosen], same[chosen])


def roc_points(same: NDArray[np.bool_], scores: NDArray[Any], most: int = POINTS) -> list[list[float]]:
    """[false-positive rate, true-positive rate] along the ROC curve, thinned for drawing."""
    order = np.argsort(-scores, kind="stable")
    hits, score = same[order], scores[order]
    last = np.r_[score[1:] != score[:-1], True]
    tpr = np.r_[0.0, np.cumsum(hits)[last] / max(1, hits.sum())]
    fpr = np.r_[0.0, np.cumsum(~hits)[last] / max(1, (~hits).sum())]
    # Half of the points where the curve is steep: low false-positive rates decide about linkage.
    wanted = np.unique(np.r_[np.linspace(0, 1, most // 2), np.geomspace(1e-3, 1, most // 2 - 1)])
    places = np.unique(np.r_[0, np.searchsorted(fpr, wanted, side="right") - 1, len(fpr) - 1])
    return [[round(float(fpr[i]), 5), round(float(tpr[i]), 5)] for i in places]


def absent(
    metrics: Sequence[str],
    reason: str,
    *,
    n: int = 0,
    better: Better = "lower",
    needed: int | None = None,
    detail: Mapping[str, Any] | None = None,
    **fields: Any,
) -> list[Measurement]:
    """These metrics, not measured for this reason."""
    about = {**(detail or {}), **({} if needed is None else {"patients_needed": needed})}
    return [Measurement.missing(metric, reason, n=n, better=better, detail=about, **fields) for metric in metrics]


def too_few(have: int, what: str, need: int = FEWEST_PATIENTS) -> str:
    return f"too few {what}: {have}, at least {need} needed"


def with_detail(measurement: Measurement, **detail: Any) -> Measurement:
    """The measurement with further detail."""
    return replace(measurement, detail={**measurement.detail, **detail})
