"""Retrieval: a released film as the probe, a gallery of real films, is its patient found among the first?

The gallery holds films the probes were not made from; retrieval of the very film is measured apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.linkage import retrieval
from updp.evaluation.probes.attacks.adversary import Linker, Untrainable, adversary
from updp.evaluation.probes.base import Inquiry, Probe, absent, by_patient, too_few, with_detail
from updp.evaluation.statistics import rankings

_REPEATS = 20


def split_gallery(
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


class Retrieval(Probe):
    name = "retrieval"
    question = "film"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        budget, seed, draw = inquiry.budget, inquiry.seed, inquiry.rng
        patients, patient_rows = inquiry.exhibit.patients, inquiry.patient_rows
        metrics = ("retrieval rank-1", "retrieval rank-5", "retrieval mAP")
        if len(patient_rows) < FEWEST_PATIENTS:
            reason = too_few(len(patient_rows), "patients outside the train split")
            return absent(metrics, reason, n=len(patient_rows), needed=FEWEST_PATIENTS)
        probes, gallery = split_gallery(patients, inquiry.scored, draw)
        several = len(set(patients[probes].tolist()))
        # The own film: one film per patient on either side, so that the only right answer is the film itself.
        single = np.array([int(draw.choice(films)) for films in patient_rows], np.intp)
        out: list[Measurement] = []
        for view, attacker in (("A0", "A0 frozen"), ("A2", "A2")):
            for protocol in ("another film", "own film"):
                who: dict[str, Any] = {"attacker": attacker, "protocol": protocol}
                try:
                    if protocol == "another film" and several < FEWEST_PATIENTS:
                        raise Untrainable(too_few(several, "patients with two films outside the train split"))
                    linker = adversary(inquiry.features, view, protocol)  # type: ignore[arg-type]
                except Untrainable as reason:
                    out += absent(metrics, str(reason), **who)
                    continue
                asked, shown = (probes, gallery) if protocol == "another film" else (single, single)
                similarity = linker.similarity(asked, shown)
                options: dict[str, Any] = {"seed": seed, "draws": budget.draws, **who}
                found = retrieval(similarity, patients[asked], patients[shown], **options)
                for m in found:
                    extra = linker.about()
                    if m.metric == metrics[0] and m.measured:
                        curve = gallery_curve(linker, patients, asked, shown, budget.galleries, inquiry.rng)
                        extra |= {"gallery curve": curve, "gallery curve of": "patients in the gallery, rank-1"}
                        extra["cmc"] = _cmc(similarity, patients[asked], patients[shown])
                    out.append(with_detail(m, **extra))
        return out


def _cmc(similarity: NDArray[np.float64], probes: NDArray[np.str_], gallery: NDArray[np.str_]) -> list[list[float]]:
    """[k, share of probes whose patient is among the first k]."""
    ranking = rankings(similarity, probes, gallery)
    ranks = ranking.rank[ranking.kept]
    steps = [k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500) if k < ranking.gallery] + [ranking.gallery]
    return [[k, round(float((ranks <= k).mean()), 4)] for k in steps]
