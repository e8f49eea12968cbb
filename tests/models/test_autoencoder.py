import pytest
import torch

from tests.models.linear_start import start_from_components
from updp.models.autoencoder import Autoencoder

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def films():
    rng = torch.Generator().manual_seed(0)
    coarse = torch.rand(12, 1, 8, 8, generator=rng)
    return torch.nn.functional.interpolate(coarse, 64, mode="bicubic").clamp(0, 1)


def test_untrained_it_is_the_best_linear_code(films):
    model = Autoencoder(channels=4, width=16)
    start_from_components(model, films)
    patches = torch.nn.functional.unfold(films, 16, stride=16).transpose(1, 2).reshape(-1, 256)
    centred = patches - patches.mean(0)
    _, values, _ = torch.linalg.svd(centred, full_matrices=False)
    best = values[4:].square().sum() / patches.numel()
    error = (model(films) - films).square().mean()
    assert error.item() == pytest.approx(best.item(), rel=1e-2)


def test_latents_are_normalised_by_channel(films):
    model = Autoencoder(channels=4, width=16)
    start_from_components(model, films)
    latents = model.encode(films)
    assert latents.shape == (12, 4, 4, 4)
    assert latents.mean((0, 2, 3)).abs().max() < 1e-4
    assert latents.std((0, 2, 3)).sub(1).abs().max() < 1e-2


def test_films_come_back_in_range_and_gradients_reach_the_film(films):
    model = Autoencoder(channels=4, width=16)
    start_from_components(model, films)
    x = films[:2].clone().requires_grad_()
    model.decode(model.encode(x)).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    wild = model.decode(torch.randn(2, 4, 4, 4) * 20)
    assert wild.min() >= 0
    assert wild.max() <= 1


def test_long_batches_give_what_short_ones_give(films):
    model = Autoencoder(channels=4, width=16).eval()
    start_from_components(model, films)
    many = films.repeat(4, 1, 1, 1)
    assert torch.allclose(model.encode(many)[:12], model.encode(films), atol=1e-5)


def test_what_is_not_a_batch_of_films_is_refused():
    with pytest.raises(ValueError, match=r"expected float32 N×C×H×W, got \(64, 64\) float32"):
        Autoencoder(channels=4, width=16).encode(torch.rand(64, 64))
    with pytest.raises(ValueError, match=r"got \(1, 1, 64, 64\) uint8"):
        Autoencoder(channels=4, width=16).encode(torch.zeros(1, 1, 64, 64, dtype=torch.uint8))
