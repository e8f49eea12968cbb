"""Attribute inference: age and sex read from a released film, against always choosing the most common.

Logistic regression on the features of all networks. Frozen: learned on real films. Retrained: learned on the released
films of the training patients, whose age and sex the adversary knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import key_of
from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.linkage import identification
from updp.evaluation.probes.attacks.features import Features, Side
from updp.evaluation.probes.base import SCORED, Inquiry, Probe, absent, too_few
from updp.evaluation.statistics import auc

#: Where age bins begin; a bin is named by its number.
AGES = (0, 20, 40, 60, 80)
_PENALTIES = (0.001, 0.01, 0.1)


def age_bins(ages: NDArray[np.float32]) -> NDArray[np.int64]:
    """The bin of each age; -1 where it is not known."""
    known = ~np.isnan(ages)
    out = np.full(len(ages), -1)
    out[known] = np.digitize(ages[known], AGES) - 1
    return out


def sex_codes(sexes: NDArray[np.str_]) -> NDArray[np.int64]:
    """0 female, 1 male, -1 where it is not known."""
    return np.where(sexes == "M", 1, np.where(sexes == "F", 0, -1))


class Attributes(Probe):
    name = "attributes"
    question = "film"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit, out = inquiry.exhibit, []
        for attribute, truth in (("sex", sex_codes(exhibit.sexes)), ("age", age_bins(exhibit.ages))):
            out += self._infer(inquiry.features, attribute, truth, inquiry.seed)
        return out

    def _infer(self, features: Features, attribute: str, truth: NDArray[np.int64], seed: int) -> list[Measurement]:
        exhibit = features.exhibit
        accuracy, reference = f"{attribute} accuracy", f"{attribute} accuracy on real films"
        trials: tuple[tuple[str, str, Side, Side], ...] = (
            (accuracy, "frozen", "real", "released"),
            (accuracy, "retrained", "released", "released"),
            (reference, "trained on real films", "real", "real"),
        )

        def nothing(reason: str, **options: Any) -> list[Measurement]:
            return [m for metric, who, *_ in trials for m in absent([metric], reason, attacker=who, **options)]

        known = truth >= 0
        train = exhibit.rows("train")[known[exhibit.rows("train")]]
        asked = exhibit.rows(*SCORED)[known[exhibit.rows(*SCORED)]]
        for rows, where in ((train, "in the train split"), (asked, "outside the train split")):
            have = len(set(exhibit.patients[rows].tolist()))
            if have < FEWEST_PATIENTS:
                what = f"patients {where} whose {attribute} is known"
                return nothing(too_few(have, what), n=have, needed=FEWEST_PATIENTS)
        if len(np.unique(truth[train])) < 2:
            return nothing(f"all training patients have the same {attribute}")
        out: list[Measurement] = []
        for metric, attacker, learned, shown in trials:
            classes, chances_of = predict(features, learned, shown, train, asked, truth)
            guess = classes[chances_of.argmax(1)]
            detail: dict[str, Any] = {
                "classes": len(classes),
                "films_learned": len(train),
                "films_asked": len(asked),
                "majority_rate": float(np.bincount(truth[asked]).max() / len(asked)),
            }
            if attribute == "age":
                detail["bins_begin"] = list(AGES)
            out.append(
                identification(
                    metric,
                    truth[asked],
                    guess,
                    exhibit.patients[asked],
                    seed=seed,
                    attacker=attacker,
                    draws=features.budget.draws,
                    detail=detail,
                )
            )
            if attribute == "sex" and len(np.unique(truth[asked])) == 2:
                out.append(
                    measure(
                        "sex AUC on real films" if metric == reference else "sex AUC",
                        auc,
                        exhibit.patients[asked],
                        truth[asked] == 1,
                        chances_of[:, int(np.flatnonzero(classes == 1)[0])],
                        chance=0.5,
                        better="closer to chance",
                        seed=seed,
                        attacker=attacker,
                        draws=features.budget.draws,
                    )
                )
        return out


def predict(
    features: Features,
    learned: Side,
    shown: Side,
    train: NDArray[np.intp],
    asked: NDArray[np.intp],
    truth: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(classes, probability of each for the films asked about); the penalty is chosen on held-out training patients."""
    key = key_of("attribute", features.key, learned, shown, train, asked, truth)

    def make() -> dict[str, NDArray[Any]]:
        from sklearn.linear_model import LogisticRegression

        x, patients = features.codes[learned], features.exhibit.patients
        known = np.unique(patients[train])
        order = np.random.default_rng(3).permutation(len(known))
        held = np.isin(patients[train], known[order[: max(2, len(known) // 5)]])

        def fit(rows: NDArray[np.intp], penalty: float) -> Any:
            return LogisticRegression(C=penalty, max_iter=200).fit(x[rows], truth[rows])

        chosen = _PENALTIES[1]
        if len(np.unique(truth[train[~held]])) > 1:
            chosen = max(
                _PENALTIES, key=lambda c: float(fit(train[~held], c).score(x[train[held]], truth[train[held]]))
            )
        model = fit(train, chosen)
        return {"classes": model.classes_, "chances": model.predict_proba(features.codes[shown][asked])}

    found = features.kept(key, make)
    return found["classes"], found["chances"]
