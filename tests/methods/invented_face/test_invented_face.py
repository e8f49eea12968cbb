"""invented-face: what leaves is the invented face around the patient's eyes, what comes back is the patient."""

from __future__ import annotations

import numpy as np
import pytest

from tests.methods.medsem.test_medsem import WORD, eight, near, streams, studies
from tests.training import small_faces
from updp.methods import make_method
from updp.methods.base import BadPassword, Reversible
from updp.methods.invented_face.method import InventedFace
from updp.methods.invented_face.passwords import faces_of

SIDE = 96


def test_the_original_comes_back_with_its_password_alone():
    method = InventedFace(side=SIDE)
    assert isinstance(method, Reversible)
    film = eight(method.encrypt(studies(1), 1.0, streams(1), [WORD])[0].pixels)
    original = small_faces.invented(1, SIDE)[0][0]
    (back,) = method.recover([film], [WORD])
    assert near(back, original) > 27
    assert near(film, original) < 20
    with pytest.raises(BadPassword):
        method.recover([film], [WORD[::-1]])


def test_the_face_that_leaves_is_that_of_the_password():
    method = InventedFace(side=SIDE, recovery="none")
    made = [eight(method.encrypt([study], 1.0, streams(1), [WORD])[0].pixels) for study in studies(2)]
    face = faces_of([WORD], SIDE)[0]
    chin = (slice(-20, None), slice(30, 66), 0)
    for film in made:
        assert np.corrcoef(film[chin].ravel(), face[chin].ravel())[0, 1] > 0.97


def test_strength_0_is_the_photograph():
    method = InventedFace(side=SIDE, recovery="none")
    film = eight(method.encrypt(studies(1), 0.0, streams(1), [WORD])[0].pixels)
    assert np.array_equal(film, small_faces.invented(1, SIDE)[0][0])


def test_the_streams_alone_make_a_release_that_can_be_made_again():
    method = make_method("invented-face", {"side": 64}, "face")
    films = [method.deidentify(studies(2), None, streams(2)) for _ in range(2)]
    for one, other in zip(*films, strict=True):
        assert np.array_equal(one.pixels, other.pixels)
