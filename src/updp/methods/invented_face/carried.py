"""The original inside its released photograph: compressed, encrypted, in the lowest bits of every colour.

A network that hides one photograph in another gives it back blurred, and gives something to whoever tries. Here the
lowest bits hold AES-SIV (RFC 5297) of a JPEG of the original: without the password they are noise, with a wrong one
nothing comes out, not even a wrong face. They do not survive JPEG or rescaling of the released file.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from updp.methods.base import BadPassword
from updp.methods.invented_face.passwords import key_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bits of each colour value that carry.
BITS = 2
_TAG, _LENGTH = 16, 2
_QUALITIES = (98, 97, 96, 95, 93, 91, 88, 85, 80, 75, 70, 60, 50, 40, 30, 20, 10, 5, 1)


class TooLittleRoom(ValueError):
    """A photograph of this size cannot carry its original."""


def carry(film: NDArray[np.uint8], original: NDArray[np.uint8], password: bytes) -> NDArray[np.uint8]:
    """The film with the original in its lowest bits."""
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    room = film.size * BITS // 8 - _TAG
    small = _compressed(original, room - _LENGTH)
    plain = len(small).to_bytes(_LENGTH, "big") + small
    box = AESSIV(key_of(password, "carried", 64)).encrypt(plain.ljust(room, b"\0"), None)
    bits = np.unpackbits(np.frombuffer(box, np.uint8))
    digits = np.zeros(film.size, np.uint8)
    held = bits.reshape(-1, BITS) @ (1 << np.arange(BITS - 1, -1, -1)).astype(np.uint8)
    digits[: len(held)] = held
    out: NDArray[np.uint8] = (film & np.uint8(256 - (1 << BITS))) | digits.reshape(film.shape)
    return out


def carried(film: NDArray[np.uint8], password: bytes) -> NDArray[np.uint8]:
    """The original that ``carry`` put in; refuses another password, and a film whose bits were changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    from PIL import Image

    size = film.size * BITS // 8
    digits = (film & np.uint8((1 << BITS) - 1)).ravel()[: size * 8 // BITS]
    bits = (digits[:, None] >> np.arange(BITS - 1, -1, -1)) & 1
    try:
        plain = AESSIV(key_of(password, "carried", 64)).decrypt(np.packbits(bits.astype(np.uint8)).tobytes(), None)
    except InvalidTag:
        raise BadPassword("the password is not that of this photograph, or the photograph was altered") from None
    length = int.from_bytes(plain[:_LENGTH], "big")
    with Image.open(io.BytesIO(plain[_LENGTH : _LENGTH + length])) as image:
        return np.asarray(image.convert("RGB"))


def _compressed(original: NDArray[np.uint8], room: int) -> bytes:
    from PIL import Image

    for quality in _QUALITIES:
        out = io.BytesIO()
        Image.fromarray(original).save(out, "JPEG", quality=quality, subsampling=0 if quality > 50 else 2)
        if out.tell() <= min(room, 256**_LENGTH - 1):
            return out.getvalue()
    raise TooLittleRoom(f"{room} bytes are too few for the original")
