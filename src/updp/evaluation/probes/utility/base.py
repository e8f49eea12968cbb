"""What utility experiments share: what a budget buys them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.evaluation.probes.base import Budget

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit


@dataclass(frozen=True)
class Effort:
    """What a budget of the attacks buys here. A quick budget is one without optimiser steps for trained attackers."""

    quick: bool
    films: int  # most films looked at, whole patients at a time
    draws: int
    threads: int
    judges: int  # judges trained per regime, whose scores are averaged
    epochs: int  # of a judge
    compared: int  # most films compared pixel by pixel
    groups: int  # of patients left out in turn
    steps: int  # of a captioner, at least
    passes: int  # of a captioner over its films, as far as ``most_steps`` allows
    most_steps: int
    shares: tuple[float, ...]  # of the local films, smallest first
    sharings: int  # of the patients between two hospitals, each with captioners of its own
    generated: int  # most reports written per captioner

    @classmethod
    def of(cls, budget: Budget) -> Effort:
        quick = budget.steps == 0
        return cls(quick, budget.films, budget.draws, budget.threads, **(_QUICK if quick else _FULL))


_FULL: dict[str, Any] = {
    "judges": 3,
    "epochs": 8,
    "compared": 600,
    "groups": 20,
    "steps": 400,
    "passes": 10,
    "most_steps": 600,
    "shares": (0.05, 0.25, 1.0),
    "sharings": 3,
    "generated": 250,
}
_QUICK: dict[str, Any] = {
    "judges": 3,
    "epochs": 6,
    "compared": 300,
    "groups": 10,
    "steps": 90,
    "passes": 0,
    "most_steps": 90,
    "shares": (0.25,),
    "sharings": 1,
    "generated": 100,
}


def patients_in(exhibit: Exhibit, rows: NDArray[Any]) -> int:
    return len(np.unique(exhibit.patients[rows]))
