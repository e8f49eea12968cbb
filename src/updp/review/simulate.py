"""Readers that are a program, for tests and for planning a study. Their plan, names and figures say so everywhere.

A simulated reader sees a finding with a strength that depends on whether the plan's truth has it, on the patient, on
the film and on the moment; released films blur it a little more. This is no model of a radiologist; it only gives
readings whose agreement lies between none and perfect.
"""

from __future__ import annotations

import datetime as dt

import numpy as np

from updp.core.keys import Key
from updp.review.answers import Answer, Answers
from updp.review.plan import BadPlan, Plan

#: Where a strength turns into the next step of confidence.
_CUTS = (-0.6, 0.2, 0.9, 1.7)
_START = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


def simulate(plan: Plan, answers: Answers, key: Key, *, seed: int = 0, skill: float = 3.0) -> int:
    """Answer every item of every simulated reader; returns how many. Refuses a plan for people."""
    if not plan.simulated:
        raise BadPlan("this plan is for human readers; simulated readers answer only plans made with --simulated")
    count = 0
    for reader in plan.readers:
        rng = key.rng("simulated", plan.digest, reader.name, str(seed))
        made = []
        patients: dict[str, np.ndarray] = {}
        for place, item in enumerate(reader.items):
            film = plan.films[item.film]
            truth = np.array(film.truth or (0,) * len(plan.findings))
            own = patients.setdefault(film.patient, key.rng("simulated", film.patient).normal(size=len(truth)) * 0.4)
            noise = 0.3 if film.version == "original" else 0.4
            seen = truth * skill * 0.8 + own + rng.normal(size=len(truth)) * noise - 0.4
            findings = tuple(int(v) for v in 1 + np.searchsorted(_CUTS, seen))
            quality = int(np.clip(round(4.2 - (film.version == "released") * 0.4 + rng.normal() * 0.5), 1, 5))
            guess = "generated" if rng.random() < (0.45 if film.version == "original" else 0.55) else "real"
            at = (_START + dt.timedelta(minutes=place)).isoformat()
            made.append(Answer(place, item.film, findings, quality, guess, at, 20_000))
        answers.add(reader.name, made)
        count += len(made)
    return count
