"""Record: what manifest and report reveal by themselves, without any film.

Labels, view and attributes are published with every film. An attacker who knows them of a real study links it to the
release without the film. Measured are that linkage, the share of patients whose published record nobody else shares,
and the smallest group that shares one. Reports are linked by their words in the probe ``text``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.probes.attacks.adversary import Untrainable, by_findings
from updp.evaluation.probes.attacks.matching import Protocol
from updp.evaluation.probes.base import Inquiry, Probe, absent, too_few
from updp.evaluation.statistics import auc, mean

LINKAGE, ALONE, SMALLEST = "record linkage AUC", "alone with their record", "smallest cell"
#: Values of ``min_cell`` whose cost the report shows.
TRIED = (2, 3, 5, 10)
ATTACKER = "manifest, no film"


def cells(records: NDArray[np.str_], patients: NDArray[np.str_]) -> NDArray[np.intp]:
    """For every film, how many patients have a film with the same published record."""
    names, place = np.unique(records, return_inverse=True)
    who = np.unique(patients, return_inverse=True)[1]
    seen = np.unique(np.stack([place.reshape(-1), who.reshape(-1)]), axis=1)
    sizes: NDArray[np.intp] = np.bincount(seen[0], minlength=len(names))[place.reshape(-1)]
    return sizes


class Record(Probe):
    name = "record"
    question = "record"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit, seed = inquiry.whole.paired, inquiry.seed
        sizes = cells(exhibit.records, exhibit.patients)
        patients = np.unique(exhibit.patients)
        alone = np.array([sizes[exhibit.patients == patient].min() == 1 for patient in patients], float)
        cost = {str(k): {"films": int((sizes < k).sum()), "share": float((sizes < k).mean())} for k in TRIED}
        out = [*self._linkage(inquiry)]
        detail: dict[str, Any] = {"min_cell": cost, "films": len(exhibit)}
        out.append(measure(ALONE, mean, patients, alone, better="lower", chance=0.0, seed=seed, detail=detail))
        smallest = float(sizes.min()) if len(sizes) else 0.0
        # A count of this release, not an estimate of others: it has no interval.
        counted = {**detail, "unit": "patients", "interval": "a count of this release"}
        out.append(Measurement(SMALLEST, smallest, smallest, smallest, len(patients), None, "higher", detail=counted))
        return out

    def _linkage(self, inquiry: Inquiry) -> list[Measurement]:
        """The manifest attacker among impostors drawn at random, which is what its record gives away."""
        out: list[Measurement] = []
        kinds: tuple[Protocol, ...] = ("another film", "own film")
        for protocol in kinds:
            who: dict[str, Any] = {"attacker": ATTACKER, "protocol": protocol, "chance": 0.5}
            try:
                if len(inquiry.patient_rows) < FEWEST_PATIENTS:
                    raise Untrainable(too_few(len(inquiry.patient_rows), "patients outside the train split"))
                if protocol == "another film" and inquiry.several < FEWEST_PATIENTS:
                    raise Untrainable(too_few(inquiry.several, "patients with two films outside the train split"))
                linker = by_findings(inquiry, protocol)
            except Untrainable as reason:
                out += absent([LINKAGE], str(reason), **who)
                continue
            pairs, patients = inquiry.pairs(protocol), inquiry.exhibit.patients
            rows = (patients[pairs.left], pairs.same, linker.scores(pairs))
            options = {"better": "lower", "seed": inquiry.seed, "draws": inquiry.budget.draws, **who}
            out.append(measure(LINKAGE, auc, *rows, right=patients[pairs.right], **options))
        return out
