"""Attributes: what a release tells about the age and sex of a person."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.probes.attacks.hospital import (
    SMALL,
    Counting,
    by_name,
    figures,
)
from updp.evaluation.probes.attacks.attributes import Attributes, age_bins, sex_codes

pytestmark = pytest.mark.numeric

#: Of attributes, by attackers who learned on real and on released films.
ACCURACIES = [f"{what} accuracy ({who})" for what in ("sex", "age") for who in ("frozen", "retrained")]


def run(attack, exhibit, pack, seed=1):
    return by_name(attack.run(exhibit, pack, SMALL, np.random.default_rng(seed)))


def test_age_and_sex_are_read_from_untouched_films(untouched, pack):
    out = run(Attributes(), untouched, pack)
    for name in (
        "sex accuracy (frozen)",
        "sex accuracy (retrained)",
        "age accuracy (frozen)",
        "age accuracy (retrained)",
    ):
        assert out[name].low > out[name].chance, str(out[name])
        assert out[name].detail["majority_rate"] == pytest.approx(out[name].chance)
    assert out["sex AUC (retrained)"].value > 0.9
    assert out["sex accuracy on real films (trained on real films)"].value > 0.9


def test_noise_tells_neither_age_nor_sex(noisy, pack):
    out = run(Attributes(), noisy, pack)
    for name in (
        "sex accuracy (frozen)",
        "sex accuracy (retrained)",
        "age accuracy (frozen)",
        "age accuracy (retrained)",
    ):
        assert out[name].low <= out[name].chance, str(out[name])
    assert out["sex accuracy on real films (trained on real films)"].value > 0.9


def test_labels_that_are_not_known_are_not_guessed(untouched, pack):
    count = len(untouched)
    blank = untouched.but(ages=np.full(count, np.nan, np.float32), sexes=np.full(count, ""))
    for m in run(Attributes(), blank, pack).values():
        assert "is known" in m.reason
    half = untouched.but(sexes=np.where(np.arange(count) % 7 < 3, untouched.sexes, ""))
    assert run(Attributes(), half, pack)["sex accuracy (retrained)"].measured
    alike = untouched.but(sexes=np.full(count, "F"))
    assert "same sex" in run(Attributes(), alike, pack)["sex accuracy (frozen)"].reason


def test_ages_fall_into_bins_and_unknown_ones_into_none():
    assert age_bins(np.array([5, 20, 39.5, 95, np.nan], np.float32)).tolist() == [0, 1, 1, 4, -1]
    assert sex_codes(np.array(["F", "M", ""])).tolist() == [0, 1, -1]


def test_cached_figures_are_the_same_and_cost_nothing(untouched, pack):
    cache = Counting()
    first = figures(Attributes().run(untouched, pack, SMALL, np.random.default_rng(2), cache))
    made = cache.missed
    assert figures(Attributes().run(untouched, pack, SMALL, np.random.default_rng(2), cache)) == first
    assert cache.missed == made > 0
