"""Retrieval: a released film as the probe, a gallery of real films, is its patient found among the first?

The gallery holds films the probes were not made from; retrieval of the very film is measured apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, Layered, Shelved
from updp.core.global_state import limited
from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.linkage import retrieval
from updp.evaluation.probes.attacks.adversary import Linker, Untrainable, adversary
from updp.evaluation.probes.attacks.base import SCORED, Budget, absent, by_patient, named, too_few, within
from updp.evaluation.probes.attacks.features import Look
from updp.evaluation.statistics import rankings

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack

QUESTION = "linkage"
_REPEATS = 20


def shelves(
    patients: NDArray[np.str_], rows: NDArray[np.intp], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(probes, gallery): one real film of every patient in the gallery, the others of it as probes."""
    probes: list[int] = []
    gallery: list[int] = []
    for films in by_patient(patients, rows):
        order = rng.permutation(films)
        gallery.append(int(order[0]))
        probes.extend(int(row) for row in order[1:])
    return np.array(probes, np.intp), np.array(gallery, np.intp)


def gallery_curve(
    linker: Linker,
    patients: NDArray[np.str_],
    probes: NDArray[np.intp],
    gallery: NDArray[np.intp],
    sizes: tuple[int, ...],
    rng: np.random.Generator,
) -> list[list[float]]:
    """[patients in the gallery, rank-1], the mean over galleries drawn at random that hold the probe's patient."""
    scores = linker.similarity(probes, gallery)
    own = patients[probes][:, None] == patients[gallery][None]
    curve: list[list[float]] = []
    for size in [s for s in sorted(sizes) if s < len(gallery)] + [len(gallery)]:
        hits = []
        for _ in range(_REPEATS if size < len(gallery) else 1):
            shown = np.zeros(len(gallery), bool)
            shown[rng.permutation(len(gallery))[: size - 1]] = True
            seen = shown[None] | own
            ranking = np.where(seen, scores, -np.inf)
            hits.append(float(own[np.arange(len(probes)), ranking.argmax(1)].mean()))
        curve.append([size, round(float(np.mean(hits)), 4)])
    return curve


class Retrieval(Shelved):
    name = "retrieval"
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
        draw = np.random.default_rng(seed)
        patients = exhibit.patients
        rows = exhibit.rows(*SCORED)
        people = by_patient(patients, rows)
        names = ("retrieval rank-1", "retrieval rank-5", "retrieval mAP")
        if len(people) < FEWEST_PATIENTS:
            reason = too_few(len(people), "patients outside the train split")
            return absent(names, reason, question=QUESTION, n=len(people), needed=FEWEST_PATIENTS)
        probes, gallery = shelves(patients, rows, draw)
        several = len(set(patients[probes].tolist()))
        # The own film: one film a patient on either side, so that the only right answer is the film itself.
        single = np.array([int(draw.choice(films)) for films in people], np.intp)
        out: list[Measurement] = []
        with limited(budget.threads):
            look = Look(originals, pack, budget, Layered(self.shelf, cache))
            for view, attacker in (("A0", "A0 frozen"), ("A2", "A2 released-real")):
                for kind in ("other", "own"):
                    who = attacker if kind == "other" else f"{attacker}, own film"
                    ending = attacker if kind == "other" else f"{view} own film"
                    if kind == "other" and several < FEWEST_PATIENTS:
                        reason = too_few(several, "patients with two films outside the train split")
                        out += absent([f"{n} {ending}" for n in names], reason, question=QUESTION, attacker=who)
                        continue
                    try:
                        linker = adversary(look, view, kind)  # type: ignore[arg-type]
                    except Untrainable as untrainable:
                        reason = str(untrainable)
                        out += absent([f"{n} {ending}" for n in names], reason, question=QUESTION, attacker=who)
                        continue
                    asked, shown = (probes, gallery) if kind == "other" else (single, single)
                    similarity = linker.similarity(asked, shown)
                    found = retrieval(
                        similarity, patients[asked], patients[shown], seed=seed, attacker=who, draws=budget.draws
                    )
                    curve = gallery_curve(linker, patients, asked, shown, budget.galleries, np.random.default_rng(seed))
                    for m in found:
                        extra: dict[str, Any] = {"question": QUESTION, **linker.about()}
                        if m.name == "retrieval rank-1" and m.measured:
                            extra |= {"gallery curve": curve, "gallery curve of": "patients in the gallery, rank-1"}
                            extra["cmc"] = _cmc(similarity, patients[asked], patients[shown])
                        out.append(named(m, f"{m.name} {ending}", **extra))
        return out


def _cmc(similarity: NDArray[np.float64], probes: NDArray[np.str_], gallery: NDArray[np.str_]) -> list[list[float]]:
    """[k, share of probes whose patient is among the first k]."""
    ranking = rankings(similarity, probes, gallery)
    ranks = ranking.rank[ranking.kept]
    steps = [k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500) if k < ranking.gallery] + [ranking.gallery]
    return [[k, round(float((ranks <= k).mean()), 4)] for k in steps]
