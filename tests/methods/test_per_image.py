"""Methods that make each image by itself."""

from typing import ClassVar

import numpy as np
import pytest

from updp.core.reasons import Reason
from updp.core.record import Study
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.per_image import PerFace, PerImage

INFO = MethodInfo(name="plain", summary="", knob="", default_strength=0.25, guarantee="none")


class Noisy(PerImage):
    info: ClassVar[MethodInfo] = INFO

    def make(self, study, strength, rng):
        return Deidentified(study.pixels + strength * rng.random(study.pixels.shape), {"strength": strength})


class Dark(PerFace):
    info: ClassVar[MethodInfo] = INFO

    def draw(self, pixels, points, strength):
        return pixels * 0


def studies(count):
    return [Study(str(n), str(n), str(n), pixels=np.full((4, 4), n, np.float32)) for n in range(count)]


def streams(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def test_each_image_is_made_from_its_own_stream_in_order():
    made = Noisy().deidentify(studies(3), 0.5, streams(1, 2, 3))
    alone = Noisy().deidentify(studies(3)[2:], 0.5, streams(3))
    assert [int(one.pixels.min()) for one in made] == [0, 1, 2]
    np.testing.assert_array_equal(made[2].pixels, alone[0].pixels)


def test_strength_is_the_methods_own_where_none_is_given_and_outside_its_range_an_error():
    assert Noisy().deidentify(studies(1), None, streams(0))[0].decided == {"strength": 0.25}
    with pytest.raises(ValueError, match="must lie in"):
        Noisy().deidentify(studies(1), 1.5, streams(0))


def test_a_batch_with_too_few_streams_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        Noisy().deidentify(studies(2), 0.5, streams(0))


def test_a_photograph_without_a_face_is_kept_back():
    (made,) = Dark().deidentify([Study("a", "a", "a")], 0.5, streams(0))
    assert made.pixels is None
    assert made.refused is Reason.FACE_NONE
