"""Film beyond record: does a released film tell whose it is, beyond what its published record tells anyway?

A released film is compared with a real film of its patient (another one, or the very one it was made from) and with
real films of other patients whose published record is the same as that of the genuine film: label set, view, released
attributes. Disease and view are then the same on both sides, and what is left is identity. A film whose record nobody
else shares has no such impostor; it is counted, and the record identifies it (see ``record``).

One attacker is scored. It combines every way of comparing films that this package has, weighted by how well each does
on training patients who were held out of its training; the patients it is scored on have no part in the choice, so the
interval needs no correction. Where patients are few, all of them are scored in turn by attackers who trained on the
others (cross-fitting).

Twins: released films of other patients with the same record, in place of the patient's own. They were made from the
same record without the patient's pixels. The difference to them is what the pixels add.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.probes.attacks.adversary import Linker, Untrainable, adversary, frozen
from updp.evaluation.probes.attacks.matching import IMPOSTORS, Genuine, Protocol, genuine_pairs
from updp.evaluation.probes.base import SCORED, Inquiry, Probe, absent, by_patient, roc_points, too_few
from updp.evaluation.statistics import mean, tpr_at_fpr

LINKAGE, DELTA = "film linkage", "film linkage beyond twins"
RATES = {0.01: "film linkage TPR at 0.01 FPR", 0.001: "film linkage TPR at 0.001 FPR"}
RANK = "film linkage rank-1"
METRICS = (LINKAGE, DELTA, *RATES.values(), RANK)
#: With fewer scored patients than this, every patient is scored, by attackers who trained on the others.
ENOUGH = 150
FOLDS = 3


@dataclass(frozen=True)
class Scores:
    """Of every genuine pair: its score, those of its impostors, and how its twins do against the same impostors."""

    patients: NDArray[np.str_]
    genuine: NDArray[np.float64]  # G
    impostors: NDArray[np.float64]  # G × IMPOSTORS
    twins_above: NDArray[np.float64]  # G, the share of impostors that a twin outscores
    twins_first: NDArray[np.float64]  # G, how often a twin outscores them all

    @property
    def above(self) -> NDArray[np.float64]:
        """The share of its impostors that a genuine pair outscores; its mean is the AUC among matched pairs."""
        return _above(self.genuine, self.impostors)


def _above(own: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    won: NDArray[np.float64] = ((own[:, None] > others) + 0.5 * (own[:, None] == others)).mean(1)
    return won


def score(linker: Linker, pairs: Genuine, patients: NDArray[np.str_]) -> Scores:
    """What one attacker says of the pairs."""

    def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        out: NDArray[np.float64] = np.einsum("...d,...d->...", linker.left[a], linker.right[b], dtype=np.float64)
        return out

    above, first = np.zeros(len(pairs)), np.zeros(len(pairs))
    for twins in pairs.twins.T:  # one at a time, which bounds memory
        own, others = product(twins, pairs.real), product(twins[:, None], pairs.impostors)
        above += _above(own, others) / pairs.twins.shape[1]
        first += (own[:, None] > others).all(1) / pairs.twins.shape[1]
    probes = pairs.released
    impostors = product(probes[:, None], pairs.impostors)
    return Scores(patients[probes], product(probes, pairs.real), impostors, above, first)


class Film(Probe):
    name = "film"
    question = "film"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit = inquiry.exhibit
        people = by_patient(exhibit.patients, np.arange(len(exhibit)))
        protocols: tuple[Protocol, ...] = ("another film", "own film")
        out: list[Measurement] = []
        for protocol in protocols:
            fit = [films for films in people if protocol == "own film" or len(films) > 1]
            if len(fit) < 2 * FEWEST_PATIENTS:
                what = "patients" if protocol == "own film" else "patients with two films"
                reason = too_few(len(fit), what, 2 * FEWEST_PATIENTS)
                missing: dict[str, Any] = {"protocol": protocol, "n": len(fit), "needed": 2 * FEWEST_PATIENTS}
                out += absent(METRICS, reason, chance=0.5, **missing)
                continue
            out += self._protocol(inquiry, protocol)
        return out

    def _protocol(self, inquiry: Inquiry, protocol: Protocol) -> list[Measurement]:
        parts: list[Scores] = []
        about: dict[str, Any] = {"unmatched": 0, "held_out_auc": [], "training_patients": []}
        ways: set[str] = set()
        for originals in folds(inquiry):
            look = inquiry.look_at(originals)
            exhibit = look.exhibit
            try:
                linker = adversary(look, "A3", protocol, matched=True)
            except Untrainable:
                linker = frozen(look)
            rng = np.random.default_rng([inquiry.seed, *protocol.encode()])
            rows = exhibit.rows(*SCORED)
            pairs = genuine_pairs(exhibit.records, exhibit.patients, rows, protocol, rng, inquiry.budget.per_patient)
            about["unmatched"] += pairs.unmatched
            if not len(pairs):
                continue
            parts.append(score(linker, pairs, exhibit.patients))
            ways |= set(linker.ways)
            about["held_out_auc"].append({k: round(float(v), 4) for k, v in linker.held_out.items()})
            about["training_patients"].append(linker.patients)
        about |= {"ways": sorted(ways), "impostors": IMPOSTORS, "matched_on": "labels, view, released attributes"}
        about |= {"folds": len(parts), "twins": "released films of other patients with the same record"}
        who: dict[str, Any] = {"protocol": protocol, "attacker": "chosen on held-out patients", "detail": about}
        patients = np.concatenate([part.patients for part in parts]) if parts else np.empty(0, str)
        have = len(set(patients.tolist()))
        if have < FEWEST_PATIENTS:
            reason = too_few(have, "patients whose record another patient shares")
            return absent(METRICS, reason, chance=0.5, n=have, needed=FEWEST_PATIENTS, **who)
        above = np.concatenate([part.above for part in parts])
        twins = np.concatenate([part.twins_above for part in parts])
        return self._figures(inquiry, parts, patients, above, twins, who)

    def _figures(
        self,
        inquiry: Inquiry,
        parts: list[Scores],
        patients: NDArray[np.str_],
        above: NDArray[np.float64],
        twins: NDArray[np.float64],
        who: dict[str, Any],
    ) -> list[Measurement]:
        options: dict[str, Any] = {"seed": inquiry.seed, "draws": inquiry.budget.draws, "better": "lower", **who}
        # Attackers of two folds have scales of their own: scores are compared after each is standardised.
        same = np.concatenate([_standard(part, part.genuine) for part in parts])
        other = np.concatenate([_standard(part, part.impostors) for part in parts])
        truth = np.concatenate([np.ones(len(same), bool), np.zeros(other.size, bool)])
        scores = np.concatenate([same, other.reshape(-1)])
        curve = {**who["detail"], "roc": roc_points(truth, scores), "twins_auc": float(twins.mean())}
        out = [
            measure(LINKAGE, mean, patients, above, **(options | {"detail": curve}), chance=0.5),
            measure(DELTA, mean, patients, above - twins, chance=0.0, **options),
        ]
        for rate, metric in RATES.items():
            if other.size * rate < 10:
                need = int(np.ceil(10 / rate))
                reason = f"{other.size} pairs of different patients cannot show this rate, at least {need} needed"
                out += absent([metric], reason, chance=rate, **who)
                continue

            def low(rows: Any, weights: Any = None, rate: float = rate) -> Any:
                index = np.asarray(rows, np.intp)
                picked = np.concatenate([same[index], other[index].reshape(-1)])
                labels = np.concatenate([np.ones(len(index), bool), np.zeros(other[index].size, bool)])
                each = None
                if weights is not None:
                    w = np.atleast_2d(np.asarray(weights, float))
                    each = np.concatenate([w, np.repeat(w, other.shape[1], axis=1)], axis=1)
                return tpr_at_fpr(labels, picked, rate, each)

            few = options | {"draws": min(200, inquiry.budget.draws)}
            out.append(measure(metric, low, patients, np.arange(len(same)), chance=rate, **few))
        first = np.concatenate([part.above == 1 for part in parts]).astype(float)
        # Several impostors may be films of one patient, so that guessing succeeds more often than one time in twenty.
        guessed = float(np.concatenate([part.twins_first for part in parts]).mean())
        out.append(measure(RANK, mean, patients, first, chance=guessed, **options))
        return out


def _standard(part: Scores, values: NDArray[np.float64]) -> NDArray[np.float64]:
    centre, spread = part.impostors.mean(), max(float(part.impostors.std()), 1e-12)
    out: NDArray[np.float64] = (values - centre) / spread
    return out


def folds(inquiry: Inquiry) -> list[Any]:
    """The exhibit as it is split, or, where few patients would be scored, once for each part of the patients."""
    originals = inquiry.originals
    scored = len({*originals.patients[originals.rows(*SCORED)].tolist()})
    if scored >= ENOUGH:
        return [originals]
    people = np.unique(originals.patients)
    part = np.random.default_rng(inquiry.seed).permutation(len(people)) % FOLDS
    place = part[np.searchsorted(people, originals.patients)]
    return [originals.but(splits=np.where(place == k, "test", "train")) for k in range(FOLDS)]
