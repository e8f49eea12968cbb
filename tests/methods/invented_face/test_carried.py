"""What a film carries: only its password opens it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.training import small_faces
from updp.methods.base import BadPassword
from updp.methods.invented_face.carried import TooLittleRoom, carried, carry

WORD = bytes(range(32))


class TestCarried:
    FILM = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    ORIGINAL = small_faces.invented(1, 32)[0][0]

    def test_the_upper_bits_stay(self):
        made = carry(self.FILM, self.ORIGINAL, WORD)
        assert np.array_equal(made >> 2, self.FILM >> 2)

    def test_the_same_password_writes_the_same_bits(self):
        assert np.array_equal(carry(self.FILM, self.ORIGINAL, WORD), carry(self.FILM, self.ORIGINAL, WORD))

    def test_one_changed_bit_of_the_film_is_noticed(self):
        made = carry(self.FILM, self.ORIGINAL, WORD)
        made[3, 4, 1] ^= 1
        with pytest.raises(BadPassword):
            carried(made, WORD)

    def test_bits_of_two_records_look_like_noise_and_unlike(self):
        low = [carry(self.FILM, self.ORIGINAL, word).ravel() & 3 for word in (WORD, WORD[::-1])]
        for bits in low:
            assert np.abs(np.bincount(bits, minlength=4) / bits.size - 0.25).max() < 0.05
        assert abs(np.mean(low[0] == low[1]) - 0.25) < 0.05

    def test_a_film_with_too_little_room_is_refused(self):
        with pytest.raises(TooLittleRoom):
            carry(self.FILM[:4, :4], self.ORIGINAL, WORD)
