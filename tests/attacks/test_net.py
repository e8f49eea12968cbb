"""The Siamese net and the features of a pack of the real classes, untrained and tiny."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.attacks.hospital import SMALL, Counting, exhibit, figures
from tests.methods.tiny import tiny_pack
from updp.attacks import siamese
from updp.attacks.adversary import adversary
from updp.attacks.base import by_patient
from updp.attacks.cache import MemoryCache
from updp.attacks.features import Look, as_tensor
from updp.attacks.siamese import Upper, train_siamese
from updp.attacks.verification import Verification
from updp.models.pack import load_pack


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return load_pack(tiny_pack(tmp_path_factory.mktemp("packs") / "tiny"))


@pytest.fixture(scope="module")
def small():
    return exhibit(patients=26, films=2)


@pytest.fixture(scope="module")
def look(small, pack):
    return Look(small, pack, SMALL.but(networks=("vlm", "classifier")), MemoryCache())


def test_cached_maps_lead_to_the_vectors_of_the_whole_network(look, small, pack):
    with torch.no_grad():
        whole = pack.identity.embed(as_tensor(small.real[:6])).numpy()
    np.testing.assert_allclose(look.embedded("real")[:6], whole, atol=1e-5)
    assert look.looked("real", "identity")["maps"].dtype == np.float16
    assert set(look.blocks("real")) == {"identity", "vlm", "classifier", "pixels"}


def test_a_few_steps_bring_films_of_a_patient_together(look, small):
    people = by_patient(small.patients, small.rows("train"))
    maps = look.looked("real", "identity")["maps"]
    net, start = Upper(look.pack.identity, trainable=True), look.start
    net.begin(start["basis"], {side: (start[f"mean {side}"], start[f"spread {side}"]) for side in ("real", "released")})
    first, second = (np.array([films[i] for films in people]) for i in (0, 1))
    gaps = []

    def judge(left, right):
        similar = left[first] @ right[second].T
        own = np.eye(len(people), dtype=bool)
        gaps.append(float(similar[own].mean() - similar[~own].mean()))
        return gaps[-1]

    train_siamese(net, maps, maps, people, steps=8, batch=16, seed=1, watched=np.concatenate(people), judge=judge)
    assert len(gaps) == 3
    assert max(gaps[1:]) > gaps[0]


def test_the_net_is_one_way_of_comparing_and_is_trained_once(look, small, pack, monkeypatch):
    first = adversary(look, "A2")
    assert "net" in first.held_out
    monkeypatch.setattr(siamese, "train_siamese", None)  # would fail if it were called again
    again = adversary(Look(small, pack, look.budget, look.cache), "A2")
    np.testing.assert_array_equal(first.left, again.left)
    assert again.held_out == first.held_out


def test_training_leaves_the_pack_as_it_was_and_repeats_itself(small, pack):
    before = {name: value.clone() for name, value in pack.identity.state_dict().items()}
    budget = SMALL.but(sizes=(1.0,), rebuilt=0, steps=2)
    first = figures(Verification().run(small, pack, budget, np.random.default_rng(3), Counting()))
    again = figures(Verification().run(small, pack, budget, np.random.default_rng(3), Counting()))
    assert first == again
    assert first["verification AUC A2 own film"][0] > 0.99
    assert all(torch.equal(before[name], value) for name, value in pack.identity.state_dict().items())
    assert not any(p.requires_grad for p in pack.identity.parameters())
