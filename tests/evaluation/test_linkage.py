"""Verification, identification and retrieval: planted identity is found, chance is at chance."""

from __future__ import annotations

import numpy as np
import pytest

from tests.chance import at_chance, hits_within
from tests.evaluation.pairs import pairs
from updp.core.measurement import Measurement
from updp.evaluation.linkage import fold, identification, retrieval, verification
from updp.evaluation.statistics import (
    fixed_order,
)

pytestmark = pytest.mark.numeric


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def example(**changes) -> Measurement:
    fields = {"value": 0.62, "low": 0.55, "high": 0.7, "n": 40, "chance": 0.5, "better": "closer to chance"}
    return Measurement("verification AUC", **{**fields, **changes})


def test_folding_starts_at_one_half_exactly_where_the_interval_includes_it():
    over = fold(example(value=0.48, low=0.45, high=0.53))
    assert (over.value, over.low, over.high) == pytest.approx((0.52, 0.5, 0.55))
    under = fold(example(value=0.3, low=0.25, high=0.38))
    assert (under.value, under.low, under.high) == pytest.approx((0.7, 0.62, 0.75))
    assert under.better == "lower"


def test_shuffled_labels_cover_chance_in_every_verification_measure():
    hits = np.zeros(3)
    for seed in range(60):
        same, _, left, right = pairs(seed, patients=50, effect=0)
        scores = rng(seed + 500).permutation(np.linspace(0, 1, len(same)))
        found = verification(same, scores, left, right, seed=seed, fprs=(), draws=200)
        hits += [m.covers(0.5) for m in found]
    assert all(hits_within(int(count), 60, 0.92, 1.0) for count in hits)


def test_verification_finds_planted_identity_and_names_its_attacker():
    same, _, left, right = pairs(1, patients=60, size=2000)
    scores = same + 0.05 * rng(1).normal(size=2000)
    found = verification(same, scores, left, right, seed=1, attacker="A2")
    assert [m.metric for m in found] == [
        "verification AUC",
        "verification max(AUC, 1−AUC)",
        "verification EER",
        "verification TPR at 0.01 FPR",
        "verification TPR at 0.001 FPR",
    ]
    assert found[0].low > 0.99
    assert found[4].value > 0.99
    assert all(m.attacker == "A2" and m.n == 60 and m.detail["different"] == 1000 for m in found)


def test_low_false_positive_rates_need_enough_impostor_pairs():
    same, scores, left, right = pairs(1, size=400)
    last = verification(same, scores, left, right, seed=1, draws=50)[-1]
    assert "200 pairs of different patients cannot show this rate, at least 1000 needed" in str(last)


def test_one_film_a_patient_leaves_verification_unmeasured():
    found = verification(np.zeros(30), rng().random(30), np.arange(30), np.arange(30) + 100, seed=0)
    assert all(not m.measured and "no pair of films of the same patient" in m.reason for m in found)


def test_identification_carries_both_chance_levels():
    truth = np.repeat(np.arange(20), np.r_[np.full(19, 2), 12])
    m = identification("50-patient accuracy", truth, truth, truth, seed=0)
    assert (m.value, m.low, m.high) == (1, 1, 1)
    assert m.chance == m.detail["majority_chance"] == 12 / 50
    assert m.detail["uniform_chance"] == 1 / 20


def test_retrieval_at_random_covers_its_chance_and_counts_probes_without_match():
    probes = np.repeat(np.arange(60), 3)
    gallery = np.repeat(np.arange(50), 2)
    found = retrieval(rng(2).normal(size=(180, 100)), probes, gallery, seed=0)
    assert [m.name for m in found] == ["retrieval rank-1", "retrieval rank-5", "retrieval mAP"]
    assert all(at_chance(m) and m.detail["probes_without_match"] == 30 for m in found)
    assert found[0].chance == pytest.approx(0.02)


def test_retrieval_without_any_match_is_not_measured():
    found = retrieval(np.ones((3, 2)), ["a", "b", "c"], ["x", "y"], seed=0)
    assert all("no probe has a film of its patient" in m.reason for m in found)


def test_retrieval_that_always_answers_the_same_is_at_its_chance():
    """One patient has most of the probes: a score that looks at no probe finds him whenever he is meant."""
    probes = np.array(["a"] * 8 + [f"p{i}" for i in range(12)])
    gallery = np.array(["b", "a", *[f"p{i}" for i in range(12)]])
    favourite = np.tile((gallery == "a").astype(float), (len(probes), 1))
    rank1, _, precision = retrieval(favourite, probes, gallery, seed=0, draws=100)
    assert rank1.value == rank1.chance == 8 / 20
    assert rank1.detail["random_order_chance"] == pytest.approx(1 / 14)
    assert precision.value <= precision.chance
    even = [f"p{i}" for i in range(12)]
    assert retrieval(np.eye(12), even, even, seed=0, draws=100)[0].chance == pytest.approx(1 / 12)


def test_a_second_film_of_the_commonest_patient_stands_behind_everybody_elses_first():
    probes, gallery = np.array(["a", "a", "a", "b", "b", "c"]), np.array(["a", "a", "b", "c"])
    fixed = fixed_order(probes, gallery)
    assert fixed.rank.tolist() == [1, 1, 1, 2, 2, 3]


def test_nothing_found_is_no_proof_that_nothing_is_there():
    people = [f"p{i}" for i in range(20)]
    never = identification("naming", np.zeros(20, int), np.ones(20, int), people, seed=0, classes=20, draws=100)
    assert (never.value, never.low) == (0, 0)
    assert never.high == pytest.approx(1 - 0.05 ** (1 / 20))
    once = identification("naming", np.zeros(20, int), np.eye(20, dtype=int)[0] == 0, people, seed=0, draws=100)
    assert "interval" not in once.detail
