"""Membership of faces: does a method treat the photographs that it learned from in another way than others?

A network that was trained to keep some things of a photograph and to change others does both better on photographs it
has seen. The attacker holds the real photograph and its released counterpart, and looks at how far they are apart: in
pixels, in the pixels around the eyes, and for each recogniser. The scores are those of ``membership``. Nothing has to
be known of the networks, so the attack serves every method; an attacker who holds the weights may know more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.core.questions import Exemption
from updp.evaluation.probes.attacks.faces import look
from updp.evaluation.probes.attacks.membership import METRICS, by_mean, inferred
from updp.evaluation.probes.base import Inquiry, Probe, absent, too_few
from updp.evaluation.probes.photographs import eyes_of, find_all
from updp.models import recognisers


class FaceMembership(Probe):
    """``members`` says which rows of the exhibit trained the method; without it nothing is measured."""

    name = "face membership"
    question = "membership"
    domains = ("face",)

    def __init__(self, members: NDArray[np.bool_] | None = None) -> None:
        self.members = members

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit, method = inquiry.exhibit, inquiry.method
        if method is not None and not method.learned_from_images:
            exempt = Exemption.LEARNED_NOTHING
            return absent(METRICS, exempt.words, chance=0.5, exemption=exempt)
        if self.members is None:
            return absent(METRICS, "nobody said which photographs the method learned from", chance=0.5)
        if self.members.shape != (len(exhibit),):
            raise ValueError(f"members has {self.members.shape} rows for {len(exhibit)} photographs")
        real = find_all(exhibit.real, inquiry.cache)
        released = find_all(exhibit.released, inquiry.cache, real)
        sight = look(exhibit, inquiry.cache)
        sides = [eyes_of(photos, found) for photos, found in ((exhibit.real, real), (exhibit.released, released))]
        apart = [
            np.abs(exhibit.real.astype(np.float64) - exhibit.released).mean((1, 2, 3)) / 255,
            np.abs(sides[0] - sides[1]).mean((1, 2, 3)),
            *(np.linalg.norm(sight.real[name] - sight.released[name], axis=1) for name in recognisers.available()),
        ]
        return told_apart(apart, self.members, exhibit.patients, inquiry.seed, inquiry.budget.draws)


def told_apart(
    apart: Sequence[NDArray[Any]], members: NDArray[np.bool_], patients: NDArray[np.str_], seed: int, draws: int
) -> list[Measurement]:
    """What distances of photographs to their released counterparts say of who trained."""
    losses, names = by_mean(np.stack([np.asarray(one, np.float64) for one in apart], 1), patients)
    # Each distance counts as much as any other, whatever its unit.
    losses = losses / np.maximum(losses.mean(0), 1e-9)
    inside = np.isin(names, patients[members])
    for state, who in ((True, "people who trained the method"), (False, "people who did not")):
        if (have := int((inside == state).sum())) < FEWEST_PATIENTS:
            return absent(METRICS, too_few(have, who), n=have, chance=0.5, needed=FEWEST_PATIENTS)
    about = {"members_are": "given", "members": int(inside.sum()), "non_members": int((~inside).sum())}
    return inferred(losses, inside, names, seed, draws, about)
