"""Recognisers, as they are and adapted: what they find in untouched, swapped and constant photographs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.probes.sitters import EACH, exhibit, known_faces, photographs
from updp.core.cache import MemoryCache
from updp.core.measurement import find
from updp.domains.face import finder
from updp.evaluation.probes import PROBES, probes
from updp.evaluation.probes.attacks.faces import ACCURACY, DISTANCE, Faces, folded
from updp.evaluation.probes.base import Budget

BUDGET = Budget.quick().but(draws=60)


@pytest.fixture(autouse=True)
def _no_detector(monkeypatch):
    monkeypatch.setattr(finder, "find_faces", known_faces)


@pytest.fixture(scope="module")
def cache():
    """Features of the real photographs are computed once for all tests."""
    return MemoryCache()


def run(released, cache):
    return Faces().run(exhibit(released), None, BUDGET, np.random.default_rng(0), cache)


def test_untouched_photographs_are_linked_by_every_recogniser(cache):
    found = run(photographs(), cache)
    assert find(found, "film linkage", protocol="another film").low > 0.9
    distance = find(found, DISTANCE, attacker="arcface")
    assert distance.value < 1e-3
    assert 1.2 < distance.chance < 1.5  # two people, unit features: about the root of two
    assert find(found, ACCURACY, attacker="arcface").value > 0.9
    assert find(found, "face match rank-1", attacker="arcface").value > 0.9


def test_photographs_of_nobody_are_linked_at_chance(cache):
    found = run(np.full_like(photographs(), 90), cache)
    linkage = find(found, "film linkage", protocol="another film")
    assert linkage.covers(0.5)
    assert find(found, "film linkage beyond twins", protocol="another film").covers(0.0)
    assert find(found, "face match rank-1", attacker="arcface").value < 0.3


def test_somebody_elses_photograph_is_at_the_impostors_distance(cache):
    swapped = np.roll(photographs(), 2 * EACH, axis=0)  # the next but one, who has the same label
    distance = find(run(swapped, cache), DISTANCE, attacker="arcface")
    assert distance.value == pytest.approx(distance.chance, abs=0.1)


def test_verification_in_folds_guesses_where_scores_say_nothing():
    rng = np.random.default_rng(0)
    patients = np.repeat([f"p{n}" for n in range(200)], 10)
    same = np.tile([True, False], 1000)
    assert folded(same + rng.normal(0, 0.01, 2000), same, patients, 0).mean() == 1.0
    # 2000 guesses: 0.5 with a deviation of 0.011.
    assert folded(rng.normal(size=2000), same, patients, 0).mean() == pytest.approx(0.5, abs=0.06)


def test_probes_of_one_domain_are_asked_by_name_only():
    assert "faces" in PROBES
    assert not any(probe.domains for probe in probes())
    assert [probe.name for probe in probes(("faces",))] == ["faces"]
