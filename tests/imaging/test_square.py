"""A film becomes square."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sources.exports import canary_free, draw  # noqa: F401
from updp.imaging.square import square, without_bars


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("fit", ["pad", "crop", "stretch"])
@pytest.mark.parametrize("shape", [(80, 96), (96, 80), (64, 64), (700, 900), (32, 32), (64, 2)])
def test_square_has_the_size_and_range_asked_for(dtype, fit, shape):
    pixels = draw(*shape)
    pixels = pixels if dtype == np.uint8 else pixels.astype(np.float32) / 255
    out = square(pixels, 64, fit)
    assert out.shape == (64, 64)
    assert out.dtype == np.float32
    assert out.min() >= 0
    assert out.max() <= 1


def test_uint8_and_float_films_become_the_same_square():
    pixels = draw(300, 200)
    np.testing.assert_allclose(square(pixels, 64), square(pixels.astype(np.float32) / 255, 64), atol=1.5 / 255)


def test_pad_keeps_the_whole_film_in_the_middle_and_crop_its_middle():
    wide = np.full((100, 200), 1.0, dtype=np.float32)
    wide[:, :50] = wide[:, 150:] = 0.5
    padded = square(wide, 40, "pad")
    assert padded[:10].max() == padded[30:].max() == 0
    assert padded[11:29].min() > 0.45
    np.testing.assert_allclose(square(wide, 40, "crop")[:, 1:-1], 1.0, atol=0.05)


@pytest.mark.parametrize("shape", [(100, 160), (160, 100), (128, 128), (99, 160)])
def test_bars_come_off_and_what_is_left_is_the_film(shape):
    pixels = draw(*shape).astype(np.float32) / 255
    bare = without_bars(square(pixels, 64, "pad"), shape)
    assert bare.min() > 0
    assert min(bare.shape) / max(bare.shape) == pytest.approx(min(shape) / max(shape), abs=0.02)
    np.testing.assert_allclose(square(bare, 64, "crop"), square(pixels, 64, "crop"), atol=0.2)


def test_a_film_drawn_over_its_bars_stays_whole():
    drawn = np.full((64, 64), 0.5, np.float32)
    assert without_bars(drawn, (100, 160)).shape == (64, 64)


def test_square_is_antialiased():
    stripes = np.zeros((512, 512), dtype=np.float32)
    stripes[:, ::2] = 1
    assert np.ptp(square(stripes, 64)[8:-8, 8:-8]) < 0.05


def test_an_unknown_fit_is_an_error():
    with pytest.raises(ValueError, match="pad, crop, stretch"):
        square(draw(), 64, "zoom")  # type: ignore[arg-type]
