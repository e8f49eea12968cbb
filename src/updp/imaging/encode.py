"""Writing a film: the same PNG bytes for the same film."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
from updp.core.native import Native
from updp.imaging.grey import grey8

#: Filtered rows of a film are noise: searching them for repeats costs half the time of encoding and gains nothing.
#: Run lengths alone (Z_RLE) make smaller files than level 6 in a third of its time; the level then hardly matters.
PNG_LEVEL = 4
PNG_STRATEGY = zlib.Z_RLE


def encode_png(pixels: NDArray[np.float32], text: Mapping[str, str] | None = None) -> bytes:
    """The image as an 8-bit PNG, grey or RGB: header, the text given, data and end chunk; always the same bytes."""
    return _png(grey8(pixels), text)


def encode_native_png(film: Native, text: Mapping[str, str] | None = None) -> bytes:
    """The film at its own size, white is dense: in 8 bits as stored, or in 16, over which a lesser depth is spread."""
    import numpy as np

    whole = film.bits == 8 * film.values.dtype.itemsize and not film.signed and not film.inverted
    if whole:
        return _png(film.values, text)
    kind = np.uint8 if film.bits <= 8 else np.uint16
    return _png(np.rint(film.unit() * np.float32(np.iinfo(kind).max)).astype(kind), text)


def _png(values: NDArray[Any], text: Mapping[str, str] | None) -> bytes:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    chunks = PngInfo()
    for name, words in (text or {}).items():
        chunks.add_text(name, words)
    out = io.BytesIO()
    image = Image.fromarray(values)
    image.save(out, "PNG", compress_level=PNG_LEVEL, compress_type=PNG_STRATEGY, pnginfo=chunks)
    return out.getvalue()
