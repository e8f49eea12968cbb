"""Reading AUCs of several readers: the published analysis of the Van Dyke study, and what must hold of any."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from updp.core.measurement import TooFewPatients
from updp.evaluation.mrmc import analyse_areas, compare, jackknife_areas

#: Empirical AUCs of the five readers of Van Dyke et al. (1993) for cine and spin echo, as printed with the data.
VAN_DYKE = np.array(
    [
        [0.91964573, 0.85877617, 0.90386473, 0.97310789, 0.82979066],
        [0.94782609, 0.90531401, 0.92173913, 0.99935588, 0.92995169],
    ]
)


def ratings(seed: int, readers: int = 4, cases: int = 60, gain: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.arange(cases) % 3 == 0
    case = rng.normal(size=cases)
    seen = truth * 1.5 + case + rng.normal(size=(2, readers, cases))
    seen[1] += gain * truth
    return truth, seen


def test_the_published_analysis_of_van_dyke():
    # Hillis (2007), table of the Obuchowski-Rockette analysis with jackknife covariances.
    found = analyse_areas(VAN_DYKE, 0.0008022883, 0.0003466137, 0.0003440748, 0.0002390284)
    assert found.mean_square == pytest.approx(0.004796171, rel=1e-5)
    assert found.interaction == pytest.approx(0.0005510306, rel=1e-4)
    assert found.f == pytest.approx(4.456319, rel=1e-4)
    assert found.degrees == pytest.approx(15.25967, rel=1e-4)
    assert found.p == pytest.approx(0.05166569, rel=1e-3)
    assert found.difference == pytest.approx((0.04380032, -0.0003588544, 0.0879594986), abs=1e-6)


def test_areas_and_jackknife_are_those_of_their_definition():
    truth, seen = ratings(0, readers=2, cases=30)
    areas, covariance = jackknife_areas(truth, seen)
    assert areas[1, 0] == pytest.approx(roc_auc_score(truth, seen[1, 0]))
    flat = seen.reshape(4, -1)
    without = np.array([[roc_auc_score(np.delete(truth, i), np.delete(row, i)) for i in range(30)] for row in flat])
    assert covariance == pytest.approx(np.cov(without) * 29 * 29 / 30)


def test_the_interval_covers_no_difference_about_as_often_as_it_says():
    hits = sum(low <= 0 <= high for _, low, high in (compare(*ratings(seed)).difference for seed in range(200)))
    # 200 draws of a 95 % interval: fewer than 180 hits have probability below 0.002 at 95 %.
    assert hits >= 180


def test_a_real_gain_is_seen():
    found = compare(*ratings(1, cases=200, gain=1.5))
    assert found.difference.low > 0
    assert found.p < 0.05


def test_readers_who_are_always_right_differ_by_nothing():
    truth = np.arange(20) % 2 == 0
    found = compare(truth, np.broadcast_to(truth * 1.0, (2, 3, 20)))
    assert found.difference == (0.0, 0.0, 0.0)


def test_a_finding_with_one_case_cannot_be_compared():
    truth = np.arange(20) == 3
    with pytest.raises(TooFewPatients, match="two cases with"):
        compare(truth, np.zeros((2, 3, 20)))
