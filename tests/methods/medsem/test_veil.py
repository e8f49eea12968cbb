"""The veil over the original: what the password finds, and what is found without it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.training import small_faces
from updp.methods.invented_face.passwords import LENGTH
from updp.methods.medsem import veil
from updp.models.faces import ColourBlocks
from updp.training.face_stages import as_tensor

pytestmark = pytest.mark.numeric

WORD = bytes(range(LENGTH))
CELLS = small_faces.SIDE // 8


def parts() -> tuple[ColourBlocks, torch.Tensor, torch.Tensor, torch.Tensor]:
    photos = as_tensor(small_faces.invented(12)[0])
    code = ColourBlocks()
    code.fit(photos)
    spread = code.encode(photos).std((0, 2, 3)).clamp_min(1e-4)
    return code, photos[:1], photos[1:2], spread


def stored(word: bytes = WORD) -> tuple[ColourBlocks, torch.Tensor, torch.Tensor, torch.Tensor]:
    code, cover, original, spread = parts()
    secret = veil.secret_numbers([word], CELLS)
    inner = code.encode(cover.clamp(veil.MARGIN, 1 - veil.MARGIN))
    made = code.decode(veil.put(inner, code.encode(original), secret, spread)).clamp(0, 1)
    return code, (made * 255).round() / 255, original, spread


def psnr(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(-10 * (a - b).square().mean().log10())


def test_the_password_finds_the_original_in_the_stored_file():
    code, film, original, spread = stored()
    found = code.decode(veil.take(code.encode(film), veil.secret_numbers([WORD], CELLS), spread))
    assert psnr(found.clamp(0, 1), original) > 27


def test_a_password_that_is_off_by_one_bit_finds_noise():
    code, film, original, spread = stored()
    near = bytes([WORD[0] ^ 1]) + WORD[1:]
    found = code.decode(veil.take(code.encode(film), veil.secret_numbers([near], CELLS), spread))
    assert psnr(found.clamp(0, 1), original) < 12


def test_what_is_stored_is_spread_evenly_whatever_the_original_was():
    code, _, original, spread = parts()
    words = [np.random.default_rng(n).bytes(LENGTH) for n in range(40)]
    secret = veil.secret_numbers(words, CELLS)
    flat = torch.zeros_like(original)
    for hidden in (original, flat):
        many = code.encode(hidden).expand(40, -1, -1, -1)
        carried = veil.put(torch.zeros(40, 192, CELLS, CELLS), many, secret, spread)[:, -veil.CARRIERS :] / veil.REACH
        share, _ = np.histogram(carried.numpy(), 8, (-1, 1))
        assert np.abs(share / share.sum() - 1 / 8).max() < 0.005


def test_the_veil_is_hardly_seen():
    _, film, _, _ = stored()
    assert psnr(film, parts()[1]) > 30
