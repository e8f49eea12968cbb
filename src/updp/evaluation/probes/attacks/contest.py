"""One adversary on one kind of pairs: its figures, and the strongest of several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from updp.core.measurement import Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.linkage import fold, verification
from updp.evaluation.probes.base import CONTENDERS, Pairs, roc_points, with_detail
from updp.evaluation.statistics import auc

STRONGEST = "strongest linkage"
#: Draws behind the widened interval, whose tails are a few in a thousand.
_TAIL_DRAWS = 4000


class Contest(NamedTuple):
    """One adversary on one kind of pairs."""

    attacker: str
    protocol: str
    pairs: Pairs
    scores: NDArray[np.float64]
    about: dict[str, Any]


def simultaneous(contest: Contest, patients: NDArray[np.str_], seed: int) -> Measurement:
    """max(AUC, 1−AUC) at the level at which all contenders' intervals hold at once."""
    pairs = contest.pairs
    level = 1 - 0.05 / len(CONTENDERS)
    area = measure(
        "verification AUC",
        auc,
        patients[pairs.left],
        pairs.same,
        contest.scores,
        right=patients[pairs.right],
        chance=0.5,
        better="closer to chance",
        seed=seed,
        attacker=contest.attacker,
        protocol=contest.protocol,
        draws=_TAIL_DRAWS,
        level=level,
    )
    return fold(area, STRONGEST)


def strongest(contests: list[tuple[str, Measurement]], left_out: dict[str, str]) -> Measurement:
    """The largest of the contenders' figures; its interval holds for whichever of them is largest (Bonferroni)."""
    measured = [(name, m) for name, m in contests if m.measured]
    detail: dict[str, Any] = {
        "correction": f"Bonferroni over {len(CONTENDERS)} contenders: each interval at level "
        f"{1 - 0.05 / len(CONTENDERS):.4f}, the largest of the lower and of the upper bounds",
        "not_in_the_running": left_out,
    }
    if not measured:
        reasons = dict.fromkeys([*left_out.values(), *(str(m.reason) for _, m in contests)])
        needs = [int(m.detail["patients_needed"]) for _, m in contests if "patients_needed" in m.detail]
        detail |= {"patients_needed": max(needs)} if needs else {}
        return Measurement.missing(
            STRONGEST, "; ".join(reasons) or "no adversary", chance=0.5, better="lower", detail=detail
        )
    winner, top = max(measured, key=lambda item: item[1].value)
    detail["strongest"] = winner
    detail["contenders"] = {name: [round(v, 4) for v in (m.value, m.low, m.high)] for name, m in measured}
    low, high = max(m.low for _, m in measured), max(m.high for _, m in measured)
    about = {**top.detail, **detail}
    return replace(top, low=low, high=high, better="lower", chance=0.5, detail=about)


def scored(
    contest: Contest, patients: NDArray[np.str_], draws: int, seed: int, curve: bool = True
) -> list[Measurement]:
    """The figures of one adversary on one kind of pairs."""
    pairs = contest.pairs
    found = verification(
        pairs.same,
        contest.scores,
        patients[pairs.left],
        patients[pairs.right],
        seed=seed,
        attacker=contest.attacker,
        draws=draws,
        detail=contest.about,
        protocol=contest.protocol,
    )
    drawn = {"roc": roc_points(pairs.same, contest.scores)} if curve else {}
    return [with_detail(m, **drawn) if m.metric == "verification AUC" and m.measured else m for m in found]
