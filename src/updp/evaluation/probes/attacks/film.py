"""Film beyond record: does a released film reveal whose it is, beyond what its published record reveals?

A released film is compared with a real film of its patient (another one, or the very one it was made from) and with
real films of other patients whose published record is the same as that of the genuine film: label set, view, released
attributes. Disease and view are then the same on both sides, and what is left is identity. A film whose record nobody
else shares has no such impostor; it is counted, and the record identifies it (see ``record``).

As a second matching, the impostors nearest to the genuine film: by the findings that the pack's classifier predicts on
it, and by the words of its report. These figures are stated and not bounded.

One attacker is scored. It combines every way of comparing films that this package has, weighted by how well each does
on training patients who were held out of its training; the patients it is scored on have no part in the choice, so the
interval needs no correction. Where patients are few, all of them are scored in turn by attackers who trained on the
others (cross-fitting).

Twins: released films of other patients with the same record, in place of the patient's own. They were made from the
same record without the patient's pixels. The difference to them, against the same impostors, is what the pixels add.

Every comparison belongs to two patients, the genuine one and the impostor, and the intervals count both
(``intervals.crossed``). A pair with few impostors gives an uncertain rank and counts for less: the share of n impostors
that a film of no patient outscores has the variance (n + 2) / 12 n, and pairs are weighted by its inverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.intervals import crossed, measure
from updp.evaluation.probes.attacks.adversary import Linker, Untrainable, adversary, frozen
from updp.evaluation.probes.attacks.features import encode_films
from updp.evaluation.probes.attacks.matching import IMPOSTORS, NONE, Genuine, Protocol, genuine_pairs, nearest_impostors
from updp.evaluation.probes.base import (
    SCORED,
    Inquiry,
    Probe,
    absent,
    by_patient,
    cross_fit,
    roc_points,
    too_few,
)
from updp.evaluation.statistics import mean, tpr_at_fpr

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit

LINKAGE, DELTA = "film linkage", "film linkage beyond twins"
RATES = {0.01: "film linkage TPR at 0.01 FPR", 0.001: "film linkage TPR at 0.001 FPR"}
RANK = "film linkage rank-1"
METRICS = (LINKAGE, DELTA, *RATES.values(), RANK)
#: The same attacker among the impostors that are nearest to the genuine film.
NEAREST = {"findings": "film linkage among nearest findings", "reports": "film linkage among nearest reports"}
#: Dimensions of a report's code.
_WORDS = 64
#: With fewer scored patients than this, every patient is scored, by attackers who trained on the others.
ENOUGH = 150


@dataclass(frozen=True)
class Scores:
    """Of every genuine pair: its score, those of its impostors, and how its twins do against the same impostors."""

    patients: NDArray[np.str_]
    genuine: NDArray[np.float64]  # G
    impostors: NDArray[np.float64]  # G × IMPOSTORS, NaN where there are fewer
    others: NDArray[np.str_]  # G × IMPOSTORS, their patients
    twins: NDArray[np.float64]  # G × IMPOSTORS, the share of twins that outscore each
    twins_first: NDArray[np.float64]  # G, how often a twin outscores them all

    @property
    def there(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.impostors)

    @property
    def above(self) -> NDArray[np.float64]:
        """Whether each impostor is outscored, ties counting half; its mean is the AUC among matched pairs."""
        return _above(self.genuine[:, None], self.impostors)

    @property
    def weights(self) -> NDArray[np.float64]:
        """How much each comparison counts."""
        out: NDArray[np.float64] = self.there / (self.there.sum(1, keepdims=True) + 2)
        return out

    @property
    def first(self) -> NDArray[np.bool_]:
        out: NDArray[np.bool_] = ((self.above == 1) | ~self.there).all(1)
        return out


def _above(own: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    out: NDArray[np.float64] = (own > others) + 0.5 * (own == others)
    return out


def _places(rows: NDArray[np.intp], wanted: NDArray[np.intp]) -> NDArray[np.intp]:
    out: NDArray[np.intp] = np.searchsorted(rows, wanted)
    return out


def score(linker: Linker, pairs: Genuine, patients: NDArray[np.str_]) -> Scores:
    """What one attacker says of the pairs."""
    probes = np.unique(np.concatenate([pairs.released, pairs.twins.reshape(-1)]))
    candidates = np.unique(np.concatenate([pairs.real, pairs.impostors.reshape(-1)]))
    # Where there is none, the last row is looked up, and is not counted below.
    similarity = linker.similarity(probes, candidates)
    there, others = pairs.impostors != NONE, patients[pairs.impostors]
    own, stand_ins = _places(probes, pairs.released), _places(probes, pairs.twins)
    real, impostors = _places(candidates, pairs.real), _places(candidates, pairs.impostors)
    won, met = np.zeros(there.shape), np.zeros(there.shape)
    first, twins = np.zeros(len(pairs)), np.zeros(len(pairs))
    for twin, place in zip(pairs.twins.T, stand_ins.T, strict=True):
        # A twin of the impostor's own patient would find the impostor: it is left out.
        fair = there & (twin != NONE)[:, None] & (patients[twin][:, None] != others)
        above = _above(similarity[place, real][:, None], similarity[place[:, None], impostors])
        won += np.where(fair, above, 0)
        met += fair
        some = fair.any(1)
        first += some & ((above == 1) | ~fair).all(1)
        twins += some
    return Scores(
        patients[pairs.released],
        similarity[own, real],
        np.where(there, similarity[own[:, None], impostors], np.nan),
        others,
        # By symmetry: of two real films with one record, either is as likely to be the nearer one to a third patient's.
        np.where(met > 0, won / np.maximum(met, 1), 0.5),
        np.where(twins > 0, first / np.maximum(twins, 1), 1 / (1 + there.sum(1))),
    )


class Film(Probe):
    name = "film"
    question = "film"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit = inquiry.exhibit
        patient_rows = by_patient(exhibit.patients, np.arange(len(exhibit)))
        protocols: tuple[Protocol, ...] = ("another film", "own film")
        out: list[Measurement] = []
        for protocol in protocols:
            fit = [films for films in patient_rows if protocol == "own film" or len(films) > 1]
            if len(fit) < 2 * FEWEST_PATIENTS:
                what = "patients" if protocol == "own film" else "patients with two films"
                reason = too_few(len(fit), what, 2 * FEWEST_PATIENTS)
                missing: dict[str, Any] = {"protocol": protocol, "n": len(fit), "needed": 2 * FEWEST_PATIENTS}
                out += absent(METRICS, reason, chance=0.5, **missing)
                continue
            out += self._protocol(inquiry, protocol)
        return out

    def attacker(self, inquiry: Inquiry, originals: Exhibit, protocol: Protocol) -> tuple[Exhibit, Linker]:
        """Who is scored on these originals, and the rows that its vectors are of."""
        features = inquiry.features_of(originals)
        try:
            return features.exhibit, adversary(features, "A3", protocol, matched=True)
        except Untrainable:
            return features.exhibit, frozen(features)

    def _protocol(self, inquiry: Inquiry, protocol: Protocol) -> list[Measurement]:
        parts: list[Scores] = []
        near: dict[str, list[Scores]] = {}
        about: dict[str, Any] = {"unmatched": 0, "held_out_auc": [], "training_patients": []}
        ways: set[str] = set()
        for originals in cross_fit(inquiry.originals, inquiry.seed, ENOUGH):
            exhibit, linker = self.attacker(inquiry, originals, protocol)
            rng = np.random.default_rng([inquiry.seed, *protocol.encode()])
            rows = exhibit.rows(*SCORED)
            pairs = genuine_pairs(exhibit.records, exhibit.patients, rows, protocol, rng, inquiry.budget.per_patient)
            about["unmatched"] += pairs.unmatched
            if not len(pairs):
                continue
            parts.append(score(linker, pairs, exhibit.patients))
            for name, codes in self._codes(inquiry, originals).items():
                second = nearest_impostors(pairs, exhibit.patients, exhibit.views, rows, codes)
                if len(second):
                    near.setdefault(name, []).append(score(linker, second, exhibit.patients))
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
        return [*self._figures(inquiry, parts, patients, who), *self._nearest(inquiry, near, who)]

    def _codes(self, inquiry: Inquiry, originals: Exhibit) -> dict[str, NDArray[np.float32]]:
        """What films are matched by a second time, a row each: predicted findings, words of the reports."""
        out: dict[str, NDArray[np.float32]] = {}
        exhibit, there = originals.paired, ~originals.kept_back
        seen = predicted(originals, inquiry)
        if seen is not None:
            out["findings"] = seen[there]
        written = exhibit.with_reports("real")
        if written.sum() >= 2 * FEWEST_PATIENTS:
            out["reports"] = report_codes(exhibit.real_texts, written)
        return out

    def _nearest(self, inquiry: Inquiry, near: Mapping[str, list[Scores]], who: Mapping[str, Any]) -> list[Measurement]:
        out = []
        for name, parts in near.items():
            there, above, weights, rivals, patients = (
                np.concatenate([getattr(part, field) for part in parts])
                for field in ("there", "above", "weights", "others", "patients")
            )
            if len(set(patients.tolist())) < FEWEST_PATIENTS:
                continue
            place = np.flatnonzero(there) // there.shape[1]
            about = {"matched_on": f"view, nearest {name}", "impostors": IMPOSTORS, "folds": len(parts)}
            options = {**who, "detail": about, "seed": inquiry.seed, "draws": 0, "better": "lower"}
            sides = (weights[there], patients[place], rivals[there])
            out.append(_compared(NEAREST[name], above[there], *sides, chance=0.5, **options))
        return out

    def _figures(
        self, inquiry: Inquiry, parts: list[Scores], patients: NDArray[np.str_], who: dict[str, Any]
    ) -> list[Measurement]:
        options: dict[str, Any] = {"seed": inquiry.seed, "draws": inquiry.budget.draws, "better": "lower", **who}
        there, above, twins, weights, rivals = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("there", "above", "twins", "weights", "others")
        )
        # Attackers of two folds have scales of their own: scores are compared after each is standardised.
        same = np.concatenate([_standard(part, part.genuine) for part in parts])
        other = np.concatenate([_standard(part, part.impostors) for part in parts])
        place = np.flatnonzero(there) // there.shape[1]  # the pair of each impostor
        truth = np.concatenate([np.ones(len(same), bool), np.zeros(len(place), bool)])
        curve = roc_points(truth, np.concatenate([same, other[there]]))
        sides = (weights[there], patients[place], rivals[there])
        about = {**who["detail"], "roc": curve, "twins_auc": float(np.average(twins[there], weights=sides[0]))}
        out = [
            _compared(LINKAGE, above[there], *sides, chance=0.5, **(options | {"detail": about})),
            _compared(DELTA, (above - twins)[there], *sides, chance=0.0, **options),
        ]
        for rate, metric in RATES.items():
            if len(place) * rate < 10:
                need = int(np.ceil(10 / rate))
                reason = f"{len(place)} pairs of different patients cannot show this rate, at least {need} needed"
                out += absent([metric], reason, chance=rate, **who)
                continue

            def low(rows: Any, weights: Any = None, rate: float = rate) -> Any:
                index = np.asarray(rows, np.intp)
                met = there[index]
                picked = np.concatenate([same[index], other[index][met]])
                labels = np.arange(len(picked)) < len(index)
                each = None
                if weights is not None:
                    w = np.atleast_2d(np.asarray(weights, float))
                    each = np.concatenate([w, w[:, np.flatnonzero(met) // met.shape[1]]], axis=1)
                return tpr_at_fpr(labels, picked, rate, each)

            few = options | {"draws": min(200, inquiry.budget.draws)}
            out.append(measure(metric, low, patients, np.arange(len(same)), chance=rate, **few))
        first = np.concatenate([part.first for part in parts]).astype(float)
        # Several impostors may be films of one patient, so that guessing succeeds more often than one time in twenty.
        guessed = float(np.concatenate([part.twins_first for part in parts]).mean())
        out.append(measure(RANK, mean, patients, first, chance=guessed, **options))
        return out


def _compared(
    metric: str,
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    patients: NDArray[np.str_],
    others: NDArray[np.str_],
    **options: Any,
) -> Measurement:
    """A mean over comparisons, each of a patient with another."""
    found = crossed(values, weights, patients, others)
    floor = -1.0 if metric == DELTA else 0.0
    detail = {**options.pop("detail"), "rows": len(values), "unit": "patients", "level": 0.95}
    options.pop("draws")
    n = len(set(patients.tolist()))
    return Measurement(metric, found.value, max(floor, found.low), min(1.0, found.high), n, detail=detail, **options)


def predicted(originals: Exhibit, inquiry: Inquiry) -> NDArray[np.float32] | None:
    """Log odds of the findings that the pack's own classifier predicts on real films; None if it has none.
    """
    from updp.models.backbone import FilmEncoder

    if not inquiry.has_pack or "classifier" not in inquiry.pack.info.get("roles", {}):
        return None
    if not isinstance(getattr(inquiry.pack.classifier, "encoder", None), FilmEncoder):
        return None
    seen = encode_films(originals.real, inquiry.pack, "classifier", inquiry.cache)["probabilities"].astype(np.float32)
    likely = np.clip(seen, 1e-4, 1 - 1e-4)
    out: NDArray[np.float32] = np.log(likely / (1 - likely))
    return out


def report_codes(texts: Sequence[str], written: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Reports by their words, each counted for how rare it is; NaN where there is no report."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True).fit_transform([texts[i] for i in np.flatnonzero(written).tolist()])
    size = min(_WORDS, words.shape[1] - 1, words.shape[0] - 1)
    found = TruncatedSVD(size, random_state=0).fit_transform(words) if size > 1 else words.toarray()
    out = np.full((len(texts), found.shape[1]), np.nan, np.float32)
    out[written] = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
    return out


def _standard(part: Scores, values: NDArray[np.float64]) -> NDArray[np.float64]:
    centre, spread = np.nanmean(part.impostors), max(float(np.nanstd(part.impostors)), 1e-12)
    out: NDArray[np.float64] = (values - centre) / spread
    return out
