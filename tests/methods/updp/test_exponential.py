"""The exponential mechanism in whole numbers: its bound is exact, and so are its draws."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from updp.methods.updp.exponential import STEPS, exponential

LEVELS = st.lists(st.integers(0, STEPS), min_size=2, max_size=12)


@given(st.floats(1e-3, 300), LEVELS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_no_two_inputs_differ_by_more_than_epsilon_and_no_probability_is_zero(epsilon, first, random):
    mechanism = exponential(epsilon)
    second = [random.randrange(STEPS + 1) for _ in first]
    for one, other in zip(mechanism.probabilities(first), mechanism.probabilities(second), strict=True):
        assert one > 0
        assert abs(_log(one) - _log(other)) <= epsilon * (1 + 1e-12)
    assert sum(mechanism.probabilities(first)) == 1


def _log(share: Fraction) -> float:
    return math.log(share.numerator) - math.log(share.denominator)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 25.0, 400.0])
def test_the_stated_epsilon_is_that_of_the_weights_and_no_more_than_asked_for(epsilon):
    mechanism = exponential(epsilon)
    assert mechanism.epsilon <= epsilon
    assert mechanism.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert list(mechanism.weights) == sorted(mechanism.weights)


def test_draws_follow_the_exact_probabilities():
    mechanism = exponential(3.0)
    levels = [0, STEPS // 2, STEPS, STEPS]
    rng = np.random.default_rng(0)
    seen = Counter(mechanism.draw(levels, rng) for _ in range(20_000))
    for place, share in enumerate(mechanism.probabilities(levels)):
        spread = math.sqrt(float(share * (1 - share)) / 20_000)
        assert abs(seen[place] / 20_000 - float(share)) < 5 * spread


def test_utilities_outside_the_range_and_no_numbers_get_a_level_too():
    levels = exponential(1.0).levels(np.array([-5.0, 0.0, 0.5, 1.0, 7.0, np.nan, np.inf, -np.inf]))
    assert levels.tolist() == [0, 0, round(STEPS / 2), STEPS, STEPS, 0, STEPS, 0]


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(ValueError, match="greater than 0"):
        exponential(0.0)
