"""What a password stands for: a public face, a token for the networks, and the key of what the photograph carries.

The public faces are the invented ones of the package. Everything is a hash of the whole password, so that one changed
bit changes all of it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from updp.methods.base import BadPassword

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Length of a password in bytes.
LENGTH = 32
TOKEN = 512


def check_password(password: bytes) -> bytes:
    if len(password) != LENGTH:
        raise BadPassword(f"a password has {LENGTH} bytes, not {len(password)}")
    return password


def token_of(password: bytes) -> NDArray[np.float32]:
    """The password as a vector of normal random numbers."""
    return stream_of(password, b"token").standard_normal(TOKEN, np.float32)


def face_of(password: bytes, faces: int) -> tuple[int, bool]:
    """Which of the public faces, and whether it is mirrored."""
    rng = stream_of(password, b"face")
    return int(rng.integers(faces)), bool(rng.random() < 0.5)


def key_of(password: bytes, use: str, length: int) -> bytes:
    """A key of its own for one use (HKDF-SHA-256)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt=None, info=b"updp/1/face/" + use.encode()).derive(check_password(password))


def stream_of(password: bytes, use: bytes) -> np.random.Generator:
    digest = hashlib.sha256(use + b"\x00" + check_password(password)).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


@lru_cache(maxsize=4)
def public_faces(side: int) -> NDArray[np.uint8]:
    """The invented faces of the package in the frame, N×S×S×3."""
    from updp.domains.face.frame import framed
    from updp.domains.face.people import people

    return np.stack([framed(person.photo, person.points, side)[0] for person in people()])


def faces_of(passwords: list[bytes], side: int) -> NDArray[np.uint8]:
    """The public face of each password."""
    faces = public_faces(side)
    chosen = [face_of(password, len(faces)) for password in passwords]
    return np.stack([faces[n][:, ::-1] if mirrored else faces[n] for n, mirrored in chosen])
