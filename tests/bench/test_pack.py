from types import SimpleNamespace

import numpy as np
import pytest
import torch

from updp.bench import pack as bench
from updp.bench.pack import outside_figures
from updp.models.backbone import EfficientNetLite0
from updp.models.samplers import Sampling


@pytest.fixture
def films():
    rng = np.random.default_rng(0)
    ramp = np.linspace(0, 1, 64)[None, :] * rng.random((48, 1, 1, 1))
    return torch.from_numpy((ramp + 0.1 * rng.random((48, 1, 64, 64))).astype(np.float32))


@pytest.fixture
def features(monkeypatch):
    """A network of fixed random weights in place of the one from ImageNet."""
    monkeypatch.setattr(bench, "has_imagenet", lambda: True)
    monkeypatch.setattr(bench, "has_trunk", lambda net: False)

    def fixed(self):
        torch.manual_seed(0)
        for weight in self.parameters():
            if weight.ndim > 1:
                torch.nn.init.kaiming_normal_(weight)

    monkeypatch.setattr(EfficientNetLite0, "load_imagenet", fixed)


@pytest.mark.numeric
def test_outside_features_tell_noise_from_films(films, features):
    patients = np.array([f"patient {i}" for i in range(len(films))])
    same = outside_figures(films, films.clone(), patients)
    noise = outside_figures(films, torch.rand_like(films), patients)
    assert same["coverage [imagenet]"] == 1
    assert noise["coverage [imagenet]"] < same["coverage [imagenet]"]
    assert noise["FD-imagenet without bias"] > same["FD-imagenet without bias"]
    assert 0 < same["coverage [imagenet] of real films"] < 1


def test_outside_figures_are_absent_without_their_weights(films, monkeypatch):
    monkeypatch.setattr(bench, "has_imagenet", lambda: False)
    monkeypatch.setattr(bench, "has_trunk", lambda net: False)
    assert outside_figures(films, films, np.arange(len(films)).astype(str)) == {}


class Remembers:
    """A generator whose loss is lower on the films that it is given: those that it "learned" from."""

    def __init__(self, members, finisher=None):
        self.members, self.autoencoder = members, self
        self.size, self.finisher, self.sampling = 0, finisher, Sampling(finish=(0.7,))

    def encode(self, films):
        self.known = torch.tensor([any(torch.equal(f, m) for m in self.members) for f in films])
        return films

    def condition(self, prompts):
        return prompts

    def settled_by(self, condition, films):
        return condition

    def add_noise(self, latents, noise, t):
        self.drawn = noise
        return latents

    def noise(self, latents, t, condition):
        off = torch.where(self.known, 0.5, 1.0)[:, None, None, None]
        return self.drawn + off

    def finish(self, latents, condition, times):
        return latents + torch.where(self.known, 0.5, 1.0)[:, None, None, None]


class FinisherRemembers(Remembers):
    """The diffusion learned nothing of its own from the films, the finisher did."""

    def noise(self, latents, t, condition):
        return self.drawn + 1.0


def _corpus(films, splits):
    from updp.domains.chest.labels import FINDINGS
    from updp.training.corpus import Corpus

    count = len(films)
    return Corpus(
        films=(films[:, 0] * 255).byte().numpy(),
        patients=np.array([f"toy/{i}" for i in range(count)]),
        splits=np.array(splits),
        views=np.array(["PA"] * count),
        labels=np.zeros((count, len(FINDINGS)), np.float32),
        sentences=[[] for _ in range(count)],
        ids=np.array([f"toy/{i}" for i in range(count)]),
    )


@pytest.mark.numeric
@pytest.mark.parametrize(("remembers", "expected"), [(True, 1.0), (False, 0.5)])
def test_membership_is_found_where_the_loss_tells_it_and_only_there(films, remembers, expected):
    corpus = _corpus(films, ["train"] * 24 + ["val"] * 24)
    seen = bench.films_of(corpus, np.arange(24)) if remembers else []
    pack = SimpleNamespace(generator=Remembers(seen))
    figures = bench.bench_membership(pack, corpus, np.random.default_rng(0))
    assert figures["membership auc"] == pytest.approx(expected, abs=1e-6)
    assert figures["membership auc low"] <= expected <= figures["membership auc high"]
    assert figures["patients of the training"] == figures["patients that were not"] == 24
    assert not [name for name in figures if "finisher" in name]


@pytest.mark.numeric
def test_membership_is_asked_of_the_finisher_too(films):
    corpus = _corpus(films, ["train"] * 24 + ["val"] * 24)
    generator = FinisherRemembers(bench.films_of(corpus, np.arange(24)), finisher=object())
    figures = bench.bench_membership(SimpleNamespace(generator=generator), corpus, np.random.default_rng(0))
    assert figures["membership auc"] == pytest.approx(0.5, abs=1e-6)
    assert figures["membership auc of the finisher"] == pytest.approx(1.0, abs=1e-6)
    assert figures["membership auc of the finisher low"] > 0.9
