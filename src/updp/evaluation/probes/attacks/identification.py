"""Identification: a classifier of N known patients names the patient of a released film.

As the UPDP paper prints it, the classifier learns from real films and is asked about released ones; a different domain
alone lowers that figure, so it is retrained on released films and adapted to the pair of domains as well. Two chance
levels: uniform, and always naming the patient with most films, which for the paper's 50 patients is the higher one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.linkage import identification
from updp.evaluation.probes.attacks.adversary import Linker, Untrainable, adversary, frozen, real_metric
from updp.evaluation.probes.attacks.features import Features
from updp.evaluation.probes.base import Inquiry, Probe, absent, by_patient, too_few

ACCURACY = "identification accuracy"
#: Films a patient needs: two to learn from, one to identify.
ENOUGH = 3


def cast(
    patients: NDArray[np.str_], rows: NDArray[np.intp], count: int, rng: np.random.Generator
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """(known films, films asked about) of the patients with most films, halves drawn at random."""
    patient_rows = [films for films in by_patient(patients, rows) if len(films) >= ENOUGH]
    order = rng.permutation(len(patient_rows))
    chosen = sorted(sorted(order, key=lambda i: -len(patient_rows[i]))[:count])
    out = []
    for place in chosen:
        films = rng.permutation(patient_rows[place])
        half = (len(films) + 1) // 2
        out.append((np.sort(films[:half]), np.sort(films[half:])))
    return out


def name_patients(linker: Linker, asked: NDArray[np.intp], known: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    """The known patient each film is most like: by the mean of its films and by the nearest of them, half each."""
    votes = np.empty((len(asked), len(known)))
    for i, films in enumerate(known):
        similar = linker.similarity(asked, films)
        centre = linker.right[films].mean(0)
        centre = centre / max(float(np.linalg.norm(centre)), 1e-8)
        scale = max(float(np.linalg.norm(linker.right[films], axis=1).mean()), 1e-8)
        votes[:, i] = 0.5 * similar.max(1) + 0.5 * scale * (linker.left[asked] @ centre)
    if not np.isfinite(votes).all():
        raise ValueError("votes: some are NaN or infinite")
    best: NDArray[np.intp] = votes.argmax(1)
    return best


#: Metric, attacker, protocol: as the UPDP paper prints it, retrained, adapted, and on untouched films for reference.
TRIALS: tuple[tuple[str, str, str], ...] = (
    (ACCURACY, "trained on real films", "as printed"),
    (ACCURACY, "A1", "released-released"),
    (ACCURACY, "A2", "another film"),
    (ACCURACY, "A2", "own film"),
    (f"{ACCURACY} on real films", "trained on real films", "untouched films"),
)


class Identification(Probe):
    name = "identification"
    question = "film"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit, budget = inquiry.exhibit, inquiry.budget
        patient_rows = cast(exhibit.patients, inquiry.scored, budget.patients, inquiry.rng)
        if len(patient_rows) < FEWEST_PATIENTS:
            reason = too_few(len(patient_rows), f"patients with {ENOUGH} films outside the train split")
            n, need = len(patient_rows), FEWEST_PATIENTS
            return [
                m
                for metric, attacker, protocol in TRIALS
                for m in absent([metric], reason, attacker=attacker, protocol=protocol, n=n, needed=need)
            ]
        known = [films for films, _ in patient_rows]
        asked = np.concatenate([films for _, films in patient_rows])
        truth = np.repeat(np.arange(len(patient_rows)), [len(films) for _, films in patient_rows])
        out: list[Measurement] = []
        for metric, attacker, protocol in TRIALS:
            who: dict[str, Any] = {"attacker": attacker, "protocol": protocol}
            try:
                linker = _linker(inquiry.features, attacker, protocol)
            except Untrainable as reason:
                out += absent([metric], str(reason), **who)
                continue
            # Own film: the adversary holds the very films these were made from.
            shown = [np.concatenate(both) for both in patient_rows] if protocol == "own film" else known
            about: dict[str, Any] = {
                "patients": len(patient_rows),
                "films_known": int(sum(map(len, shown))),
                "films_asked": len(asked),
                **linker.about(),
            }
            out.append(
                identification(
                    metric,
                    truth,
                    name_patients(linker, asked, shown),
                    exhibit.patients[asked],
                    seed=inquiry.seed,
                    classes=len(patient_rows),
                    draws=budget.draws,
                    detail=about,
                    **who,
                )
            )
        return out


def _linker(features: Features, attacker: str, protocol: str) -> Linker:
    if protocol in ("as printed", "untouched films"):
        real = protocol == "untouched films"
        try:
            linker = real_metric(features)
        except Untrainable:  # the pack's network was trained elsewhere; it is what an outsider has
            return frozen(features, ("real", "real")) if real else frozen(features)
        return Linker(linker.right, linker.right, linker.ways, {}, linker.patients) if real else linker
    return adversary(features, attacker, "own film" if protocol == "own film" else "another film")  # type: ignore[arg-type]
