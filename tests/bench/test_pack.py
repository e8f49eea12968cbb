import numpy as np
import pytest
import torch

from updp.bench import pack as bench
from updp.bench.pack import outside_figures
from updp.models.backbone import EfficientNetLite0


@pytest.fixture
def films():
    rng = np.random.default_rng(0)
    ramp = np.linspace(0, 1, 64)[None, :] * rng.random((48, 1, 1, 1))
    return torch.from_numpy((ramp + 0.1 * rng.random((48, 1, 64, 64))).astype(np.float32))


@pytest.fixture
def features(monkeypatch):
    """A network of fixed random weights in place of the one from ImageNet."""
    monkeypatch.setattr(bench, "has_imagenet", lambda: True)

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
    assert outside_figures(films, films, np.arange(len(films)).astype(str)) == {}
