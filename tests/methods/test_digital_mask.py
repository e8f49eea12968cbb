"""The mesh of a face without texture: geometry, lids and gaze, and nothing else of the photograph."""

from __future__ import annotations

import numpy as np
import pytest

from tests.domains.face.photographs import FACES, face, unit
from updp.core.record import Study
from updp.domains.face.landmarks import EYES, named, opening
from updp.domains.face.signs import iris_offset
from updp.methods.digital_mask import DigitalMask, mean_face, towards_mean, upright

LANDMARKS = np.load(FACES / "landmarks.npz")["points"].astype(np.float64)


def study(number: int, pixels: np.ndarray | None = None) -> Study:
    pixels = unit(face(number)) if pixels is None else pixels
    return Study("f", "s", "p", pixels=pixels, landmarks=named(LANDMARKS[number], pixels.shape))


def made(one: Study, strength: float | None = None) -> np.ndarray:
    return DigitalMask().deidentify([one], strength, [np.random.default_rng(0)])[0].pixels


def test_the_mask_is_grey_and_holds_no_texture_of_the_photograph():
    mask = made(study(12))
    assert mask.shape == (256, 256, 3)
    assert np.ptp(mask, axis=-1).max() == 0
    # Another skin, hair and background with the same landmarks and eyes: the same mask.
    other = unit(face(12)) * 0.7
    assert np.abs(made(study(12, other)) - mask).mean() < 0.01


def test_strength_pulls_the_face_to_the_mean_and_leaves_the_lids():
    points = LANDMARKS[5]
    apart = [np.abs(upright(towards_mean(points, a, True))[0] - mean_face()).mean() for a in (0.0, 0.5, 1.0)]
    assert apart[0] > apart[1] > apart[2]
    for eye in EYES.values():
        assert opening(towards_mean(points, 1.0, True), eye) == pytest.approx(opening(points, eye), rel=0.05)
    assert np.abs(upright(towards_mean(points, 1.0, False))[0] - mean_face()).max() < 1e-6


def test_at_full_strength_outlines_of_two_people_are_the_same():
    first, second = (upright(towards_mean(LANDMARKS[n], 1.0, True))[0] for n in (5, 40))
    assert np.abs(first[:33] - second[:33]).max() < 1e-6


def test_gaze_is_drawn_where_it_was():
    for number in (12, 40):
        points, one = LANDMARKS[number], study(number)
        for eye in EYES.values():
            assert iris_offset(made(one, 0.0), points, eye) == pytest.approx(
                iris_offset(one.pixels, points, eye), abs=0.07
            )
