"""Faces: whose photograph is it? By recognisers that no method learned from, as they are and adapted to the release.

The gate reads the same figures as for films (see ``film``): linkage among real photographs with the same published
record, and what the patient's own pixels add. The attacker has several ways of comparing: each recogniser that is
installed, plain pixels of the aligned face, and for each a linear map from released to real photographs, learned on
training people. How much each counts is decided on training people held out of it.

Beside them stand the figures of MedSem-DeID (Tian et al., AAAI 2025): the distance of a photograph to its released
counterpart in each recogniser's space, beside that of two different people (further apart than those is no better: the
released face could then be found by what it is not); matching in a gallery of other photographs; and verification
accuracy in ten folds as on LFW, where 0.5 is guessing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, key_of
from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.linkage import retrieval
from updp.evaluation.probes.attacks.adversary import Linker
from updp.evaluation.probes.attacks.features import unit
from updp.evaluation.probes.attacks.film import Film
from updp.evaluation.probes.attacks.matching import Protocol
from updp.evaluation.probes.attacks.retrieval import split_gallery
from updp.evaluation.probes.base import Inquiry, absent, balanced_pairs, by_patient, own_pairs, too_few
from updp.evaluation.probes.photographs import find_all
from updp.evaluation.statistics import auc, mean
from updp.models import recognisers

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit

Floats = NDArray[np.float32]
DISTANCE, ACCURACY = "ID distance", "face verification accuracy"
#: Side of the aligned face whose pixels are compared.
SMALL = 24
RIDGE = 0.3
FOLDS = 10
_EDITION = "faces 1"


@dataclass(frozen=True)
class Sight:
    """Features of every real and released photograph of an exhibit, by way of looking."""

    real: dict[str, Floats]
    released: dict[str, Floats]


def look(exhibit: Exhibit, cache: Cache) -> Sight:
    """Embeddings of the photographs of an exhibit by each recogniser, and their pixels."""
    real = find_all(exhibit.real, cache)
    released = find_all(exhibit.released, cache, real)
    out = Sight({}, {})
    for name in (*recognisers.available(), "pixels"):
        for photos, found, side in ((exhibit.real, real, out.real), (exhibit.released, released, out.released)):
            key = key_of(_EDITION, name, np.ascontiguousarray(photos), found.fives)
            held = cache.get(key)
            if held is None:
                held = {"features": _features(name, photos, found.fives)}
                cache.put(key, held)
            side[name] = held["features"]
    return out


def _features(name: str, photos: NDArray[np.uint8], fives: NDArray[Any]) -> Floats:
    if name != "pixels":
        return recognisers.embed(name, photos, fives)
    faces = np.stack([recognisers.aligned(photo, five, SMALL) for photo, five in zip(photos, fives, strict=True)])
    flat = faces.reshape(len(faces), -1).astype(np.float32) / 255
    return unit(flat - flat.mean(1, keepdims=True))


def train(sight: Sight, exhibit: Exhibit, protocol: Protocol, seed: int) -> Linker:
    """The attacker on an exhibit: every way of comparing, weighted by what it does on held-out training people."""
    rows = exhibit.rows("train")
    people = by_patient(exhibit.patients, rows)
    half = [int(row) for own in people[::2] for row in own], [int(row) for own in people[1::2] for row in own]
    ways: dict[str, tuple[Floats, Floats]] = {}
    held: dict[str, float] = {}
    for name in sight.real:
        real, released = sight.real[name], sight.released[name]
        ways[name] = (released, real)
        held[name] = _auc(released, real, exhibit, rows, protocol, seed)
        if min(map(len, half)) < FEWEST_PATIENTS:
            continue
        adapted = f"{name}, adapted"
        scores = []
        for learn, test in (half, half[::-1]):
            left, right = mapped(released, real, np.array(learn))
            scores.append(_auc(left, right, exhibit, np.array(test), protocol, seed))
        ways[adapted], held[adapted] = mapped(released, real, rows), float(np.mean(scores))
    weights = {name: max(0.0, 2 * value - 1) ** 2 for name, value in held.items()}
    if not any(weights.values()):
        weights = dict.fromkeys(weights, 1.0)  # nothing was learned about which is best
    counted = {name: weight for name, weight in weights.items() if weight > 0}
    parts = [_standard(*ways[name], rows, weight) for name, weight in counted.items()]
    left, right = (np.hstack(side) for side in zip(*parts, strict=True))
    return Linker(left, right, tuple(counted), held, len(people))


def predicted(given: Floats, wanted: Floats, rows: NDArray[Any]) -> NDArray[np.float64]:
    """What ridge regression on these rows says of ``wanted``, less its mean over them, for all rows of ``given``."""
    x, y = given[rows].astype(np.float64), wanted[rows].astype(np.float64)
    centre = x.mean(0)
    gram = (x - centre) @ (x - centre).T
    ridge = RIDGE * np.trace(gram) / max(1, len(rows))
    dual = np.linalg.solve(gram + max(ridge, 1e-9) * np.eye(len(rows)), y - y.mean(0))
    return np.asarray(((given - centre) @ (x - centre).T) @ dual)


def mapped(released: Floats, real: Floats, rows: NDArray[Any]) -> tuple[Floats, Floats]:
    """Released features brought to where real ones of the same photograph are, as learned on these rows."""
    left = predicted(released, real, rows)
    return unit(left.astype(np.float32)), unit((real - real[rows].astype(np.float64).mean(0)).astype(np.float32))


def _standard(left: Floats, right: Floats, rows: NDArray[Any], weight: float) -> tuple[Floats, Floats]:
    """Vectors whose products have the spread that the weight says."""
    spread = float((left[rows] @ right[rows].T).std()) if len(rows) else 1.0
    return left * np.float32(weight / max(spread, 1e-6)), right


def _auc(left: Floats, right: Floats, exhibit: Exhibit, rows: NDArray[Any], protocol: Protocol, seed: int) -> float:
    rng = np.random.default_rng([seed, *protocol.encode()])
    if protocol == "own film":
        pairs = own_pairs(exhibit.patients, rows, rng, 4)
    else:
        pairs = balanced_pairs(exhibit.patients, rows, rng, 4, ordered=True)
    if not pairs.same.any() or pairs.same.all():
        return 0.5
    return float(auc(pairs.same, np.einsum("ij,ij->i", left[pairs.left], right[pairs.right])))


class Faces(Film):
    name = "faces"
    domains = ("face",)

    def attacker(self, inquiry: Inquiry, originals: Exhibit, protocol: Protocol) -> tuple[Exhibit, Linker]:
        exhibit = originals.paired
        return exhibit, train(look(exhibit, inquiry.cache), exhibit, protocol, inquiry.seed)

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit = inquiry.exhibit
        found = super().measure(inquiry)
        people = by_patient(exhibit.patients, np.arange(len(exhibit)))
        if len(people) < FEWEST_PATIENTS:
            names = (DISTANCE, ACCURACY, "face match rank-1")
            return [*found, *absent(names, too_few(len(people), "people"), n=len(people), needed=FEWEST_PATIENTS)]
        sight = look(exhibit, inquiry.cache)
        for name in recognisers.available():
            found += self._recognised(inquiry, sight, name)
        return found

    def _recognised(self, inquiry: Inquiry, sight: Sight, name: str) -> Iterator[Measurement]:
        """The figures of one recogniser as it is."""
        exhibit, seed = inquiry.exhibit, inquiry.seed
        real, released = sight.real[name], sight.released[name]
        who: dict[str, Any] = {"attacker": name, "seed": seed, "draws": inquiry.budget.draws}
        pairs = balanced_pairs(exhibit.patients, np.arange(len(exhibit)), inquiry.rng, 4, ordered=True)
        apart = np.linalg.norm(real[pairs.left] - real[pairs.right], axis=1)
        moved = np.linalg.norm(real - released, axis=1)
        impostor = float(apart[~pairs.same].mean())
        detail: dict[str, Any] = {"impostors": impostor}
        if pairs.same.any():
            detail["same person, real"] = float(apart[pairs.same].mean())
        yield measure(
            DISTANCE, mean, exhibit.patients, moved, chance=impostor, better="closer to chance", detail=detail, **who
        )
        if not pairs.same.any():
            reason = "no person has two photographs"
            yield from absent([ACCURACY, "face match rank-1"], reason, attacker=name)
            return
        score = np.einsum("ij,ij->i", released[pairs.left], real[pairs.right])
        right = folded(score, pairs.same, exhibit.patients[pairs.left], seed)
        yield measure(ACCURACY, mean, exhibit.patients[pairs.left], right, chance=0.5, better="closer to chance", **who)
        probes, gallery = split_gallery(exhibit.patients, np.arange(len(exhibit)), inquiry.rng)
        yield from retrieval(
            released[probes] @ real[gallery].T,
            exhibit.patients[probes],
            exhibit.patients[gallery],
            ks=(1,),
            of="face match",
            **who,
        )


def folded(
    scores: NDArray[Any], same: NDArray[np.bool_], patients: NDArray[np.str_], seed: int, folds: int = FOLDS
) -> NDArray[np.float64]:
    """Whether each pair is classified right by the threshold that is best on the pairs of the other folds' people."""
    people, place = np.unique(patients, return_inverse=True)
    fold = np.random.default_rng(seed).permutation(len(people))[place] % folds
    out = np.zeros(len(scores))
    for k in range(folds):
        learn, test = fold != k, fold == k
        if not learn.any() or not test.any():
            continue
        order = np.argsort(-scores[learn], kind="stable")
        truth = same[learn][order]
        # With the threshold at each place of the order: pairs of one person above it are right, and of two below it.
        gained = np.cumsum(np.where(truth, 1, -1))
        best = int(np.argmax(gained))
        ranked = np.r_[np.inf, scores[learn][order], -np.inf]
        # Half way to the next pair. Where no threshold gains anything, no pair is called the same person.
        threshold = float(np.mean(ranked[best + 1 : best + 3])) if gained[best] > 0 else np.inf
        out[test] = (scores[test] >= threshold) == same[test]
    return out
