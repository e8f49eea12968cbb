"""Passwords: one bit changes everything that hangs on one."""

from __future__ import annotations

import numpy as np

from updp.methods.invented_face.passwords import LENGTH, face_of, public_faces, token_of

WORD = bytes(range(LENGTH))


def test_one_bit_of_a_password_changes_face_and_token():
    words = [bytes([WORD[0] ^ (1 << bit)]) + WORD[1:] for bit in range(8)]
    assert len({face_of(word, len(public_faces(16))) for word in words}) > 1
    for word in words:
        assert abs(np.corrcoef(token_of(WORD), token_of(word))[0, 1]) < 0.25
