"""The statistics of attacks agree with scikit-learn and with values known by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from updp.evaluation.statistics import (
    accuracy,
    auc,
    chances,
    eer,
    mean_average_precision_chance,
    rank_k_chance,
    rankings,
    ratio,
    tpr_at_fpr,
)

pytestmark = pytest.mark.numeric


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_auc_equals_scikit_learn_with_ties_and_weights():
    labels = rng(1).integers(0, 2, 300)
    scores = np.round(rng(2).normal(labels, 1.5), 1)  # many ties
    weights = rng(3).integers(0, 4, (5, 300))
    assert auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    expected = [roc_auc_score(labels, scores, sample_weight=w) for w in weights]
    assert auc(labels, scores, weights) == pytest.approx(expected, abs=1e-12)


def test_constant_scores_are_chance_everywhere():
    labels = np.arange(100) % 2
    assert auc(labels, np.zeros(100)) == 0.5
    assert eer(labels, np.zeros(100)) == 0.5
    assert tpr_at_fpr(labels, np.zeros(100), 1e-2) == 0.0


def test_perfect_and_reversed_scores():
    labels = np.arange(200) % 2
    assert (auc(labels, labels), eer(labels, labels), tpr_at_fpr(labels, labels, 1e-2)) == (1.0, 0.0, 1.0)
    assert (auc(labels, -labels), eer(labels, -labels)) == (0.0, 1.0)


def test_eer_of_two_shifted_gaussians_is_the_known_value():
    labels = np.repeat([0, 1], 20000)
    scores = rng().normal(labels * 2.0, 1)
    assert eer(labels, scores) == pytest.approx(0.1587, abs=0.01)  # Phi(-1)


def test_tpr_at_fpr_counts_by_hand():
    negatives = np.arange(100) / 100  # 0.99 is the one allowed false alarm at 1 %
    positives = np.array([0.985, 0.995, 1.5, 0.5])
    labels = np.r_[np.zeros(100), np.ones(4)]
    scores = np.r_[negatives, positives]
    assert tpr_at_fpr(labels, scores, 1e-2) == 0.75
    assert tpr_at_fpr(labels, scores, 1e-3) == 0.5


@pytest.mark.parametrize("statistic", [auc, eer, tpr_at_fpr])
def test_nan_scores_are_refused_with_their_number(statistic):
    with pytest.raises(ValueError, match=r"scores: 2 of 4 values are NaN or infinite"):
        statistic([0, 1, 0, 1], [0.1, math.nan, math.inf, 0.2])


def test_one_class_and_strange_labels_are_refused():
    with pytest.raises(ValueError, match="both classes are needed"):
        auc([1, 1], [0.1, 0.2])
    with pytest.raises(ValueError, match="only 0 and 1"):
        auc([0, 2], [0.1, 0.2])
    with pytest.raises(ValueError, match="one label and one score"):
        auc([0, 1], [0.1])


def test_constant_predictor_has_the_majority_rate():
    truth = np.repeat([0, 1, 2, 3], [50, 20, 20, 10])
    uniform, majority = chances(truth)
    assert (uniform, majority) == (0.25, 0.5)
    assert accuracy(truth, np.zeros(100, dtype=int)) == majority
    assert chances(truth, classes=50)[0] == 0.02


def test_ratio_is_the_micro_average_and_undefined_on_nothing():
    assert ratio([1, 0], [1, 3]) == 0.25
    assert math.isnan(ratio([0, 0], [0, 0]))


def test_rankings_agree_with_scikit_learn():
    probes, gallery = rng(1).integers(0, 6, 20), rng(2).integers(0, 6, 50)
    similarity = rng(3).normal(size=(20, 50))
    found = rankings(similarity, probes, gallery)
    expected = [average_precision_score(gallery == p, s) for p, s in zip(probes, similarity, strict=True)]
    assert found.average_precision == pytest.approx(expected)
    first = [1 + np.argmax((gallery == p)[np.argsort(-s)]) for p, s in zip(probes, similarity, strict=True)]
    assert found.rank.tolist() == first


def test_tied_similarity_ranks_in_the_middle_but_ties_between_own_films_cost_nothing():
    gallery = np.arange(99)
    assert rankings(np.zeros((1, 99)), [3], gallery).rank[0] == 50
    assert rankings([[1.0, 1.0, 0.0]], ["a"], ["a", "a", "b"]).rank[0] == 1


def test_rank_chance_matches_random_orders():
    matches, gallery, trials = np.array([1, 3, 10]), 40, 1000
    hits, precision = [], []
    for m in matches:
        owner = np.where(np.arange(gallery) < m, 0, 1)
        found = rankings(rng(int(m)).random((trials, gallery)), np.zeros(trials), owner)
        hits.append((found.rank <= 5).mean())
        precision.append(found.average_precision.mean())
    assert rank_k_chance(matches, gallery, 5) == pytest.approx(np.mean(hits), abs=0.03)
    assert mean_average_precision_chance(matches, gallery) == pytest.approx(np.mean(precision), abs=0.015)
