"""DP-Pix: the noise of the mechanism, and its unit."""

import numpy as np
import pytest
from scipy.stats import norm

from tests.methods.films import film, run
from updp.methods import UnknownMethod, make_method, method_info
from updp.methods.dp_pix import gaussian_scale, pixelate


@pytest.mark.parametrize("shape", [(64, 64), (61, 47), (8, 8), (7, 3)])
@pytest.mark.parametrize("b", [2, 4, 8])
def test_dp_pix_is_constant_on_every_cell_and_keeps_the_shape(shape, b):
    out = run(("dp-pix", {"b": b}), film(shape)).pixels
    assert out.shape == shape
    assert out.dtype == np.float32
    for y in range(0, shape[0], b):
        for x in range(0, shape[1], b):
            assert np.ptp(out[y : y + b, x : x + b]) == 0


@pytest.mark.parametrize(("m", "b", "epsilon"), [(1, 2, 0.1), (1, 8, 0.1), (4, 8, 1.0)])
def test_dp_pix_noise_has_the_scale_of_the_mechanism(m, b, epsilon):
    # Mid-grey film, scale measured before clipping can matter by taking the median of small draws.
    scale = m / (b * b * epsilon)
    grey = np.full((512, 512), 0.5, np.float32)
    noise = pixelate(grey, b, m / epsilon, np.random.default_rng(3))[::b, ::b] - 0.5
    inside = np.abs(noise) < 0.49  # clipped cells carry no information about the scale beyond their share
    assert 1 - inside.mean() == pytest.approx(np.exp(-0.49 / scale), abs=0.03)


def test_dp_pix_cells_cut_by_the_edge_get_the_noise_their_sensitivity_asks_for():
    grey = np.full((9, 4000), 0.5, np.float32)  # the last row of cells has 8 pixels instead of 64
    out = pixelate(grey, 8, 1.0, np.random.default_rng(0))
    full, cut = np.abs(out[0, ::8] - 0.5).mean(), np.abs(out[8, ::8] - 0.5).mean()
    assert cut / full == pytest.approx(8, rel=0.35)


def test_dp_pix_draws_its_noise_once_for_a_film_and_key():
    assert (run(("dp-pix", {}), film(), seed=5).pixels == run(("dp-pix", {}), film(), seed=5).pixels).all()
    assert (run(("dp-pix", {}), film(), seed=5).pixels != run(("dp-pix", {}), film(), seed=6).pixels).any()


def test_dp_pix_states_its_honest_unit():
    assert run(("dp-pix", {}), film((64, 64))).decided["unit"] == "1 pixels"
    assert run(("dp-pix", {"m": "image"}), film((64, 64))).decided["unit"] == "4096 pixels"
    assert "not for a patient" in method_info("dp-pix").guarantee


def test_dp_pix_at_strength_two_thirds_is_the_published_epsilon():
    assert run(("dp-pix", {}), film(), 2 / 3).decided["epsilon"] == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("options", [{"b": 0}, {"m": 0}, {"epsilon": -1.0}])
def test_dp_pix_refuses_settings_without_meaning(options):
    with pytest.raises(UnknownMethod):
        make_method("dp-pix", options)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-5), (10.0, 1e-6)])
def test_the_gaussian_mechanism_spends_its_delta_and_no_more(epsilon, delta):
    sigma = gaussian_scale(epsilon, delta)
    # Two neighbouring outputs at distance one: how much more likely than e^epsilon one makes what the other could be.
    x = np.linspace(-60 * sigma, 60 * sigma + 1, 2_000_001)
    here, there = norm.pdf(x, 0, sigma), norm.pdf(x, 1, sigma)
    assert np.maximum(here - np.exp(epsilon) * there, 0).sum() * (x[1] - x[0]) == pytest.approx(delta, rel=0.02)


def test_dp_pix_on_frequencies_has_a_whole_film_as_its_unit_and_hides_it():
    options = {"basis": "frequencies", "epsilon": 1.0}
    made = run(("dp-pix", options), film((64, 64)))
    assert made.decided["unit"] == "film"
    assert made.decided["delta"] == 1e-5
    black, white = (run(("dp-pix", options), np.full((64, 64), v, np.float32), seed=4).pixels for v in (0.0, 1.0))
    # The same noise on both: opposite films differ by twice the clipped norm at most, below what the noise moves.
    assert np.abs(white - black).mean() <= 0.5 + 1e-6
    assert made.pixels.std() > 0.2


def test_dp_pix_on_frequencies_keeps_the_coarse_film_when_epsilon_is_no_protection():
    coarse = np.kron(np.linspace(0.3, 0.7, 4, dtype=np.float32)[:, None], np.ones((16, 64), np.float32))
    made = run(("dp-pix", {"basis": "frequencies", "epsilon": 1e6}), coarse).pixels
    assert np.abs(made - coarse).mean() < 0.05


@pytest.mark.parametrize(
    "options", [{"basis": "wavelets"}, {"basis": "frequencies", "kept": 0}, {"basis": "frequencies", "clip": 0.0}]
)
def test_dp_pix_refuses_a_mechanism_it_does_not_have(options):
    with pytest.raises(UnknownMethod):
        make_method("dp-pix", options)
