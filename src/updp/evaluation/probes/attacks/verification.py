"""Verification: are two films of the same patient? By frozen and by adaptive adversaries (see ``adversary``).

Pairs as in PriCheXy-Net (balanced) and all of them; another film of the patient, and the very film a released one was
made from. AUC below one half is no privacy (the score can be negated), so the gate reads max(AUC, 1−AUC), of the
strongest of all adversaries, on an interval widened for having picked it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.probes.attacks.adversary import (
    Linker,
    Untrainable,
    adversary,
    by_findings,
    frozen,
    released_metric,
)
from updp.evaluation.probes.attacks.contest import STRONGEST, Contest, scored, simultaneous, strongest
from updp.evaluation.probes.attacks.features import Features
from updp.evaluation.probes.base import Inquiry, Pairs, Probe, absent, all_pairs, too_few, with_detail
from updp.evaluation.statistics import auc

#: Attacker, which pairs it is scored on, how it is made, and the name under which it runs for the strongest.
TRIALS: tuple[tuple[str, str, str, str | None], ...] = (
    ("A0 frozen", "real-real", "A0 real", None),
    ("labels alone", "another film", "labels", None),
    ("labels alone", "own film", "labels", None),
    ("A0 frozen", "another film", "A0", None),
    ("A0 frozen", "released-released", "A0 inner", None),
    ("A0 frozen", "own film", "A0", None),
    ("A1", "released-released", "A1", "A1"),
    ("A1 as printed", "another film", "A1 crossed", None),
    ("A2", "another film", "A2", "A2"),
    ("A2", "own film", "A2", "A2 own film"),
    ("A3", "another film", "A3", "A3"),
    ("A3", "own film", "A3", "A3 own film"),
)
FIGURES = ("AUC", "max(AUC, 1−AUC)", "EER", "TPR at 0.01 FPR", "TPR at 0.001 FPR")


class Verification(Probe):
    name = "verification"
    question = "film"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        if len(inquiry.patient_rows) < FEWEST_PATIENTS:
            n = len(inquiry.patient_rows)
            names = [*(f"verification {figure}" for figure in FIGURES), STRONGEST]
            return absent(
                names, too_few(n, "patients outside the train split"), n=n, chance=0.5, needed=FEWEST_PATIENTS
            )
        features, budget, seed, several = inquiry.features, inquiry.budget, inquiry.seed, inquiry.several
        patients = inquiry.exhibit.patients
        out: list[Measurement] = []
        running: list[tuple[str, Measurement]] = []
        left_out: dict[str, str] = {}
        for attacker, protocol, view, contender in TRIALS:
            try:
                if protocol != "own film" and several < FEWEST_PATIENTS:
                    raise Untrainable(too_few(several, "patients with two films outside the train split"))
                linker = _linker(features, view, protocol)
            except Untrainable as reason:
                missing: dict[str, Any] = {"attacker": attacker, "protocol": protocol, "chance": 0.5}
                out += absent(["verification AUC"], str(reason), **missing)
                if contender is not None:
                    left_out[contender] = str(reason)
                continue
            kind: Any = "released-released" if protocol == "real-real" else protocol
            pairs = inquiry.pairs(kind)
            found = Contest(attacker, protocol, pairs, linker.scores(pairs), linker.about())
            out += scored(found, patients, budget.draws, seed)
            if contender is not None:
                running.append((contender, simultaneous(found, patients, seed)))
            if protocol != "own film" and view in ("A0", "A1", "A2", "A3"):
                whole = all_pairs(patients, inquiry.scored, inquiry.rng, budget.pairs, protocol == "another film")
                every = Contest(attacker, f"{protocol}, all pairs", whole, linker.scores(whole), linker.about())
                out += scored(every, patients, max(100, budget.draws // 4), seed, curve=False)
        self._rebuilt(inquiry, running, left_out)
        out = [self._sizes(inquiry, m) if (m.attacker, m.protocol) == ("A2", "another film") else m for m in out]
        out.append(with_detail(strongest(running, left_out), contestants=[n for n, _ in running]))
        return out

    def _rebuilt(self, inquiry: Inquiry, running: list[tuple[str, Measurement]], left_out: dict[str, str]) -> None:
        """A4, the frozen verifier on rebuilt films, runs for the strongest too; its figures are its own attack's."""
        from updp.evaluation.probes.attacks.reconstruction import Unrebuildable, rebuild_films

        try:
            linker, rows, _, _ = rebuild_films(inquiry.features)
        except Unrebuildable as reason:
            left_out.update({"A4": str(reason), "A4 own film": str(reason)})
            return
        patients = inquiry.exhibit.patients
        contenders: tuple[tuple[str, Any], ...] = (("A4", "another film"), ("A4 own film", "own film"))
        for contender, kind in contenders:
            pairs = inquiry.pairs(kind)
            kept = np.isin(pairs.left, rows)
            some = Pairs(pairs.left[kept], pairs.right[kept], pairs.same[kept])
            if not some.same.any() or some.same.all() or (contender == "A4" and inquiry.several < FEWEST_PATIENTS):
                left_out[contender] = "no pairs of rebuilt films of one patient"
                continue
            found = Contest("A4", kind, some, linker.scores(some), linker.about())
            running.append((contender, simultaneous(found, patients, inquiry.seed)))

    def _sizes(self, inquiry: Inquiry, m: Measurement) -> Measurement:
        """How the linear adversary grows with the patients it learns from, on the measurement of A2."""
        if not m.measured or m.metric != "verification AUC":
            return m
        pairs, curve = inquiry.pairs("another film"), []
        for share in sorted(inquiry.budget.sizes):
            try:
                linker = adversary(inquiry.features, "A2", "another film", share if share < 1 else 0.999)
            except Untrainable:
                continue
            curve.append([linker.patients, round(float(auc(pairs.same, linker.scores(pairs))), 4)])
        said = "the linear adversary; training patients, AUC"
        return with_detail(m, **{"size curve": curve, "size curve of": said})


def _linker(features: Features, view: str, protocol: str) -> Linker:
    kind: Any = protocol if protocol == "own film" else "another film"
    if view == "A0 real":
        return frozen(features, ("real", "real"))
    if view == "A0 inner":
        return frozen(features, ("released", "released"))
    if view == "labels":
        return by_findings(features, kind)
    if view == "A1 crossed":
        return released_metric(features)
    return adversary(features, view, kind)  # type: ignore[arg-type]
