"""What every attack shares: its Protocol, what it may spend, the pairs it is scored on and the points of a curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache
from updp.core.measurement import FEWEST_PATIENTS, Better, Measurement

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
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
    networks: tuple[str, ...] = ("vlm", "classifier")  # of the pack, looked through beside the identity network
    looks: int = 3  # noise levels at which the generator is asked about a film
    members: int = 150  # most members, and most non-members, of membership inference
    rebuilt: int = 400  # most films rebuilt by the reconstruction attack; 0 leaves it out
    threads: int = 2  # of the linear algebra

    @classmethod
    def full(cls) -> Budget:
        return cls()

    @classmethod
    def quick(cls) -> Budget:
        """A first look: fewer films, no trained net, no reconstruction."""
        return cls(
            steps=0,
            films=900,
            pairs=10_000,
            draws=300,
            sizes=(0.5, 1.0),
            galleries=(25, 100),
            networks=(),
            looks=2,
            members=60,
            rebuilt=0,
        )

    def but(self, **changes: Any) -> Budget:
        return replace(self, **changes)

    @property
    def left_out(self) -> tuple[str, ...]:
        """What this budget does without, in words for the report."""
        full = Budget()
        gone = {
            "the trained Siamese net": self.steps <= 0,
            "reconstruction of the real films": self.rebuilt <= 0,
            "looking through the vision-language and findings networks": not self.networks,
            f"films beyond {self.films}": self.films < full.films,
            f"bootstrap draws beyond {self.draws}": self.draws < full.draws,
        }
        return tuple(words for words, left in gone.items() if left)


class Attack(Protocol):
    """Learns from the train split of an exhibit and measures itself on the patients of the others."""

    name: str
    question: str  # a key of ``updp.release.gate.MEASUREMENTS``

    def run(
        self,
        exhibit: Exhibit,
        pack: Pack,
        budget: Budget,
        rng: np.random.Generator,
        cache: Cache | None = None,
    ) -> list[Measurement]: ...


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
        people = by_patient(exhibit.patients, rows)
        order = rng.permutation(len(people))
        films = [people[i] for i in sorted(order, key=lambda i: len(people[i]) < 2)]
        taken = 0
        for own in films:
            # No patient takes more than a fiftieth of the room: many patients tell more than many films of one.
            own = own[: max(4, int(quota / 50))]
            if taken + len(own) > quota:
                break
            kept.append(own)
            taken += len(own)
    return exhibit.take(np.sort(np.concatenate(kept))) if kept else exhibit


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

    At most ``most`` pairs a patient, or the patient with seventy films would be half of the figure. ``ordered`` pairs
    count both ways round, since probe and candidate come from different sides.
    """
    people = by_patient(patients, rows)
    left: list[int] = []
    right: list[int] = []
    for films in people:
        found = [(a, b) for i, a in enumerate(films) for b in films[i + 1 :]]
        if ordered:
            found += [(b, a) for a, b in found]
        for place in rng.permutation(len(found))[:most]:
            left.append(int(found[place][0]))
            right.append(int(found[place][1]))
    count = len(left)
    if len(people) > 1:
        # The probes stay the same, so that no patient is favoured on either side of the comparison.
        where = {int(row): i for i, films in enumerate(people) for row in films}
        for probe in left[:count]:
            other = int(rng.integers(len(people) - 1))
            films = people[other + (other >= where[probe])]
            left.append(probe)
            right.append(int(rng.choice(films)))
    same = np.arange(len(left)) < count
    return Pairs(np.array(left, np.intp), np.array(right, np.intp), same)


def own_pairs(patients: NDArray[np.str_], rows: NDArray[Any], rng: np.random.Generator, most: int) -> Pairs:
    """Each released film with the real film it was made from, and with one of another patient."""
    people = by_patient(patients, rows)
    own = [int(row) for films in people for row in rng.permutation(films)[:most]]
    where = {int(row): i for i, films in enumerate(people) for row in films}
    others: list[int] = []
    if len(people) > 1:
        for row in own:
            place = int(rng.integers(len(people) - 1))
            others.append(int(rng.choice(people[place + (place >= where[row])])))
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
    names: Sequence[str],
    reason: str,
    *,
    question: str,
    attacker: str | None = None,
    n: int = 0,
    chance: float | None = None,
    better: Better = "lower",
    needed: int | None = None,
) -> list[Measurement]:
    """These measurements, not measured for this reason."""
    detail: dict[str, Any] = {"question": question}
    if needed is not None:
        detail["patients_needed"] = needed
    return [
        Measurement.missing(name, reason, n=n, chance=chance, better=better, attacker=attacker, detail=detail)
        for name in names
    ]


def too_few(have: int, what: str, need: int = FEWEST_PATIENTS) -> str:
    return f"too few {what}: {have}, at least {need} needed"


def named(measurement: Measurement, name: str, **detail: Any) -> Measurement:
    """The measurement under another name, with further detail."""
    return replace(measurement, name=name, detail={**measurement.detail, **detail})
