"""A painted box looks like the film around it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from updp.screening.painting import paint_out

pytest.importorskip("cv2")


def slope(noise: float = 0.01) -> np.ndarray:
    y, x = np.mgrid[0:120, 0:160].astype(np.float32)
    grain = np.random.default_rng(3).normal(0, noise, x.shape) if noise else 0
    return np.clip(0.2 + 0.003 * x + 0.001 * y + grain, 0, 1).astype(np.float32)


def test_letters_give_way_to_the_background():
    film = slope()
    marked = film.copy()
    marked[40:60, 50:110:4] = 1.0
    painted = paint_out(marked, [(48, 38, 66, 24)])
    assert np.abs(painted[38:62, 48:114] - film[38:62, 48:114]).mean() < 0.03


def test_nothing_outside_the_box_changes():
    film = slope()
    painted = paint_out(film, [(48, 38, 66, 24)])
    outside = np.ones(film.shape, dtype=bool)
    outside[38:62, 48:114] = False
    assert np.array_equal(painted[outside], film[outside])
    assert not np.array_equal(painted, film)


def test_the_grain_of_the_film_goes_on():
    film = slope(noise=0.02)
    painted = paint_out(film, [(40, 40, 60, 40)])
    rough = np.std(painted[45:75, 45:95] - painted[45:75, 45:95].mean(axis=0))
    assert 0.005 < rough < 0.05


def test_a_film_without_grain_gets_none():
    film = np.full((64, 64), 0.4, dtype=np.float32)
    film[20:30, 20:40] = 1.0
    assert np.allclose(paint_out(film, [(19, 19, 22, 12)]), 0.4, atol=1e-3)


def test_a_box_inside_another_is_filled_from_outside_both():
    film = np.full((100, 100), 0.9, dtype=np.float32)
    film[:, :20] = 0.1
    film[70:90, 40:80] = 0.0
    painted = paint_out(film, [(35, 65, 50, 35), (45, 75, 20, 10)])
    assert np.abs(painted[65:, 35:85] - 0.9).max() < 0.05


def test_the_source_is_left_alone():
    film = slope()
    before = film.copy()
    paint_out(film, [(0, 0, 30, 30)])
    assert np.array_equal(film, before)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(*(st.integers(-20, 170) for _ in range(2)), *(st.integers(1, 200) for _ in range(2))), max_size=4
    )
)
def test_any_boxes_give_a_film_in_range(rects):
    painted = paint_out(slope(), rects)
    assert painted.dtype == np.float32
    assert np.isfinite(painted).all()
    assert painted.min() >= 0
    assert painted.max() <= 1
    assert np.array_equal(painted, paint_out(slope(), rects))
