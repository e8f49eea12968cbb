"""Kept looks train a backbone as fresh ones would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from updp.models.backbone import EfficientNetLite0
from updp.training.corpus import Corpus
from updp.training.looks import Looks

pytestmark = pytest.mark.numeric


def corpus(films: int = 6) -> Corpus:
    rng = np.random.default_rng(0)
    return Corpus(
        films=rng.integers(0, 255, (films, 64, 64), dtype=np.uint8),
        patients=np.array([f"p{i}" for i in range(films)]),
        splits=np.array(["train"] * (films - 2) + ["val"] * 2),
        views=np.array(["PA"] * films),
        labels=np.zeros((films, 14), np.float32),
        sentences=[[]] * films,
        ids=np.array([f"f{i}" for i in range(films)]),
    )


def backbone(frozen: int) -> EfficientNetLite0:
    torch.manual_seed(0)
    net = EfficientNetLite0()
    net.freeze(frozen)
    return net.train()


def test_a_kept_look_is_what_the_frozen_blocks_see(tmp_path: Path) -> None:
    net, films = backbone(5), corpus()
    looks = Looks(films, net, 64, 1, tmp_path)
    maps = looks(np.array([2, 0]), np.random.default_rng(1), torch.device("cpu"))
    again = Looks(films, net, 64, 1, tmp_path)(np.array([2, 0]), np.random.default_rng(1), torch.device("cpu"))
    assert maps.shape[0] == 2
    assert torch.equal(maps, again)
    assert net.eval().finish(maps).isfinite().all()
    assert len(list(tmp_path.glob("looks-*.npy"))) == 1


def test_looks_of_other_weights_are_not_taken_from_the_folder(tmp_path: Path) -> None:
    films = corpus()
    Looks(films, backbone(5), 64, 1, tmp_path)
    other = backbone(5)
    with torch.no_grad():
        other._conv_stem.weight.mul_(2)
    Looks(films, other, 64, 1, tmp_path)
    assert len(list(tmp_path.glob("looks-*.npy"))) == 2


def test_a_film_has_as_many_different_looks_as_asked_for() -> None:
    looks = Looks(corpus(), backbone(5), 64, 3)
    seen = {
        looks(np.array([1]), np.random.default_rng(seed), torch.device("cpu")).numpy().tobytes() for seed in range(40)
    }
    assert len(seen) == 3


def test_with_nothing_frozen_the_first_blocks_still_learn() -> None:
    net = backbone(0)
    looks = Looks(corpus(), net, 64)
    net.finish(looks(np.array([0, 1]), np.random.default_rng(0), torch.device("cpu"))).sum().backward()
    assert net._conv_stem.weight.grad is not None


def test_looks_through_an_autoencoder_see_the_film_as_it_comes_back(tmp_path: Path) -> None:
    from updp.models.autoencoder import Autoencoder

    class Blank(Autoencoder):
        def decode(self, latents: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(latents), 1, 64, 64)

    torch.manual_seed(0)
    passed = Looks(corpus(), backbone(5), 64, 1, tmp_path, through=Blank(8, 16).eval())
    maps = passed(np.array([0, 1, 2]), np.random.default_rng(1), torch.device("cpu"))
    straight = Looks(corpus(), backbone(5), 64, 1, tmp_path)
    spread = straight(np.array([0, 1, 2]), np.random.default_rng(1), torch.device("cpu")).std(0).mean()
    # Blank films differ by their exposure alone; real ones by what is on them.
    assert maps.std(0).mean() < 0.5 * spread
    assert len(list(tmp_path.glob("looks-*.npy"))) == 2
