"""People whom a method learned from are told from others by what it leaves of them, and only then."""

from __future__ import annotations

import numpy as np
import pytest

from updp.core.questions import Exemption
from updp.evaluation.probes.attacks.face_membership import FaceMembership, told_apart
from updp.evaluation.probes.base import Budget, Inquiry, MethodUse

PEOPLE = 80


def distances(gap: float) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    patients = np.repeat([f"p{n:02d}" for n in range(PEOPLE)], 3)
    members = np.repeat(np.arange(PEOPLE) % 2 == 0, 3)
    return [rng.normal(5 - gap * members, 1) for _ in range(3)], members, patients


def test_what_is_nearer_for_people_of_the_training_gives_them_away():
    found = {m.attacker: m for m in told_apart(*distances(3.0), seed=0, draws=200) if m.metric == "membership AUC"}
    # Means of nine numbers each: the groups lie nine spreads apart.
    assert found["loss threshold"].low > 0.9


def test_a_method_that_treats_everybody_alike_gives_nobody_away():
    found = [m for m in told_apart(*distances(0.0), seed=0, draws=200) if m.metric == "membership AUC"]
    # The AUC of two groups of forty alike has a spread of 0.065; five of them is beyond chance.
    assert all(abs(m.value - 0.5) < 0.33 for m in found)


def test_too_few_people_are_an_outcome():
    apart, members, patients = distances(0.0)
    few = told_apart([own[:12] for own in apart], members[:12], patients[:12], seed=0, draws=50)
    assert not any(m.measured for m in few)


@pytest.mark.parametrize(("learned", "exempt"), [(False, Exemption.LEARNED_NOTHING), (True, None)])
def test_without_members_nothing_is_measured_and_a_method_that_learned_nothing_need_not_be(learned, exempt):
    class Bare:
        paired = None

        def __len__(self) -> int:
            return 0

    inquiry = Inquiry.__new__(Inquiry)
    inquiry.__dict__ |= {"exhibit": Bare(), "method": MethodUse("any", learned_from_images=learned), "seed": 0}
    inquiry.budget = Budget.quick()
    found = FaceMembership().measure(inquiry)
    assert all(not m.measured and m.exemption == exempt for m in found)
