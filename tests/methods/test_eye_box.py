"""A black bar over the eyes."""

from __future__ import annotations

import numpy as np

from tests.domains.face.photographs import FACES, face, unit
from updp.core.reasons import Reason
from updp.core.record import Study
from updp.domains.face.landmarks import EYES, MOUTH_CORNERS, centre, named
from updp.methods.eye_box import EyeBox

POINTS = np.load(FACES / "landmarks.npz")["points"][5].astype(np.float64)


def study() -> Study:
    pixels = unit(face(5))
    return Study("f", "s", "p", pixels=pixels, landmarks=named(POINTS, pixels.shape))


def made(strength: float | None) -> np.ndarray:
    return EyeBox().deidentify([study()], strength, [np.random.default_rng(0)])[0].pixels


def test_the_eyes_are_black_and_the_mouth_is_not():
    covered = made(None)
    for eye in EYES.values():
        x, y = centre(POINTS, eye).astype(int)
        assert (covered[y, x] == 0).all()
    x, y = POINTS[list(MOUTH_CORNERS)].mean(0).astype(int)
    assert np.array_equal(covered[y, x], study().pixels[y, x])


def test_the_bar_grows_with_strength_from_nothing():
    black = [(made(strength) == 0).all(-1).sum() for strength in (0.0, 0.3, 0.6, 1.0)]
    assert black == sorted(black)
    assert black[1] > black[0]
    assert np.array_equal(made(0.0), study().pixels)


def test_without_landmarks_a_photograph_is_kept_back():
    bare = study().but(landmarks={})
    assert EyeBox().deidentify([bare], None, [np.random.default_rng(0)])[0].refused is Reason.FACE_NONE
