"""Verification, retrieval, identification and reconstruction: they find what is there and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.chance import at_chance
from tests.evaluation.probes.attacks.hospital import (
    SMALL,
    Counting,
    Found,
    by_name,
    exhibit,
    figures,
    noise,
    simple_pack,
)
from updp.core.questions import QUESTIONS
from updp.evaluation.probes import probes
from updp.evaluation.probes.attacks.identification import Identification
from updp.evaluation.probes.attacks.reconstruction import Reconstruction
from updp.evaluation.probes.attacks.retrieval import Retrieval
from updp.evaluation.probes.attacks.verification import Verification

pytestmark = pytest.mark.numeric

LINKERS = [Verification, Retrieval, Identification, Reconstruction]


def run(attack, exhibit, pack, cache=None, seed=1, budget=SMALL):
    return by_name(attack.run(exhibit, pack, budget, np.random.default_rng(seed), cache))


@pytest.fixture(scope="module")
def found(untouched, tmp_path_factory):
    """Everything the linking attacks say about films released as they are."""
    pack = simple_pack(tmp_path_factory.mktemp("pack"))
    out = Found()
    for attack in probes(["verification", "retrieval", "identification", "reconstruction"]):
        out |= run(attack, untouched, pack)
    return out


@pytest.mark.parametrize(
    "name",
    [
        "verification AUC, another film (A0 frozen)",
        "verification AUC, released-released (A1)",
        "verification AUC, another film (A1 as printed)",
        "verification AUC, another film (A2)",
        "verification AUC, another film, all pairs (A2)",
        "verification AUC, another film (A3)",
        "verification AUC, another film (A4)",
        "identification accuracy, as printed (trained on real films)",
        "identification accuracy, released-released (A1)",
        "identification accuracy, another film (A2)",
        "retrieval rank-1, another film (A2)",
    ],
)
def test_untouched_films_are_linked_to_other_films_of_the_patient(found, name):
    m = found[name]
    assert m.value > 0.85
    assert m.low > m.chance


@pytest.mark.parametrize("view", ["A0", "A2", "A3", "A4"])
def test_a_planted_copy_is_linked_to_the_film_it_was_made_from(found, view):
    attacker = "A0 frozen" if view == "A0" else view
    assert found[f"verification AUC, own film ({attacker})"].value > 0.99
    assert found["strongest linkage"].value > 0.99


def test_an_adversary_that_adapts_is_no_weaker_than_a_frozen_one(found):
    frozen = found["verification AUC, another film (A0 frozen)"]
    for attacker in ("A2", "A3"):
        assert found[f"verification AUC, another film ({attacker})"].high >= frozen.value


def test_every_figure_says_what_it_stands_on(found):
    for m in found.values():
        assert m.question in QUESTIONS
        if m.measured:
            assert m.attacker
            assert m.chance is not None
            assert m.n >= 10
    area = found["verification AUC, another film (A2)"]
    assert 2 < len(area.detail["roc"]) <= 60
    assert area.detail["roc"][0][0] == 0
    assert area.detail["roc"][-1] == [1.0, 1.0]
    assert len(area.detail["size curve"]) == 2
    assert found["retrieval rank-1, another film (A2)"].detail["gallery curve"][-1][0] == 30
    assert "Bonferroni" in found["strongest linkage"].detail["correction"]
    accuracy = found["identification accuracy, another film (A2)"]
    assert accuracy.detail["uniform_chance"] == pytest.approx(1 / 30)
    assert accuracy.chance == pytest.approx(max(1 / 30, accuracy.detail["majority_chance"]))


def test_the_reference_on_real_films_is_no_figure_of_the_release(found):
    bounds = QUESTIONS["film"].bounds
    assert not any(bound.reads(m) for bound in bounds for m in found.values() if m.protocol == "untouched films")
    assert found["identification accuracy on real films, untouched films (trained on real films)"].value > 0.85


@pytest.mark.parametrize("kind", ["noisy", "others"])
def test_films_that_hold_nothing_of_the_patient_are_linked_at_chance(kind, request, pack):
    released = request.getfixturevalue(kind)
    out = Found()
    for attack in probes(["verification", "retrieval", "identification", "reconstruction"]):
        out |= run(attack, released, pack)
    strongest = out["strongest linkage"]
    assert at_chance(strongest), str(strongest)
    assert set(strongest.detail["contenders"]) == {"A1", "A2", "A3", "A2 own film", "A3 own film", "A4", "A4 own film"}
    for name, m in out.items():
        if m.protocol == "real-real" or "real films" in m.metric or "TPR" in name or "EER" in name or not m.measured:
            continue
        if name == "reconstruction explained":
            assert m.low < 0.05
        elif "max(AUC" not in name:  # a folded area says what the area itself says
            # A 95 % interval misses chance one time in twenty, and there are fifty of them.
            assert at_chance(m), str(m)


def test_shuffled_patients_give_an_auc_of_one_half(untouched, pack):
    rng = np.random.default_rng(5)
    patients = untouched.patients.copy()
    for splits in (("train",), ("val", "test")):
        rows = untouched.rows(*splits)
        patients[rows] = patients[rng.permutation(rows)]
    splits = np.where(np.isin(np.arange(len(untouched)), untouched.rows("train")), "train", "test")
    out = run(Verification(), untouched.but(patients=patients, splits=splits), pack)
    for name in ("another film (A0 frozen)", "released-released (A1)", "another film (A2)", "another film (A3)"):
        m = out[f"verification AUC, {name}"]
        assert at_chance(m), str(m)


def test_a_change_that_is_the_same_for_every_film_hides_nothing_from_an_adversary_who_adapts(pack):
    everyone = exhibit(patients=120, films=2)
    turned = everyone.but(released=255 - everyone.real[:, ::-1, :].copy())
    out = run(Verification(), turned, pack, budget=SMALL.but(rebuilt=0))
    frozen = out["verification AUC, own film (A0 frozen)"]
    for name in ("own film (A2)", "own film (A3)", "another film (A2)"):
        adapted = out[f"verification AUC, {name}"]
        assert adapted.low > max(frozen.value, 1 - frozen.value), str(adapted)
    assert out["verification AUC, released-released (A1)"].value > 0.9


@pytest.mark.parametrize("attack", LINKERS)
def test_too_few_patients_are_an_outcome_that_says_how_many_it_takes(attack, pack):
    out = run(attack(), exhibit(patients=8), pack)
    assert out
    for m in out.values():
        assert not m.measured
        assert "too few" in m.reason
        assert m.question in QUESTIONS


def test_without_training_patients_only_the_frozen_adversary_speaks(untouched, pack):
    out = run(Verification(), untouched.take(untouched.rows("val", "test")), pack)
    assert out["verification AUC, another film (A0 frozen)"].measured
    assert "training patients" in out["verification AUC, another film (A2)"].reason
    assert not out["strongest linkage"].measured
    assert "training patients" in out["strongest linkage"].reason


def test_one_film_a_patient_leaves_the_own_film_to_be_attacked(pack):
    single = exhibit(patients=60, films=1)
    out = run(Verification(), single, pack)
    assert "two films" in out["verification AUC, another film (A2)"].reason
    assert "two films" in out["verification AUC, released-released (A1)"].reason
    assert out["verification AUC, own film (A2)"].value == 1
    assert out["strongest linkage"].value == 1
    assert "A2" in out["strongest linkage"].detail["not_in_the_running"]
    shelves = run(Retrieval(), single, pack)
    assert not shelves["retrieval rank-1, another film (A2)"].measured
    assert shelves["retrieval rank-1, own film (A2)"].value == 1
    for m in run(Identification(), single, pack).values():
        assert "too few" in m.reason


@pytest.mark.parametrize("attack", LINKERS)
def test_nan_in_a_network_is_an_error_and_not_a_safe_release(attack, untouched, tmp_path):
    with pytest.raises(ValueError, match="NaN"):
        attack().run(untouched, simple_pack(tmp_path, broken=True), SMALL, np.random.default_rng(0))


def test_the_same_seed_gives_the_same_figures_and_another_seed_other_pairs(noisy, pack):
    first = figures(Verification().run(noisy, pack, SMALL, np.random.default_rng(3)))
    again = figures(Verification().run(noisy, pack, SMALL, np.random.default_rng(3)))
    other = figures(Verification().run(noisy, pack, SMALL, np.random.default_rng(4)))
    assert first == again
    assert first != other


@pytest.mark.parametrize("attack", LINKERS)
def test_what_is_cached_is_not_made_again_and_gives_the_same_figures(attack, untouched, pack):
    cache = Counting()
    first = figures(attack().run(untouched, pack, SMALL, np.random.default_rng(3), cache))
    made = cache.missed
    assert made > 0
    again = figures(attack().run(untouched, pack, SMALL, np.random.default_rng(3), cache))
    assert again == first
    assert cache.missed == made


def test_another_release_of_the_same_films_reuses_what_was_seen_in_the_real_ones(untouched, pack):
    cache = Counting()
    Retrieval().run(untouched, pack, SMALL, np.random.default_rng(3), cache)
    before = set(cache.held)
    Retrieval().run(noise(untouched), pack, SMALL, np.random.default_rng(3), cache)
    looked = [key for key in set(cache.held) - before if "embedded" in cache.held[key]]
    assert len(looked) == 1


def test_a_quick_look_says_what_it_left_out(untouched, pack):
    budget = SMALL.but(rebuilt=0, steps=0)
    out = run(Reconstruction(), untouched, pack, budget=budget)
    assert all("left out" in m.reason for m in out.values())
    strongest = run(Verification(), untouched, pack, budget=budget)["strongest linkage"]
    assert strongest.detail["not_in_the_running"]["A4"] == "left out by the budget"


def test_unknown_attacks_are_refused_by_name():
    with pytest.raises(ValueError, match="no probe 'telepathy'"):
        probes(["telepathy"])
    assert [a.name for a in probes(["text", "verification"])] == ["verification", "text"]
    assert all(p.question in QUESTIONS for p in probes())


def test_findings_that_differ_from_film_to_film_link_a_film_to_its_own_and_to_no_other(noisy, pack):
    labels = np.random.default_rng(3).integers(0, 2, noisy.labels.shape).astype(np.float32)
    out = run(Verification(), noisy.but(labels=labels), pack)
    assert out["verification AUC, own film (labels alone)"].value > 0.99
    assert at_chance(out["verification AUC, another film (labels alone)"])
    assert at_chance(out["strongest linkage"])  # the films themselves hold nothing


def test_findings_of_the_patient_link_other_films_too(noisy, pack):
    rng = np.random.default_rng(4)
    people, place = np.unique(noisy.patients, return_inverse=True)
    labels = rng.integers(0, 2, (len(people), noisy.labels.shape[1])).astype(np.float32)[place]
    labels[rng.random(labels.shape) < 0.1] = np.nan
    out = run(Verification(), noisy.but(labels=labels), pack)
    assert out["verification AUC, another film (labels alone)"].value > 0.9


def test_films_without_labels_have_no_findings_to_be_linked_by(found):
    assert found["verification AUC, another film (labels alone)"].reason == "the films have no labels"
