import numpy as np
import pytest
import torch
from torch.nn import functional

from updp.training.phantoms import DIAMETERS, disc, matched_filter, phantom_figures, responses, share

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def films():
    rng = torch.Generator().manual_seed(0)
    return functional.interpolate(torch.rand(6, 1, 12, 12, generator=rng), 128, mode="bicubic").clamp(0.1, 0.9)


@pytest.fixture(scope="module")
def calm(films):
    """Films whose own structure no filter answers to."""
    return 0.5 + 0.05 * (films - 0.5)


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("diameter", DIAMETERS)
def test_the_filter_gives_a_disc_its_height_and_a_slope_nothing(diameter):
    film = 0.3 * disc(64, diameter, (32, 32))[None, None]
    slope = torch.linspace(0, 1, 64).expand(1, 1, 64, 64)
    assert responses(film, diameter)[0, 0, 32, 32] == pytest.approx(0.3, abs=1e-4)
    assert responses(slope, diameter)[0, 0, 32, 32].abs() < 1e-5
    assert matched_filter(diameter).sum().abs() < 1e-5


def test_a_perfect_autoencoder_keeps_every_disc_and_invents_none(films):
    figures = phantom_figures(lambda x: x, films, rng())
    assert figures["discs kept"] == 1
    assert figures["discs kept counted"] == len(films) * len(DIAMETERS)
    assert figures["discs kept low"] < 1
    assert figures["films with an invented disc"] == 0
    assert all(figures[f"contrast kept, {d} px"] == pytest.approx(1, abs=1e-4) for d in DIAMETERS)


def test_a_blur_loses_small_discs_first(films):
    def blur(x):
        return functional.avg_pool2d(functional.pad(x, (6, 6, 6, 6), mode="reflect"), 13, 1)

    figures = phantom_figures(blur, films, rng())
    kept = [figures[f"contrast kept, {d} px"] for d in DIAMETERS]
    assert kept[0] < 0.4
    assert kept[-1] > kept[0]
    assert figures["discs kept"] < 0.5


def test_an_autoencoder_that_draws_nodules_is_found_out(calm):
    spot = 0.1 * disc(128, 10, (60, 70))[None, None]
    figures = phantom_figures(lambda x: x + spot, calm, rng())
    assert figures["discs kept"] == 1
    assert figures["films with an invented disc"] == 1
    assert figures["largest invented contrast, 10 px"] == pytest.approx(1, abs=0.1)


def test_a_spot_that_is_lost_is_not_called_invented(calm):
    spotted = calm + 0.3 * disc(128, 10, (60, 70))[None, None]
    figures = phantom_figures(lambda x: x - 0.3 * disc(128, 10, (60, 70))[None, None], spotted, rng())
    assert figures["films with an invented disc"] == 0


def test_a_share_of_nothing_has_no_value():
    assert share(0, 0, "x") == {"x counted": 0.0}
    assert share(3, 4, "x")["x"] == 0.75
