import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import norm

from updp.core.record import Study
from updp.methods import LEARNED, METHODS, UnknownMethod, make_method, method_info
from updp.methods.base import Method
from updp.methods.dp_pix import gaussian_scale, pixelate
from updp.methods.learned import WEIGHTS
from updp.models import load_pack


def study(pixels):
    return Study("f", "s", "p", pixels=pixels)


def film(shape=(64, 48), seed=0):
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def run(method, pixels, strength=None, seed=1):
    return make_method(*method).deidentify([study(pixels)], strength, [np.random.default_rng(seed)])[0]


@pytest.mark.parametrize("name", list(METHODS))
def test_every_registered_method_keeps_the_protocol(name):
    assert method_info(name).name == name
    if name in LEARNED and name not in load_pack(WEIGHTS, verify=False).info["methods"]:
        # Nothing is released by a method that has not learned yet: it says how to train it instead.
        with pytest.raises(UnknownMethod, match=f"updp train method {name}"):
            make_method(name)
    else:
        assert isinstance(make_method(name), Method)


def test_listing_methods_loads_no_network():
    code = "import sys; from updp.methods import METHODS, method_info; "
    code += "[method_info(name) for name in METHODS]; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_method_lists_those_there_are():
    with pytest.raises(UnknownMethod, match="keep, blur, pixelate, dp-pix"):
        make_method("keeep")


def test_wrong_options_name_the_method():
    with pytest.raises(UnknownMethod, match="dp-pix"):
        make_method("dp-pix", {"cells": 3})


def test_keep_changes_nothing():
    assert (run(("keep", {}), film()).pixels == film()).all()


def test_blur_of_strength_zero_is_the_film_and_more_strength_is_smoother():
    spread = [run(("blur", {}), film(), s).pixels.std() for s in (0.0, 0.3, 1.0)]
    assert (run(("blur", {}), film(), 0.0).pixels == film()).all()
    assert spread[0] > spread[1] > spread[2]


@pytest.mark.parametrize("strength", [-0.1, 1.1])
def test_strength_outside_its_range_is_an_error(strength):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        run(("blur", {}), film(), strength)


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


@pytest.mark.parametrize("shape", [(64, 64), (61, 47)])
def test_pixelation_keeps_the_mean_of_every_cell(shape):
    made = run(("pixelate", {"max_cell": 1 / 4}), film(shape), 1.0)
    b = made.decided["cell"]
    assert b == round(min(shape) / 4)
    for y in range(0, shape[0], b):
        for x in range(0, shape[1], b):
            cell = made.pixels[y : y + b, x : x + b]
            assert np.ptp(cell) == 0
            assert cell[0, 0] == pytest.approx(film(shape)[y : y + b, x : x + b].mean(), abs=1e-6)


def test_pixelation_of_strength_zero_is_the_film():
    made = run(("pixelate", {}), film(), 0.0)
    assert np.abs(made.pixels - film()).max() < 1e-6
