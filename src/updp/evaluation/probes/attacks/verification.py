"""Verification: are two films of the same patient? By frozen and by adaptive adversaries (see ``adversary``).

Pairs as in PriCheXy-Net (balanced) and all of them; another film of the patient, and the very film a released one was
made from. AUC below one half is no privacy (the score can be negated), so the gate reads max(AUC, 1−AUC), of the
strongest of all adversaries, on an interval widened for having picked it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from updp.core.cache import Cache, Layered, Shelved
from updp.core.global_state import limited
from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.probes.attacks.adversary import (
    Linker,
    Untrainable,
    adversary,
    by_findings,
    frozen,
    released_metric,
)
from updp.evaluation.probes.attacks.base import (
    SCORED,
    Budget,
    Pairs,
    absent,
    all_pairs,
    balanced_pairs,
    by_patient,
    named,
    own_pairs,
    too_few,
    within,
)
from updp.evaluation.probes.attacks.features import Look
from updp.evaluation.statistics import auc

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack
from updp.evaluation.probes.attacks.contest import QUESTION, Contest, scored, simultaneous, strongest

_FIGURES = ("AUC", "max(AUC, 1−AUC)", "EER", "TPR at 0.01 FPR", "TPR at 0.001 FPR")


class Verification(Shelved):
    name = "verification"
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
        patients, rows = exhibit.patients, exhibit.rows(*SCORED)
        people = by_patient(patients, rows)
        several = sum(len(films) > 1 for films in people)
        if len(people) < FEWEST_PATIENTS:
            reason = too_few(len(people), "patients outside the train split")
            need = FEWEST_PATIENTS
            names = [f"verification {figure}" for figure in _FIGURES]
            return [
                *absent(names, reason, question=QUESTION, n=len(people), needed=need),
                *absent(["strongest linkage"], reason, question=QUESTION, n=len(people), chance=0.5, needed=need),
            ]
        with limited(budget.threads):
            look = Look(originals, pack, budget, Layered(self.shelf, cache))
            return self._measure(look, several, seed)

    def _measure(self, look: Look, several: int, seed: int) -> list[Measurement]:
        exhibit, budget = look.exhibit, look.budget
        patients, rows = exhibit.patients, exhibit.rows(*SCORED)
        rng = np.random.default_rng(seed)
        outer = balanced_pairs(patients, rows, rng, budget.per_patient, ordered=True)
        inner = balanced_pairs(patients, rows, rng, budget.per_patient, ordered=False)
        own = own_pairs(patients, rows, rng, budget.per_patient)
        every = {flag: all_pairs(patients, rows, rng, budget.pairs, flag) for flag in (True, False)}
        out: list[Measurement] = []
        running: list[tuple[str, Measurement]] = []
        left_out: dict[str, str] = {}
        one_film = too_few(several, "patients with two films outside the train split")

        def contest(
            name: str, attacker: str, linker: Linker, pairs: Pairs, pairs_of: str, contender: str | None = None
        ) -> None:
            about = {"question": QUESTION, "pairs": pairs_of, **linker.about()}
            found = Contest(name, attacker, pairs, linker.scores(pairs), about)
            figures = scored(found, patients, budget.draws, seed)
            out.extend(figures)
            if contender is not None:
                running.append((contender, simultaneous(found, patients, seed)))

        def give_up(name: str, attacker: str, reason: str, contender: str | None = None) -> None:
            out.extend(absent([f"verification AUC {name}"], reason, question=QUESTION, attacker=attacker, chance=0.5))
            if contender is not None:
                left_out[contender] = reason

        kinds = {
            "outer": (outer, every[True], "released with real, another film of the patient"),
            "inner": (inner, every[False], "released with released, another film of the patient"),
            "own": (own, None, "released with the real film it was made from"),
            "real": (inner, None, "real with real, another film of the patient"),
        }
        trials: list[tuple[str, str, str, str, str | None]] = [
            ("real-real, for reference", "A0 frozen, real films", "real", "A0 real", None),
            ("findings alone, for reference", "labels, no film", "outer", "labels", None),
            ("findings alone own film, for reference", "labels, no film, own film", "own", "labels", None),
            ("A0 frozen", "A0 frozen", "outer", "A0", None),
            ("A0 frozen released-released", "A0 frozen, released-released", "inner", "A0 inner", None),
            ("A0 frozen own film", "A0 frozen, own film", "own", "A0", None),
            ("A1 released-released", "A1 released-released", "inner", "A1", "A1"),
            ("A1 as printed", "A1 trained released-released, scored released-real", "outer", "A1 crossed", None),
            ("A2 released-real", "A2 released-real", "outer", "A2", "A2"),
            ("A2 own film", "A2 released-real, own film", "own", "A2", "A2 own film"),
            ("A3 oracle", "A3 oracle", "outer", "A3", "A3"),
            ("A3 own film", "A3 oracle, own film", "own", "A3", "A3 own film"),
        ]
        for name, attacker, kind, view, contender in trials:
            balanced, whole, words = kinds[kind]
            if kind != "own" and several < FEWEST_PATIENTS:
                give_up(name, attacker, one_film, contender)
                continue
            try:
                linker = _linker(look, view, kind)
            except Untrainable as reason:
                give_up(name, attacker, str(reason), contender)
                continue
            contest(name, attacker, linker, balanced, words, contender)
            if whole is not None and view in ("A0", "A1", "A2", "A3"):
                found = Contest(
                    f"{name} all pairs",
                    f"{attacker}, all pairs",
                    whole,
                    linker.scores(whole),
                    {"question": QUESTION, "pairs": f"{words}; all pairs", **linker.about()},
                )
                out.extend(scored(found, patients, max(100, budget.draws // 4), seed, curve=False))
        self._rebuilt(look, outer, own, several, seed, out, running, left_out)
        self._sizes(look, outer, several, seed, out)
        out.append(named(strongest(running, left_out), "strongest linkage", contestants=[n for n, _ in running]))
        return out

    def _rebuilt(
        self,
        look: Look,
        outer: Pairs,
        own: Pairs,
        several: int,
        seed: int,
        out: list[Measurement],
        running: list[tuple[str, Measurement]],
        left_out: dict[str, str],
    ) -> None:
        """A4, the frozen verifier on rebuilt films, runs for the strongest too; its figures are its own attack's."""
        from updp.evaluation.probes.attacks.reconstruction import Unrebuildable, rebuilt_films

        try:
            linker, rows, _, _ = rebuilt_films(look)
        except Unrebuildable as reason:
            left_out.update({"A4": str(reason), "A4 own film": str(reason)})
            return
        patients = look.exhibit.patients
        for contender, pairs in (("A4", outer), ("A4 own film", own)):
            kept = np.isin(pairs.left, rows)
            some = Pairs(pairs.left[kept], pairs.right[kept], pairs.same[kept])
            if not some.same.any() or some.same.all() or (contender == "A4" and several < FEWEST_PATIENTS):
                left_out[contender] = "no pairs of rebuilt films of one patient"
                continue
            found = Contest(contender, "A4 reconstruction", some, linker.scores(some), linker.about())
            running.append((contender, simultaneous(found, patients, seed)))

    def _sizes(self, look: Look, outer: Pairs, several: int, seed: int, out: list[Measurement]) -> None:
        """How the linear adversary grows with the patients it learns from, on the measurement of A2."""
        place = next((i for i, m in enumerate(out) if m.name == "verification AUC A2 released-real"), None)
        if place is None or not out[place].measured or several < FEWEST_PATIENTS:
            return
        curve = []
        for share in sorted(look.budget.sizes):
            try:
                linker = adversary(look, "A2", "other", share if share < 1 else 0.999)
            except Untrainable:
                continue
            curve.append([linker.patients, round(float(auc(outer.same, linker.scores(outer))), 4)])
        out[place] = named(
            out[place],
            out[place].name,
            **{"size curve": curve, "size curve of": "the linear adversary; training patients, AUC"},
        )


def _linker(look: Look, view: str, kind: str) -> Linker:
    if view == "A0 real":
        return frozen(look, ("real", "real"))
    if view == "A0 inner":
        return frozen(look, ("released", "released"))
    if view == "labels":
        return by_findings(look, "own" if kind == "own" else "other")
    if view == "A1 crossed":
        return released_metric(look)
    if view in ("A0", "A1", "A2", "A3"):
        return adversary(look, view, "own" if kind == "own" else "other")  # type: ignore[arg-type]
    raise ValueError(view)
