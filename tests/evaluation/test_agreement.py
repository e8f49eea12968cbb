"""Kappas against scikit-learn, statsmodels and published examples; their variance; films for a narrow interval."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater

from updp.evaluation.agreement import cohen_kappa, films_needed, fleiss_kappa, kappa_variance, mean_kappa, perfect_bound
from updp.evaluation.intervals import bootstrap


def readings(seed: int, films: int = 200, categories: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, categories, films)
    return first, np.where(rng.random(films) < 0.7, first, rng.integers(0, categories, films))


@pytest.mark.parametrize("seed", range(5))
def test_cohens_kappa_is_that_of_scikit_learn_and_statsmodels(seed):
    first, second = readings(seed)
    table, _ = inter_rater.to_table(np.stack([first, second], axis=1), bins=3)
    theirs = inter_rater.cohens_kappa(table)
    assert cohen_kappa(first, second) == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)
    assert cohen_kappa(first, second) == pytest.approx(theirs.kappa, abs=1e-12)
    assert kappa_variance(table) / len(first) == pytest.approx(theirs.var_kappa, rel=1e-12)


def test_kappa_of_a_published_table():
    # Two readers and a grant panel's 50 proposals: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no; kappa 0.40.
    first = np.repeat([1, 1, 0, 0], [20, 5, 10, 15])
    second = np.repeat([1, 0, 1, 0], [20, 5, 10, 15])
    assert cohen_kappa(first, second) == pytest.approx(0.40, abs=1e-12)


def test_fleiss_kappa_of_the_example_of_fourteen_raters():
    # Ten subjects, fourteen raters, five categories: kappa 0.210 (the example most textbooks print).
    counts = np.array(
        [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
         [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]
    )  # fmt: skip
    table = np.stack([np.repeat(np.arange(5), row) for row in counts])
    assert fleiss_kappa(table) == pytest.approx(0.210, abs=5e-4)
    assert fleiss_kappa(table) == pytest.approx(inter_rater.fleiss_kappa(counts, method="fleiss"), abs=1e-12)


def test_a_weight_is_a_repetition():
    first, second = readings(1, films=12)
    times = np.array([0, 1, 2, 3] * 3)
    again = np.repeat(np.arange(12), times)
    assert cohen_kappa(first, second, times) == pytest.approx(cohen_kappa(first[again], second[again]))
    table = np.stack([first, second], axis=1)
    assert fleiss_kappa(table, times) == pytest.approx(fleiss_kappa(table[again]))
    twice = cohen_kappa(first, second, np.stack([times, times]))
    assert twice == pytest.approx([cohen_kappa(first, second, times)] * 2)


def test_kappa_is_not_defined_where_chance_alone_agrees():
    assert np.isnan(cohen_kappa([0, 0, 0], [0, 0, 0]))
    assert np.isnan(fleiss_kappa([[1, 1], [1, 1]]))
    varied, constant = readings(0, 40, 2)[0], np.zeros(40, int)
    both = np.stack([varied, constant], axis=1)
    assert mean_kappa(both, both) == 1.0  # the finding that nobody saw says nothing, and does not spoil the mean


def test_the_planned_number_of_films_gives_the_planned_interval():
    kappa, prevalence, margin = 0.8, 0.3, 0.05
    n = films_needed(kappa, prevalence, margin=margin)
    rng = np.random.default_rng(0)
    both = prevalence**2 + kappa * prevalence * (1 - prevalence)
    cells = rng.choice(4, n, p=[both, prevalence - both, prevalence - both, 1 - 2 * prevalence + both])
    interval = bootstrap(cohen_kappa, np.arange(n), cells < 2, cells % 2 == 0, rng=rng)
    # The bootstrap of one sample misses the asymptotic width by its own sampling error, a few parts in a hundred.
    assert (interval.high - interval.low) / 2 == pytest.approx(margin, rel=0.25)


def test_more_readers_help_less_than_independent_ones_would():
    alone = films_needed(0.8, 0.3)
    assert alone / 3 < films_needed(0.8, 0.3, readers=3) < alone
    assert films_needed(0.8, 0.3, readers=3, shared=1.0) == alone


@pytest.mark.parametrize("wrong", [{"kappa": 1.0}, {"prevalence": 0.0}, {"margin": 0.0}, {"readers": 0}])
def test_a_plan_without_sense_is_refused(wrong):
    given = {"kappa": 0.8, "prevalence": 0.3} | wrong
    with pytest.raises(ValueError, match="kappa and shared"):
        films_needed(**given)


def test_perfect_agreement_of_few_films_leaves_room():
    halves = np.arange(20) % 2
    both = np.stack([halves, halves], axis=1)
    # With half of the films positive chance agrees in half of them: kappa falls by twice the share of disagreement.
    assert perfect_bound(both) == pytest.approx(1 - 2 * (1 - 0.05 ** (1 / 20)))
    assert perfect_bound(np.tile(both, (50, 1))) > 0.99
    assert np.isnan(perfect_bound(np.ones((5, 2))))
