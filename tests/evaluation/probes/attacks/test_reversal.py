"""Reversal of MedSem-DeID with tiny networks: which passwords give the original back, and from which files."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.probes.sitters import exhibit, known_faces, photographs
from tests.methods.medsem.conftest import folders  # noqa: F401 - a fixture
from updp.core.measurement import find
from updp.domains.face import finder
from updp.evaluation.probes.attacks.reversal import BACK, BITS, DISTANCE, QUALITY, Reversal
from updp.evaluation.probes.base import Budget, MethodUse
from updp.models import recognisers

BUDGET = Budget.quick().but(draws=40)


@pytest.fixture(autouse=True)
def _cheap(monkeypatch):
    monkeypatch.setattr(finder, "find_faces", known_faces)
    monkeypatch.setattr(recognisers, "available", lambda: ("means",))

    def embed(name, photos, fives):
        flat = photos.reshape(len(photos), 4, photos.shape[1] // 4, 4, -1, 3).mean((2, 4)).reshape(len(photos), -1)
        flat = flat - flat.mean(1, keepdims=True)
        return (flat / np.linalg.norm(flat, axis=1, keepdims=True)).astype(np.float32)

    monkeypatch.setattr(recognisers, "embed", embed)


def run(folders, **options):  # noqa: F811
    use = MethodUse("medsem", {"pack": str(folders[0]), "weights": str(folders[1]), **options}, 1.0)
    return Reversal().run(exhibit(photographs()), None, BUDGET, np.random.default_rng(0), method=use)


def test_what_is_carried_comes_back_with_the_right_password_alone(folders):  # noqa: F811
    found = run(folders)
    assert find(found, BITS).value == 256
    assert find(found, BACK, protocol="right password").value == 1
    for protocol in (
        "wrong password",
        "password off by one bit",
        "right password, JPEG 95",
        "right password, rescaled",
    ):
        assert find(found, BACK, protocol=protocol).value == 0
    assert find(found, QUALITY, protocol="right password").value > 20
    assert find(found, DISTANCE, protocol="right password", attacker="means").value < 0.3
    assert find(found, QUALITY, protocol="wrong password").reason is not None


def test_the_decryptor_always_answers(folders):  # noqa: F811
    found = run(folders, recovery="learned")
    for protocol in ("right password", "wrong password", "right password, JPEG 80"):
        assert find(found, BACK, protocol=protocol).value == 1
        assert find(found, QUALITY, protocol=protocol).measured


def test_a_method_that_cannot_be_turned_back_has_no_such_figures():
    use = MethodUse("blur", {}, 0.5)
    assert Reversal().run(exhibit(photographs()), None, BUDGET, np.random.default_rng(0), method=use) == []
