"""What every utility experiment shares: its Protocol, what it may spend, and what its measurements are about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, key_of
from updp.core.measurement import Measurement
from updp.evaluation.probes.attacks.base import SCORED, Budget, within

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack

__all__ = ["SCORED", "Budget", "Cache", "Effort", "Utility", "about", "key_of", "within"]

QUESTION = "utility"


class Utility(Protocol):
    """Measures what a release is still good for, on real patients that no model here has learned from."""

    name: str
    question: str  # a key of ``updp.release.gate.MEASUREMENTS``

    def run(
        self,
        exhibit: Exhibit,
        pack: Pack,
        budget: Budget,
        rng: np.random.Generator,
        cache: Cache | None = None,
    ) -> list[Measurement]: ...


@dataclass(frozen=True)
class Effort:
    """What a budget of the attacks buys here. A quick budget is one without optimiser steps for trained attackers."""

    quick: bool
    films: int  # most films looked at, whole patients at a time
    draws: int
    threads: int
    judges: int  # judges trained a regime, whose scores are averaged
    epochs: int  # of a judge
    compared: int  # most films compared pixel by pixel
    groups: int  # of patients left out in turn
    steps: int  # of a captioner, at least
    passes: int  # of a captioner over its films, as far as ``most_steps`` allows
    most_steps: int
    shares: tuple[float, ...]  # of the local films, smallest first
    sharings: int  # of the patients between two hospitals, each with captioners of its own
    generated: int  # most reports written a captioner

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
    "judges": 1,
    "epochs": 6,
    "compared": 150,
    "groups": 10,
    "steps": 90,
    "passes": 0,
    "most_steps": 90,
    "shares": (0.25,),
    "sharings": 1,
    "generated": 100,
}


def about(measurements: Iterable[Measurement], **detail: Any) -> list[Measurement]:
    """The measurements with the question they answer, and further detail, in their detail."""
    return [replace(m, detail={**m.detail, "question": QUESTION, **detail}) for m in measurements]


def seed_of(rng: np.random.Generator) -> int:
    """A seed for what takes a number, from the stream the caller gave."""
    return int(rng.integers(2**31))


def patients_in(exhibit: Exhibit, rows: NDArray[Any]) -> int:
    return len(np.unique(exhibit.patients[rows]))
