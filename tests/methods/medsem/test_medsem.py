"""MedSem-DeID with tiny networks: what leaves, what comes back, and with which password."""

from __future__ import annotations

import numpy as np
import pytest

from tests.training import small_faces
from updp.core.reasons import Reason
from updp.core.record import Study
from updp.domains.face.landmarks import named
from updp.methods.base import BadPassword, Method, Reversible
from updp.methods.invented_face.passwords import LENGTH

WORD = bytes(range(LENGTH))


def studies(count: int = 2, side: int = 96) -> list[Study]:
    films, points = small_faces.invented(count, side)
    return [
        Study(
            f"f{n}",
            f"s{n}",
            f"p{n}",
            pixels=film.astype(np.float32) / np.float32(255),
            landmarks=named(own, film.shape),
        )
        for n, (film, own) in enumerate(zip(films, points, strict=True))
    ]


def streams(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng([7, n]) for n in range(count)]


def eight(pixels) -> np.ndarray:
    return np.rint(pixels * 255).astype(np.uint8)


def near(a: np.ndarray, b: np.ndarray) -> float:
    """PSNR in decibels."""
    return float(-10 * np.log10(np.mean((a.astype(float) - b) ** 2) / 255**2 + 1e-12))


def test_it_is_a_reversible_method(make):
    method = make()
    assert isinstance(method, Method)
    assert isinstance(method, Reversible)
    assert method.keeps_originals


def test_a_photograph_leaves_as_its_frame_and_comes_back_with_its_password(make):
    method, batch = make(), studies()
    words = [WORD, WORD[::-1]]
    out = method.encrypt(batch, 1.0, streams(2), words)
    films = [eight(one.pixels) for one in out]
    originals, _ = small_faces.invented(2, small_faces.SIDE)
    again = method.recover(films, words)
    for film, own, original in zip(films, again, originals, strict=True):
        assert film.shape == (small_faces.SIDE, small_faces.SIDE, 3)
        assert near(own, original) > near(film, original) + 3
    assert out[0].decided == {"recovery": "carried"}


def test_another_password_and_a_near_one_give_nothing(make):
    method = make()
    film = eight(method.encrypt(studies(1), 1.0, streams(1), [WORD])[0].pixels)
    one_bit = bytes([WORD[0] ^ 1]) + WORD[1:]
    for wrong in (WORD[::-1], one_bit):
        with pytest.raises(BadPassword):
            method.recover([film], [wrong])


def test_the_decryptor_answers_a_wrong_password_with_another_face(make):
    method = make(recovery="learned")
    film = eight(method.encrypt(studies(1), 1.0, streams(1), [WORD])[0].pixels)
    right, wrong = method.recover([film, film], [WORD, WORD[::-1]])
    assert right.shape == wrong.shape == film.shape
    assert not np.array_equal(right, wrong)


def test_without_recovery_nothing_comes_back(make):
    method = make(recovery="none")
    film = eight(method.encrypt(studies(1), 1.0, streams(1), [WORD])[0].pixels)
    with pytest.raises(BadPassword):
        method.recover([film], [WORD])


def test_strength_0_is_the_photograph_and_more_strength_keeps_less(make):
    method = make(recovery="none")
    original = small_faces.invented(1, small_faces.SIDE)[0][0]
    kept = [
        near(eight(method.encrypt(studies(1), strength, streams(1), [WORD])[0].pixels), original)
        for strength in (0.0, 0.3, 1.0)
    ]
    assert kept[0] > 30  # framed from a photograph of another size
    assert kept[0] > kept[1] > kept[2]


def test_a_film_does_not_depend_on_its_batch(make):
    method, batch = make(), studies(3)
    words = [bytes([n]) * LENGTH for n in range(3)]
    together = method.encrypt(batch, 0.8, streams(3), words)
    alone = [method.encrypt([study], 0.8, streams(1), [word])[0] for study, word in zip(batch, words, strict=True)]
    # The last bit of a product may differ with the batch, the photograph that is stored may not by more than that.
    for a, b in zip(together, alone, strict=True):
        high = [eight(x.pixels) >> 2 for x in (a, b)]
        assert np.abs(high[0].astype(int) - high[1]).max() <= 1


def test_no_pixel_beyond_the_ring_around_the_eyes_reaches_what_leaves(make):
    method = make(recovery="none")
    original = small_faces.invented(1, small_faces.SIDE)[0]
    changed = original.copy()
    changed[:, -8:] = 255 - changed[:, -8:]
    changed[:, :6] = 0
    one, other = (method.encrypted(photo, [WORD], 1.0) for photo in (original, changed))
    assert np.array_equal(one, other)


def test_a_study_without_landmarks_is_kept_back(make):
    study = studies(1)[0].but(landmarks={})
    assert make().encrypt([study], 1.0, streams(1), [WORD])[0].refused is Reason.FACE_NONE


@pytest.mark.parametrize("wrong", [b"", WORD[:-1], WORD + b"x"])
def test_a_password_of_another_length_is_refused(make, wrong):
    with pytest.raises(BadPassword, match="32 bytes"):
        make().encrypt(studies(1), 1.0, streams(1), [wrong])
