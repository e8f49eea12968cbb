"""Measurements: intervals over patients, statistics against their textbook forms, and clear outcomes on bad input."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.chance import at_chance, hits_within
from updp.core.measurement import Measurement, TooFewPatients, patients_needed
from updp.evaluation.intervals import bootstrap, bootstrap_pairs, jackknife, measure
from updp.evaluation.linkage import fold, identification, retrieval, seldom, verification
from updp.evaluation.statistics import (
    accuracy,
    auc,
    averaged,
    chances,
    eer,
    fixed_order,
    folded_auc,
    mean,
    mean_average_precision_chance,
    rank_k,
    rank_k_chance,
    rankings,
    ratio,
    tpr_at_fpr,
)

pytestmark = pytest.mark.numeric


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def example(**changes) -> Measurement:
    fields = {"value": 0.62, "low": 0.55, "high": 0.7, "n": 40, "chance": 0.5, "better": "closer to chance"}
    return Measurement("verification AUC", **{**fields, **changes})


# Measurement ---------------------------------------------------------------------------------------------------------


def test_text_shows_interval_sample_and_chance():
    text = str(example(attacker="A2 siamese"))
    assert text == "verification AUC (A2 siamese): 0.620 [0.550, 0.700], n = 40 patients, chance 0.500"


def test_text_says_so_where_there_is_no_chance_level():
    assert "no chance level" in str(example(chance=None, better="higher"))


def test_json_round_trip_keeps_everything():
    m = example(attacker="A1", seed=7, detail={"rows": 120, "curve": np.arange(3), "nested": {"k": (1, 2)}})
    again = Measurement.from_json(json.loads(json.dumps(m.to_json(), allow_nan=False)))
    assert again.to_json() == m.to_json()
    assert again.detail["curve"] == [0, 1, 2]


def test_what_was_not_measured_survives_json_without_nan():
    m = Measurement.missing("rank-1", "no gallery", better="lower")
    again = Measurement.from_json(json.loads(json.dumps(m.to_json(), allow_nan=False)))
    assert not again.measured
    assert str(again) == "rank-1: not measured, no gallery"
    assert not again.covers(0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"better": "bigger"}, "better is one of"),
        ({"low": 0.8}, "upside down"),
        ({"value": math.nan}, "must be finite"),
        ({"high": math.inf}, "must be finite"),
        ({"n": -1}, "n is -1"),
        ({"chance": None}, "needs a chance level"),
    ],
)
def test_a_measurement_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        example(**changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("low"), "low missing"),
        (lambda d: d.update(extra=1), "unknown extra"),
        (lambda d: d.update(n="many"), "n must be a whole number"),
    ],
)
def test_json_that_is_no_measurement_is_refused(change, message):
    data = example().to_json()
    change(data)
    with pytest.raises(ValueError, match=message):
        Measurement.from_json(data)


def test_detail_cannot_be_changed_afterwards():
    given = {"rows": 1}
    m = example(detail=given)
    given["rows"] = 2
    assert m.detail["rows"] == 1
    with pytest.raises(TypeError):
        m.detail["rows"] = 3


# Statistics ----------------------------------------------------------------------------------------------------------


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
    assert (auc(labels, -labels), folded_auc(labels, -labels), eer(labels, -labels)) == (0.0, 1.0, 1.0)


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


@pytest.mark.parametrize("statistic", [auc, eer, tpr_at_fpr, folded_auc])
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
        hits.append(rank_k(found.rank, 5))
        precision.append(found.average_precision.mean())
    assert rank_k_chance(matches, gallery, 5) == pytest.approx(np.mean(hits), abs=0.03)
    assert mean_average_precision_chance(matches, gallery) == pytest.approx(np.mean(precision), abs=0.015)


def test_ranks_below_one_are_refused():
    with pytest.raises(ValueError, match="ranks count from 1"):
        rank_k([0, 1])


# Intervals -----------------------------------------------------------------------------------------------------------


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


def pairs(seed: int, patients: int = 40, effect: float = 1.0, size: int = 400):
    """Balanced pairs; each patient is more or less easily matched, in all the pairs it takes part in."""
    g = rng(seed)
    left = g.integers(0, patients, size)
    same = np.arange(size) % 2
    right = np.where(same == 1, left, (left + g.integers(1, patients, size)) % patients)
    ease = effect * g.normal(size=patients)
    return same, ease[left] + ease[right] + g.normal(size=size), left, right


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


# Patients needed -----------------------------------------------------------------------------------------------------


def test_patients_needed_grows_with_the_square():
    m = example(value=0.6, low=0.5, high=0.7, n=50)
    assert patients_needed(m, width=0.1) == 200
    assert patients_needed(m, below=0.65) == 200
    assert patients_needed(m, above=0.58) == 1250
    assert patients_needed(m, width=0.3) == 50


def test_no_number_of_patients_moves_the_value_itself():
    assert patients_needed(example(value=0.6, high=0.7), below=0.55) is None


@pytest.mark.parametrize("below", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("n", [12, 60, 250])
def test_patients_needed_for_a_rate_of_zero_are_those_of_its_exact_bound(n, below):
    none = np.zeros(n, dtype=int)
    m = identification("naming", none, none + 1, np.arange(n), seed=0, classes=20, draws=20)
    need = patients_needed(m, below=below)
    if m.high <= below:
        assert need == n
        return
    none = np.zeros(need, dtype=int)
    assert identification("naming", none, none + 1, np.arange(need), seed=0, classes=20, draws=20).high <= below
    assert 1 - 0.05 ** (1 / (need - 1)) > below


def test_residual_phi_of_one_per_cent_takes_three_hundred_patients():
    m = seldom(Measurement("residual PHI", 0, 0, 0, 60, 0.0, "lower"))
    assert patients_needed(m, below=0.01) == 299


def test_a_value_too_near_its_bound_asks_for_no_number():
    near = example(value=0.549, low=0.45, high=0.65, n=60)
    assert patients_needed(near, below=0.55) is None
    assert patients_needed(near, above=0.548) is None
    assert patients_needed(near, below=0.56) <= 100 * near.n
    assert patients_needed(near, width=0.002) == pytest.approx(600_000, abs=1)  # a width is asked for, not read off


def test_patients_needed_without_a_figure_assumes_the_worst_case():
    missing = Measurement.missing("rank-1", "too few patients", n=1)
    assert patients_needed(missing, width=0.1) == 385
    assert patients_needed(missing, below=0.6) is None
    with pytest.raises(ValueError, match="exactly one"):
        patients_needed(missing)


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


# Whole measurements --------------------------------------------------------------------------------------------------


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
