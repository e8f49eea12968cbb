"""Intervals over patients cover the truth; intervals over films would not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.chance import hits_within
from tests.evaluation.pairs import pairs
from updp.core.measurement import TooFewPatients, patients_needed
from updp.evaluation.intervals import bootstrap, bootstrap_pairs, crossed, jackknife, measure
from updp.evaluation.statistics import (
    auc,
    averaged,
    mean,
)

pytestmark = pytest.mark.numeric


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def clustered(seed: int, patients: int = 40, films: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Films whose values share their patient's own level: the true mean is zero."""
    g = rng(seed)
    owner = np.repeat(np.arange(patients), films)
    return owner, g.normal(size=patients)[owner] + 0.3 * g.normal(size=len(owner))


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_interval_over_patients_covers_the_truth_and_over_films_does_not(method):
    hits = by_film = 0
    for seed in range(200):
        owner, values = clustered(seed)
        options = {"draws": 200, "rng": rng(seed), "method": method}
        found = bootstrap(mean, owner, values, **options)
        hits += found.low <= 0 <= found.high
        if method == "percentile":
            wrong = bootstrap(mean, np.arange(len(values)), values, **options)
            by_film += wrong.low <= 0 <= wrong.high
    # Nominal coverage is 0.95; over films it is that of an interval less than half as wide.
    assert hits_within(hits, 200, 0.92, 0.98)
    if method == "percentile":
        assert hits_within(by_film, 200, 0.0, 0.65)
        assert not hits_within(by_film, 200, 0.92, 0.98)


def test_interval_of_few_patients_is_wide_enough():
    hits = 0
    for seed in range(200):
        owner, values = clustered(seed, patients=10)
        found = bootstrap(mean, owner, values, draws=300, rng=rng(seed))
        hits += found.low <= 0 <= found.high
    assert hits_within(hits, 200, 0.92, 1.0)


def test_interval_of_pairs_covers_the_truth_while_that_of_resampled_pairs_is_too_narrow():
    hits, wide, narrow = 0, [], []
    for seed in range(40):
        same, scores, left, right = pairs(seed, patients=12, effect=2.0, size=2000)
        found = bootstrap_pairs(auc, left, right, same, scores, draws=200, rng=rng(seed))
        hits += found.low <= 0.5 <= found.high
        naive = bootstrap(auc, np.arange(len(same)), same, scores, draws=200, rng=rng(seed))
        wide.append(found.high - found.low)
        narrow.append(naive.high - naive.low)
    assert hits_within(hits, 40, 0.92, 1.0)
    assert np.mean(wide) > 1.3 * np.mean(narrow)


def test_weighted_draws_equal_resampled_rows():
    owner = np.repeat(np.arange(15), 4)
    labels = rng(1).integers(0, 2, 60)
    scores = np.round(rng(2).normal(labels, 1), 1)
    fast = bootstrap(auc, owner, labels, scores, draws=50, rng=rng(5))
    slow = bootstrap(lambda y, s: auc(y, s), owner, labels, scores, draws=50, rng=rng(5))
    assert fast == pytest.approx(slow, abs=1e-12)


def test_same_seed_same_interval_other_seed_another():
    owner, values = clustered(0)
    assert bootstrap(mean, owner, values, rng=rng(1)) == bootstrap(mean, owner, values, rng=rng(1))
    assert bootstrap(mean, owner, values, rng=rng(1)) != bootstrap(mean, owner, values, rng=rng(2))


def test_one_patient_is_too_few():
    with pytest.raises(TooFewPatients, match="too few patients: 1, at least 10 needed"):
        bootstrap(mean, ["p"] * 30, np.arange(30.0), rng=rng())
    m = measure("accuracy", mean, ["p"] * 30, np.arange(30.0), better="lower", seed=0)
    assert not m.measured
    assert (m.n, m.detail["patients_needed"]) == (1, 10)


def test_a_sample_that_hangs_on_one_positive_patient_is_too_few():
    owner = np.arange(20)
    labels = (owner == 0).astype(int)  # a third of the resamples have no positive
    with pytest.raises(TooFewPatients, match="lack a class"):
        bootstrap(auc, owner, labels, rng(1).random(20), rng=rng())


def test_rows_and_patients_must_match_and_every_row_needs_a_patient():
    with pytest.raises(ValueError, match="3 rows for 4"):
        bootstrap(mean, [1, 2, 3, 4], [1.0, 2.0, 3.0], rng=rng())
    with pytest.raises(ValueError, match="every row needs its patient"):
        bootstrap(mean, [1.0, math.nan], [1.0, 2.0], rng=rng())
    with pytest.raises(ValueError, match="every row needs its patient"):
        bootstrap(mean, np.array(["a", None], dtype=object), [1.0, 2.0], rng=rng())


def test_jackknife_covers_the_truth_for_a_difference_of_samples():
    def difference(a, b):
        return a.mean() - b.mean()

    hits = 0
    for seed in range(150):
        owner, values = clustered(seed)
        other_owner, other = clustered(seed + 1000)
        found = jackknife(difference, [(owner, values), (other_owner + 1000, other)], rng=rng(seed))
        hits += found.low <= 0 <= found.high
    assert hits_within(hits, 150, 0.92, 0.98)


def test_jackknife_leaves_a_patient_out_of_both_samples_at_once():
    seen = []

    def remember(a, b):
        seen.append((set(a), set(b)))
        return float(len(a))

    ids = np.arange(12)
    jackknife(remember, [(ids, ids), (ids, ids)], rng=rng(), groups=12)
    assert all(a == b for a, b in seen)
    assert sorted(len(a) for a, _ in seen) == [11] * 12 + [12]


def test_more_patients_narrow_the_interval_as_foretold():
    widths = []
    for seed in range(16):
        owner, values = clustered(seed, patients=60)
        small = measure("m", mean, owner, values, better="higher", seed=seed, draws=500)
        owner, values = clustered(seed + 1000, patients=patients_needed(small, width=0.25))
        large = measure("m", mean, owner, values, better="higher", seed=seed, draws=500)
        widths.append(large.high - large.low)
    # The spread of 60 patients is known to a tenth, a mean of sixteen to a fortieth: 0.2 is eight standard errors.
    assert np.mean(widths) == pytest.approx(0.25, rel=0.2)


def test_a_mean_over_parts_is_that_of_each_part_alone_draw_by_draw():
    rng = np.random.default_rng(0)
    rows, weights = rng.random((12, 2)), rng.integers(0, 3, (5, 12)).astype(float)

    def total(table, weights=None):
        return bleu_like(np.asarray(table), weights)

    def bleu_like(table, weights):
        w = np.ones(len(table)) if weights is None else weights
        found = np.log((w @ table[:, 0] + 1) / (w @ table[:, 1] + 1))
        return float(found) if weights is None else found

    over = averaged(total, 3)
    assert over(rows) == pytest.approx(np.mean([total(part) for part in np.split(rows, 3)]))
    each = [total(part, w) for part, w in zip(np.split(rows, 3), np.split(weights, 3, axis=1), strict=True)]
    np.testing.assert_allclose(over(rows, weights=weights), np.mean(each, axis=0))
    assert averaged(total, 1) is total


def hubs(seed, patients=40, films=4):
    """Comparisons in which no film belongs to its patient, but some real films are near matches for everybody.

    Rows are (genuine patient, impostor's patient, whether the genuine film was nearer).
    """
    rng = np.random.default_rng(seed)
    near = rng.normal(size=patients)[:, None] + 0.5 * rng.normal(size=(patients, films))
    rows = []
    for p in range(patients):
        for film in range(films):
            others = rng.permutation(np.delete(np.arange(patients), p))[:8]
            score = near[p, film] + rng.normal()
            rivals = near[others, rng.integers(films, size=8)] + rng.normal(size=8)
            rows += [(p, other, score > rival) for other, rival in zip(others, rivals, strict=True)]
    return (np.array(column) for column in zip(*rows, strict=True))


def test_an_interval_over_both_patients_of_a_comparison_covers_chance_and_is_narrower_than_one_over_one_side():
    repeats, covered, width, one_sided = 200, 0, 0.0, 0.0
    for seed in range(repeats):
        left, right, above = hubs(seed)
        found = crossed(above, np.ones(len(above)), left, right)
        other = bootstrap(mean, left, above.astype(float), draws=100, rng=np.random.default_rng(seed))
        covered += found.low <= 0.5 <= found.high
        width += found.high - found.low
        one_sided += other.high - other.low
    # Five standard deviations of a share of 200 below 0.95.
    assert covered / repeats > 0.95 - 5 * (0.95 * 0.05 / repeats) ** 0.5
    assert width < 0.8 * one_sided


def test_a_patient_counts_on_whatever_side_a_comparison_has_them():
    # The third patient wins as the genuine one and loses as the impostor: taken apart, both look like an effect.
    left, right = np.array(list("aabbcc")), np.array(list("bcacab"))
    above = np.array([1.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    both = crossed(above, np.ones(6), left, right, fewest=2)
    one = crossed(above, np.ones(6), left, fewest=2)
    assert both.value == one.value == 0.5
    assert both.high - both.low < one.high - one.low


def test_a_weighted_comparison_counts_as_often_as_its_weight():
    left, right = np.array(list("abcd")), np.array(list("dcba"))
    twice = crossed([1, 1, 0, 1], [1, 1, 1, 1], left, right, fewest=2)
    weighted = crossed([1, 0, 1], [2, 1, 1], np.array(list("acd")), np.array(list("dba")), fewest=2)
    assert weighted.value == twice.value


def test_comparisons_of_too_few_patients_have_no_interval():
    with pytest.raises(TooFewPatients):
        crossed([1, 0], [1, 1], ["a", "b"], ["b", "a"])
