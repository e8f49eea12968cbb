"""The original under a password in the finest components of a released photograph.

A photograph of a face needs few of the 192 components of its 8×8 blocks: the last hundred change no grey value. They
carry the first 64 components of the original. Each value is added to a secret number, and what is beyond the range
comes in again at its other end, so that what is stored is spread evenly whatever the original was: who lacks the
password sees noise, and a wrong password gives another noise. Values that need it are carried two or three times, each
time finer. Unlike the encrypted file of ``carried`` the values withstand a little noise; they do not survive JPEG.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from updp.methods.invented_face.passwords import key_of

#: How often each of the first components is carried, and how much finer each time.
TIMES = (*([3] * 4), *([2] * 20), *([1] * 40))
FINER = 4.0
CARRIERS = sum(TIMES)
#: Largest value of a carrier, and how far released colours stay from black and white so that no carrier is cut.
REACH, MARGIN = 6 / 255, 8 / 255
#: Spreads of a component that are distinguished, and the share of the range that they fill: noise must not turn over.
SPREADS, FILLED = 4.0, 0.85


def secret_numbers(passwords: list[bytes], cells: int) -> Tensor:
    """Numbers in [-1, 1), N×carriers×cells×cells (AES-256 in counter mode under a key of the password)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    size = CARRIERS * cells * cells
    out = []
    for word in passwords:
        stream = Cipher(algorithms.AES(key_of(word, "veil", 32)), modes.CTR(bytes(16))).encryptor()
        numbers = np.frombuffer(stream.update(bytes(2 * size)), "<u2").astype(np.float32)
        out.append(numbers.reshape(CARRIERS, cells, cells) / np.float32(2**15) - np.float32(1))
    return torch.from_numpy(np.stack(out))


def wrapped(values: Tensor) -> Tensor:
    """Values modulo 2, in [-1, 1]."""
    return values - 2 * torch.round(values / 2)


def put(code: Tensor, original: Tensor, secret: Tensor, spread: Tensor) -> Tensor:
    """The code of a released photograph with that of the original in its last components."""
    unit = FILLED * (original[:, : len(TIMES)] / (SPREADS * spread[: len(TIMES), None, None])).clamp(-1, 1)
    parts = [unit[:, n] * FINER**k for n, times in enumerate(TIMES) for k in range(times)]
    veiled = REACH * wrapped(torch.stack(parts, 1) + secret)
    return torch.cat([code[:, : code.shape[1] - CARRIERS], veiled], 1)


def take(code: Tensor, secret: Tensor, spread: Tensor) -> Tensor:
    """The original's code from the code of a released photograph; its last components are zero."""
    found = wrapped(code[:, -CARRIERS:] / REACH - secret)
    out, at = torch.zeros_like(code), 0
    for n, times in enumerate(TIMES):
        value = found[:, at]
        for k in range(1, times):
            coarse = value * FINER**k
            value = (coarse + wrapped(found[:, at + k] - coarse)) / FINER**k
        at += times
        out[:, n] = value / FILLED * SPREADS * spread[n]
    return out
