"""Use of released faces: are diseases still to be seen, and landmarks, gaze and lids where they were?

Judges look at both eyes, cut out and upright. One learns from real photographs and looks at released ones (the frozen
judge of MedSem-DeID); one learns from released photographs and looks at real ones, as a receiver would, and the gate
reads how much of the skill above guessing it keeps. People are scored by judges that learned from others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.domains.face.labels import GRADES
from updp.domains.face.landmarks import EYES, PARTS, between_eyes, opening
from updp.domains.face.signs import iris_offset, redness
from updp.evaluation.agreement import cohen_kappa
from updp.evaluation.intervals import measure
from updp.evaluation.probes.base import SCORED, Inquiry, Probe, absent, cross_fit, too_few
from updp.evaluation.probes.photographs import eyes_of, find_all
from updp.evaluation.probes.utility.base import Effort
from updp.evaluation.probes.utility.diagnosis import AUC, KEPT, SKILL, countable, mean_auc
from updp.evaluation.probes.utility.judge import JudgeConfig, NothingToLearn, train_judge
from updp.evaluation.statistics import accuracy, auc, mean

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit

REAL_REAL, REAL_RELEASED = "train real, test real", "train real, test released"
RELEASED_REAL = "train released, test real"
TOP, AGREE = "disease accuracy", "agreement with the original (kappa)"
#: With fewer scored people than this, everybody is scored, by judges that learned from the others.
ENOUGH = 300
#: Steps that a judge learns at least: eyes are few and small.
LEAST_STEPS = 150
#: Side of the patches of pixels that a judge takes as one place.
PATCH = 4


@dataclass(frozen=True)
class Scores:
    """Of every scored photograph: its labels, person, and each regime's scores."""

    labels: NDArray[np.float32]
    patients: NDArray[np.str_]
    names: tuple[str, ...]
    regimes: Mapping[str, NDArray[np.float64]]


def _skill(labels: ArrayLike, ours: ArrayLike, theirs: ArrayLike, weights: ArrayLike | None = None) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"):
        return (mean_auc(labels, ours, weights) - 0.5) / (mean_auc(labels, theirs, weights) - 0.5)


class _FaceProbe(Probe):
    question = "utility"
    domains = ("face",)


class FaceDiagnosis(_FaceProbe):
    """Diseases, by judges of the eyes; see the module."""

    name = "face diagnosis"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit = inquiry.exhibit
        people = len(set(exhibit.patients.tolist()))
        if people < 2 * FEWEST_PATIENTS:
            return absent((KEPT,), too_few(people, "people", 2 * FEWEST_PATIENTS), n=people, better="higher")
        try:
            scores = score_regimes(inquiry)
        except NothingToLearn as nothing:
            return absent((KEPT,), str(nothing), n=people, better="higher")
        if not scores.names:
            return absent((KEPT,), "no disease has enough photographs with and without it", n=people, better="higher")
        options: dict[str, Any] = {"seed": inquiry.seed, "draws": inquiry.budget.draws, "better": "higher"}
        out: list[Measurement] = []
        for regime, own in scores.regimes.items():
            rows = (scores.patients, scores.labels, own)
            each = {"each": _each(scores, regime)}
            out.append(measure(AUC, mean_auc, *rows, chance=0.5, regime=regime, detail=each, **options))
            out.append(_top(scores, regime, options))
        base = out[0]
        for regime in (REAL_RELEASED, RELEASED_REAL):
            metric = SKILL if regime == REAL_RELEASED else KEPT
            if not base.measured or base.low <= 0.5:
                why = base.reason or "the judge on real photographs is not surely above chance"
                out += absent((metric,), why, n=base.n, better="higher", regime=regime)
                continue
            both = (scores.labels, scores.regimes[regime], scores.regimes[REAL_REAL])
            out.append(measure(metric, _skill, scores.patients, *both, chance=0.0, regime=regime, **options))
        out += _kappas(scores, options)
        return out


def score_regimes(inquiry: Inquiry) -> Scores:
    """Every regime's scores of all scored people."""
    exhibit, effort = inquiry.exhibit, Effort.of(inquiry.budget)
    kept = [j for j, name in enumerate(exhibit.classes) if name not in GRADES]
    real = find_all(exhibit.real, inquiry.cache)
    released = find_all(exhibit.released, inquiry.cache, real)
    ours, theirs = patches(eyes_of(exhibit.real, real)), patches(eyes_of(exhibit.released, released))
    judges = 1 if effort.quick else effort.judges
    parts: list[tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]] = []
    for part in cross_fit(exhibit, inquiry.seed, ENOUGH):
        rows, place = part.rows("train"), part.rows(*SCORED)
        labels = part.labels[:, kept]
        steps = max(LEAST_STEPS, effort.epochs * len(rows) // JudgeConfig(1).batch)

        def learned(maps: NDArray[np.float32], rows: NDArray[Any] = rows, labels: Any = labels, n: int = steps) -> Any:
            return [train_judge([maps[rows]], [labels[rows]], JudgeConfig(n), k, inquiry.cache) for k in range(judges)]

        def said(judges: Any, maps: NDArray[np.float32], place: NDArray[Any] = place) -> NDArray[np.float64]:
            return np.asarray(np.mean([judge.scores(maps[place]) for judge in judges], axis=0), np.float64)

        by_real, by_released = learned(ours), learned(theirs)
        found = {
            REAL_REAL: said(by_real, ours),
            REAL_RELEASED: said(by_real, theirs),
            RELEASED_REAL: said(by_released, ours),
        }
        # Judges of two parts have scales of their own.
        like = found[REAL_REAL]
        parts.append((place, {k: (v - like.mean(0)) / np.maximum(like.std(0), 1e-9) for k, v in found.items()}))
    rows = np.concatenate([place for place, _ in parts])
    labels, patients = exhibit.labels[rows][:, kept], exhibit.patients[rows]
    counted = countable(labels, patients)
    return Scores(
        labels[:, counted],
        patients,
        tuple(exhibit.classes[kept[j]] for j in counted),
        {k: np.concatenate([own[k] for _, own in parts])[:, counted] for k in parts[0][1]},
    )


def patches(eyes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Pixels of a patch as channels of one place: a judge sees all of them and computes a sixteenth as much."""
    count, channels, height, width = eyes.shape
    split = eyes.reshape(count, channels, height // PATCH, PATCH, width // PATCH, PATCH)
    return split.transpose(0, 1, 3, 5, 2, 4).reshape(count, -1, height // PATCH, width // PATCH)


def _chosen(scores: Scores, regime: str) -> NDArray[np.intp]:
    """The disease that a judge would name, among people who have one."""
    return np.asarray(scores.regimes[regime].argmax(1), np.intp)


def _each(scores: Scores, regime: str) -> dict[str, dict[str, float]]:
    """The AUC of each disease, as the report draws them."""
    own = scores.regimes[regime]
    return {
        name: {"auc": float(auc(scores.labels[:, j], own[:, j])), "positives": int(scores.labels[:, j].sum())}
        for j, name in enumerate(scores.names)
    }


def _top(scores: Scores, regime: str, options: Mapping[str, Any]) -> Measurement:
    """Accuracy over photographs with one of the diseases, each disease's own in detail."""
    ill = scores.labels.sum(1) == 1
    truth, named = scores.labels[ill].argmax(1), _chosen(scores, regime)[ill]
    each = {name: float((named[truth == j] == j).mean()) for j, name in enumerate(scores.names) if (truth == j).any()}
    most = float(np.bincount(truth).max() / max(1, len(truth))) if len(truth) else 0.0
    return measure(
        TOP, accuracy, scores.patients[ill], truth, named, chance=most, detail={"each": each}, regime=regime, **options
    )


def _kappas(scores: Scores, options: Mapping[str, Any]) -> list[Measurement]:
    """Does the judge of real photographs name the same disease on a released one as on its original?"""
    before, after = _chosen(scores, REAL_REAL), _chosen(scores, REAL_RELEASED)
    out = []
    for j, name in enumerate(scores.names):
        pair = (before == j).astype(float), (after == j).astype(float)
        if min(pair[0].sum(), pair[1].sum()) < 5:
            out += absent((AGREE,), "named on fewer than five photographs", better="higher", regime=name)
            continue
        out.append(measure(AGREE, cohen_kappa, scores.patients, *pair, chance=0.0, regime=name, **options))
    return out


class FaceLandmarks(_FaceProbe):
    """Landmarks, lid opening, gaze and redness of released photographs against their originals."""

    name = "face landmarks"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit = inquiry.exhibit
        real = find_all(exhibit.real, inquiry.cache)
        released = find_all(exhibit.released, inquiry.cache, real)
        both = real.there & released.there
        options: dict[str, Any] = {"seed": inquiry.seed, "draws": inquiry.budget.draws, "better": "lower"}
        out = [
            measure(
                "face found", mean, exhibit.patients, released.there.astype(float), chance=None,
                **(options | {"better": "higher"}),
            )
        ]  # fmt: skip
        patients = exhibit.patients[both]
        if len(set(patients.tolist())) < FEWEST_PATIENTS:
            reason = too_few(len(set(patients.tolist())), "people whose released face is found")
            return out + absent((*(f"landmark error, {part}" for part in PARTS), *_SIGNS), reason)
        before, after = real.points[both].astype(np.float64), released.points[both].astype(np.float64)
        scale = np.array([between_eyes(points) for points in before])
        # A method may release another frame of the face: shift, turn and scale of the whole are no error.
        placed = np.stack([onto(points, goal) for points, goal in zip(after, before, strict=True)])
        for part, rows in PARTS.items():
            error = np.linalg.norm(before[:, list(rows)] - placed[:, list(rows)], axis=2).mean(1) / scale
            out.append(measure(f"landmark error, {part}", mean, patients, error, chance=None, **options))
        for metric, sign in _SIGNS.items():
            error = _differences(sign, exhibit, both, before, after)
            out.append(measure(metric, mean, patients, error, chance=None, **options))
        return out


def onto(points: NDArray[np.float64], goal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points moved, turned and scaled so that they come nearest to others, by least squares."""
    own, theirs = points - points.mean(0), goal - goal.mean(0)
    scale = max(float((own**2).sum()), 1e-9)
    a = float((own * theirs).sum()) / scale
    b = float((own[:, 0] * theirs[:, 1] - own[:, 1] * theirs[:, 0]).sum()) / scale
    return np.asarray(own @ np.array([[a, b], [-b, a]]) + goal.mean(0))


#: What is measured on each eye, as the mean absolute difference to the original.
_SIGNS: Mapping[str, Callable[[Any, Any, Any], float]] = {
    "lid opening error": lambda photo, points, eye: opening(points, eye),
    "gaze error": iris_offset,
    "redness error": redness,
}


def _differences(
    sign: Callable[[Any, Any, Any], float],
    exhibit: Exhibit,
    both: NDArray[np.bool_],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
) -> NDArray[np.float64]:
    out = np.zeros(len(before))
    for n, row in enumerate(np.flatnonzero(both)):
        real, released = (side[row].astype(np.float32) / 255 for side in (exhibit.real, exhibit.released))
        out[n] = np.mean([abs(sign(real, before[n], eye) - sign(released, after[n], eye)) for eye in EYES.values()])
    return out
