"""Identification: a classifier of N known patients names the patient of a released film.

As the UPDP paper prints it, the classifier learns from real films and is asked about released ones; a different domain
alone lowers that figure, so it is retrained on released films and adapted to the pair of domains as well. Two chance
levels: uniform, and always naming the patient with most films, which for the paper's 50 patients is the higher one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, Layered, Shelved
from updp.core.global_state import limited
from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.linkage import identification
from updp.evaluation.probes.attacks.adversary import Linker, Untrainable, adversary, frozen, real_metric
from updp.evaluation.probes.attacks.base import SCORED, Budget, absent, by_patient, too_few, within
from updp.evaluation.probes.attacks.features import Look

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack

QUESTION = "identification"
#: Films a patient needs: two to be known by, one to be found by.
ENOUGH = 3


def cast(
    patients: NDArray[np.str_], rows: NDArray[np.intp], count: int, rng: np.random.Generator
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """(known films, films asked about) of the patients with most films, halves drawn at random."""
    people = [films for films in by_patient(patients, rows) if len(films) >= ENOUGH]
    order = rng.permutation(len(people))
    chosen = sorted(sorted(order, key=lambda i: -len(people[i]))[:count])
    out = []
    for place in chosen:
        films = rng.permutation(people[place])
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


class Identification(Shelved):
    name = "identification"
    question = QUESTION

    def run(
        self,
        exhibit: Exhibit,
        pack: Pack,
        budget: Budget,
        rng: np.random.Generator,
        cache: Cache | None = None,
    ) -> list[Measurement]:
        originals = within(exhibit, budget.films)
        exhibit = originals.paired
        seed = int(rng.integers(2**31))
        people = cast(exhibit.patients, exhibit.rows(*SCORED), budget.patients, np.random.default_rng(seed))
        trials: list[tuple[str, str, str]] = [
            ("identification accuracy real→released as printed", "trained on real films", "printed"),
            ("identification accuracy retrained on released", "A1 released-released", "A1"),
            ("identification accuracy adapted real→released", "A2 released-real", "A2"),
            ("identification accuracy own film", "A2 released-real, own film", "own"),
            ("reference: identification accuracy real→real", "trained on real films, untouched films", "real"),
        ]
        if len(people) < FEWEST_PATIENTS:
            reason = too_few(len(people), f"patients with {ENOUGH} films outside the train split")
            names = [name for name, _, _ in trials]
            return absent(names, reason, question=QUESTION, n=len(people), needed=FEWEST_PATIENTS)
        known = [films for films, _ in people]
        asked = np.concatenate([films for _, films in people])
        truth = np.repeat(np.arange(len(people)), [len(films) for _, films in people])
        out: list[Measurement] = []
        with limited(budget.threads):
            look = Look(originals, pack, budget, Layered(self.shelf, cache))
            for name, attacker, kind in trials:
                try:
                    linker = _linker(look, kind)
                except Untrainable as reason:
                    out += absent([name], str(reason), question=QUESTION, attacker=attacker)
                    continue
                # Own film: the adversary holds the very films these were made from.
                shown = [np.concatenate(both) for both in people] if kind == "own" else known
                about: dict[str, Any] = {
                    "question": QUESTION,
                    "patients": len(people),
                    "films_known": int(sum(map(len, shown))),
                    "films_asked": len(asked),
                    **linker.about(),
                }
                out.append(
                    identification(
                        name,
                        truth,
                        name_patients(linker, asked, shown),
                        exhibit.patients[asked],
                        seed=seed,
                        classes=len(people),
                        attacker=attacker,
                        draws=budget.draws,
                        detail=about,
                    )
                )
        return out


def _linker(look: Look, kind: str) -> Linker:
    if kind in ("printed", "real"):
        try:
            linker = real_metric(look)
        except Untrainable:  # the pack's network was trained elsewhere; it is what a stranger has
            linker = frozen(look, ("real", "real"))
            return linker if kind == "real" else frozen(look)
        return Linker(linker.right, linker.right, linker.ways, {}, linker.patients) if kind == "real" else linker
    if kind == "own":
        return adversary(look, "A2", "own")
    return adversary(look, "A1" if kind == "A1" else "A2")
