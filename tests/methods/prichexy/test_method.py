"""PriCheXy-Net: what its deformation can and cannot do."""

import numpy as np
import pytest
import torch

from tests.methods.tiny_weights import films, streams, studies
from updp.methods import UnknownMethod, make_method
from updp.methods.prichexy.method import PriCheXyNet, identity_grid, sampling_grid, smooth, warp

pytestmark = pytest.mark.numeric


def field(side=64, seed=0):
    return torch.rand(2, 2, side, side, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def test_no_deformation_leaves_every_pixel_where_it_was():
    grid = sampling_grid(field(), 0.0)
    assert (grid - identity_grid(64)).abs().max() <= 1e-6
    coarse = torch.nn.functional.interpolate(torch.rand(2, 1, 4, 4), 64, mode="bilinear", align_corners=True)
    assert (warp(coarse, field(), 0.0) - coarse).abs().max() <= 1e-5


def test_the_original_drags_a_frame_of_four_pixels_even_without_deformation():
    moved = (sampling_grid(field(256), 0.0, original=True) - identity_grid(256)).abs().amax((0, 1))
    assert moved[4:-4, 4:-4].max() < 1e-5
    frame = torch.ones(256, 256, dtype=torch.bool)
    frame[4:-4, 4:-4] = False
    assert (moved[frame] > 1e-4).all()
    assert moved[0, 0] * 255 / 2 > 50  # pixels, at the corner


@pytest.mark.parametrize("mu", [0.001, 0.005, 0.01, 0.05])
def test_no_pixel_moves_further_than_mu_allows(mu):
    extreme = torch.sign(field(128))  # the largest field there is
    moved = (sampling_grid(extreme, mu) - identity_grid(128)).abs().max() * 127 / 2
    assert moved <= mu * 127 / 2 + 1e-4
    constant = (sampling_grid(torch.ones(1, 2, 128, 128), mu) - identity_grid(128)).abs().max() * 127 / 2
    assert constant == pytest.approx(mu * 127 / 2, rel=1e-2)


def test_smoothing_with_reflection_keeps_a_constant_and_with_zeros_does_not():
    ones = torch.ones(1, 2, 32, 32)
    assert torch.allclose(smooth(ones, "reflect"), ones, atol=1e-6)
    assert smooth(ones, "zeros")[0, 0, 0, 0] < 0.5


def test_a_deformation_of_strength_zero_is_the_film(on):
    made = PriCheXyNet(**on).deidentify(studies(1), 0.0, streams(1))[0]
    assert np.abs(made.pixels - studies(1)[0].pixels).max() < 1e-4
    assert made.decided == {"mu": 0.0, "frame": "fixed"}


def test_more_strength_moves_more(on):
    method = PriCheXyNet(**on)
    moved = [np.abs(method.deidentify(studies(1), s, streams(1))[0].pixels - studies(1)[0].pixels).mean()
             for s in (0.1, 0.4, 1.0)]  # fmt: skip
    assert 0 < moved[0] < moved[1] < moved[2]


def test_the_published_mu_is_a_third_of_the_way(on):
    assert PriCheXyNet(**on).deidentify(studies(1), None, streams(1))[0].decided["mu"] == pytest.approx(0.01)


def test_the_original_frame_is_a_switch(on):
    fixed, original = (PriCheXyNet(**on, frame=f).deidentify(studies(1), 0.0, streams(1))[0].pixels
                       for f in ("fixed", "original"))  # fmt: skip
    assert np.abs(fixed - original)[8:-8, 8:-8].max() < 1e-4
    assert np.abs(fixed - original)[:4].max() > 0.01


@pytest.mark.parametrize("options", [{"max_mu": 0.0}, {"frame": "gilded"}])
def test_settings_without_meaning_are_refused(on, options):
    with pytest.raises(UnknownMethod, match="prichexy"):
        make_method("prichexy", {**on, **options})


def test_the_warp_lets_gradients_through_to_the_field():
    u = field(32).requires_grad_()
    warp(torch.rand(2, 1, 32, 32), u, 0.02).square().sum().backward()
    assert u.grad.abs().sum() > 0
    assert films(studies(1)).shape == (1, 1, 256, 256)
