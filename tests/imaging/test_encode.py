"""A released PNG holds pixels and nothing else."""

from __future__ import annotations

import io
import struct

import numpy as np
from PIL import Image

from tests.sources.exports import canary_free, draw  # noqa: F401
from updp.imaging.encode import encode_png


def test_png_carries_pixels_and_nothing_else():
    data = encode_png(draw().astype(np.float32) / 255)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), draw())
    kinds, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kinds.append(data[at + 4 : at + 8])
        at += 12 + length
    assert set(kinds) == {b"IHDR", b"IDAT", b"IEND"}
    assert data == encode_png(draw().astype(np.float32) / 255)


def test_png_clips_what_a_method_drew_outside_the_range():
    pixels = np.array([[-0.5, 0.5], [1.5, 1.0]], dtype=np.float32)
    assert np.asarray(Image.open(io.BytesIO(encode_png(pixels)))).tolist() == [[0, 128], [255, 255]]
