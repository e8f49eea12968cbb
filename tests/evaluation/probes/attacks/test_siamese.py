"""The Siamese net and the features of a pack of the real classes, untrained and tiny."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.evaluation.probes.attacks.hospital import SMALL, Counting, exhibit, figures
from tests.methods.tiny import tiny_pack
from updp.core.cache import MemoryCache
from updp.evaluation.probes.attacks import siamese
from updp.evaluation.probes.attacks.adversary import adversary
from updp.evaluation.probes.attacks.features import Features, as_tensor
from updp.evaluation.probes.attacks.siamese import Upper, train_siamese
from updp.evaluation.probes.attacks.verification import Verification
from updp.evaluation.probes.base import by_patient
from updp.models.pack import load_pack

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return load_pack(tiny_pack(tmp_path_factory.mktemp("packs") / "tiny"))


@pytest.fixture(scope="module")
def small():
    return exhibit(patients=26, films=2)


@pytest.fixture(scope="module")
def features(small, pack):
    return Features(small, pack, SMALL.but(networks=("vlm", "classifier")), MemoryCache())


def test_cached_maps_lead_to_the_vectors_of_the_whole_network(features, small, pack):
    with torch.no_grad():
        whole = pack.identity.embed(as_tensor(small.real[:6])).numpy()
    np.testing.assert_allclose(features.embedded("real")[:6], whole, atol=1e-5)
    assert features.encode("real", "identity")["maps"].dtype == np.float16
    assert set(features.blocks("real")) == {"identity", "vlm", "classifier", "pixels"}


@pytest.mark.parametrize("better", [True, False])
def test_the_state_that_held_out_patients_prefer_is_kept(features, small, better):
    people = by_patient(small.patients, small.rows("train"))
    rows = np.concatenate(people)
    maps, start = features.encode("real", "identity")["maps"], features.start
    net = Upper(features.pack.identity, trainable=True)
    net.begin(start["basis"], {side: (start[f"mean {side}"], start[f"spread {side}"]) for side in ("real", "released")})
    seen = []

    def judge(left, right):
        seen.append(left[rows])
        return len(seen) if better else -len(seen)

    left, right, history = train_siamese(net, maps, maps, people, steps=2, batch=8, seed=1, watched=rows, judge=judge)
    assert [step for step, _ in history] == [0, 1, 2]
    assert left.shape == right.shape == (len(small), net.project.out_features)
    np.testing.assert_allclose(left[rows], seen[-1] if better else seen[0], atol=1e-5)
    assert not np.allclose(seen[0], seen[-1])


def test_the_net_is_one_way_of_comparing_and_is_trained_once(features, small, pack, monkeypatch):
    first = adversary(features, "A2")
    assert "net" in first.held_out
    monkeypatch.setattr(siamese, "train_siamese", None)  # would fail if it were called again
    again = adversary(Features(small, pack, features.budget, features.cache), "A2")
    np.testing.assert_array_equal(first.left, again.left)
    assert again.held_out == first.held_out


def test_training_leaves_the_pack_as_it_was_and_repeats_itself(small, pack):
    before = {name: value.clone() for name, value in pack.identity.state_dict().items()}
    budget = SMALL.but(sizes=(1.0,), rebuilt=0, steps=2)
    first = figures(Verification().run(small, pack, budget, np.random.default_rng(3), Counting()))
    again = figures(Verification().run(small, pack, budget, np.random.default_rng(3), Counting()))
    assert first == again
    assert first["verification AUC, own film (A2)"][0] > 0.99
    assert all(torch.equal(before[name], value) for name, value in pack.identity.state_dict().items())
    assert not any(p.requires_grad for p in pack.identity.parameters())
