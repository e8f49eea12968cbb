"""What draws spend together: never more than by addition, and the audit finds a mechanism that spends more."""

import math

import numpy as np
import pytest

from tests.chance import empirical_epsilon
from updp.methods.updp.accountant import ORDERS, renyi, share, spent


@pytest.mark.parametrize("words", [1, 4, 40])
@pytest.mark.parametrize("budget", [0.5, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_budget_is_used_up_and_not_exceeded(words, budget, delta):
    word = share(budget, words, delta)
    total, used = spent(word, words, delta)
    assert total <= budget * (1 + 1e-9)
    assert total == pytest.approx(budget, rel=1e-6)
    assert word >= budget / words * (1 - 1e-9)
    assert used in (0.0, delta)


def test_many_words_cost_less_by_renyi_divergence_than_by_addition():
    assert share(1.0, 40, 1e-6) > 1.2 / 40
    assert share(1.0, 40, 0.0) == pytest.approx(1 / 40)
    assert spent(share(1.0, 40, 1e-6), 40, 1e-6)[1] == 1e-6


def test_the_divergence_bounds_that_of_the_worst_pair_of_bounded_range():
    """Two outcomes with log ratios t and t - epsilon: no pair of that range diverges more (Dong et al. 2020)."""
    for epsilon in (0.1, 1.0, 5.0):
        for order in ORDERS[::10]:
            for t in np.linspace(0, epsilon, 21)[1:-1]:
                q = (1 - math.exp(t - epsilon)) / (math.exp(t) - math.exp(t - epsilon))
                logs = (math.log(q) + order * t, math.log(1 - q) + order * (t - epsilon))
                exact = np.logaddexp(*logs) / (order - 1)
                assert exact <= renyi(epsilon, order) + 1e-9


def test_the_audit_stays_below_the_truth_and_comes_near_it():
    rng = np.random.default_rng(0)
    likely = math.exp(2) / (math.exp(2) + 1)
    counts = [rng.multinomial(20_000, [p, 1 - p]).tolist() for p in (likely, 1 - likely)]
    assert 1.8 < empirical_epsilon(*counts) <= 2.0
    assert empirical_epsilon([500, 500], [500, 500]) < 0.5
