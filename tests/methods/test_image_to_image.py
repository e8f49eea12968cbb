"""Vanilla image-to-image, on a tiny untrained pack of the real classes."""

import numpy as np
import pytest
import torch

from tests.methods.films import streams, studies
from updp.core.reasons import Reason
from updp.methods import make_method

pytestmark = pytest.mark.numeric


def image_to_image(pack, **more):
    return make_method("image-to-image", {"pack": pack, "steps": 3, **more})


def test_image_to_image_of_strength_zero_is_the_autoencoder_alone(small_pack):
    method = image_to_image(small_pack)
    made = method.deidentify(studies(1), 0.0, streams(1))[0].pixels
    film = torch.from_numpy(studies(1)[0].pixels)[None, None]
    with torch.no_grad():
        again = method.pack.autoencoder.decode(method.pack.autoencoder.encode(film))
    assert np.abs(made - again[0, 0].numpy()).max() < 1e-6


def test_image_to_image_drifts_from_the_film_as_strength_grows(small_pack):
    method = image_to_image(small_pack)
    base = method.deidentify(studies(2), 0.0, streams(2))
    moved = [
        np.mean([np.abs(a.pixels - b.pixels).mean() for a, b in zip(base, made, strict=True)])
        for made in (method.deidentify(studies(2), s, streams(2)) for s in (0.1, 0.9))
    ]
    assert 0 < moved[0] < moved[1]


def test_image_to_image_gives_a_study_the_same_film_in_any_batch(small_pack):
    together = image_to_image(small_pack).deidentify(studies(3), 0.5, streams(3))
    alone = image_to_image(small_pack).deidentify(studies(3)[1:2], 0.5, streams(3)[1:2])
    assert np.abs(together[1].pixels - alone[0].pixels).max() < 1e-4


def test_a_lateral_film_is_kept_back_and_the_others_are_made(small_pack):
    batch = studies(3)
    batch[1] = batch[1].but(view="LATERAL")
    out = image_to_image(small_pack).deidentify(batch, None, streams(3))
    assert [one.refused for one in out] == [None, Reason.FILM_NOT_FRONTAL, None]


@pytest.mark.parametrize("strength", [-0.01, 1.01])
def test_strength_outside_its_range_is_an_error(small_pack, strength):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        image_to_image(small_pack).deidentify(studies(1), strength, streams(1))
