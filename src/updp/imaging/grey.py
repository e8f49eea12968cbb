"""Grey values: bits to [0, 1] and back, stretching between percentiles, and the checks every film passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from updp.core.reasons import Reason, Refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Where the grey scale came from: the file's own window, all values of an 8-bit film, or percentiles.
Window = Literal["file", "full", "percentile"]
#: Share of pixels cut off at either end when a film of more than eight bits brings no window.
TAIL = 0.001
#: Two channels of a grey JPEG stored as colour differ by rounding only; a tint or a drawing differs by more.
COLOUR_SPREAD = 12
COLOUR_SHARE = 0.001


def one_channel(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The grey film in an RGB array; refuses a colour picture."""
    import numpy as np

    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    low, high = np.minimum(np.minimum(red, green), blue), np.maximum(np.maximum(red, green), blue)
    if np.count_nonzero(high - low > COLOUR_SPREAD) > COLOUR_SHARE * low.size:
        raise Refused(Reason.IMAGE_NOT_GREY)
    return np.ascontiguousarray(green)


def unit_range(values: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Eight bits over [0, 1]; refuses a film of one value."""
    if values.min() == values.max():
        raise Refused(Reason.IMAGE_BLANK)
    return scaled(values)


def scaled(values: NDArray[np.uint8]) -> NDArray[np.float32]:
    import numpy as np

    return np.multiply(values, np.float32(1 / 255), dtype=np.float32)


def stretched(
    values: NDArray[Any], *, inverted: bool = False, ignore: NDArray[np.bool_] | None = None
) -> NDArray[np.float32]:
    """Values between two percentiles of the film's own histogram spread over [0, 1]."""
    import numpy as np

    counted = values if ignore is None else values[~ignore]
    if counted.size == 0 or not np.isfinite([counted.min(), counted.max()]).all():
        raise Refused(Reason.IMAGE_BLANK if counted.size == 0 else Reason.IMAGE_UNREADABLE)
    low, high = _percentiles(counted)
    if low == high:  # nearly all of one value: let what differs decide
        low, high = float(counted.min()), float(counted.max())
    if low == high:
        raise Refused(Reason.IMAGE_BLANK)
    film = values.astype(np.float32)
    film -= np.float32(low)
    film *= np.float32(1 / (high - low))
    np.clip(film, 0, 1, out=film)
    return np.float32(1) - film if inverted else film


def _percentiles(values: NDArray[Any]) -> tuple[float, float]:
    """The values below and above which lie ``TAIL`` of the pixels."""
    import numpy as np

    least = values.min()
    if values.dtype.kind in "iu" and int(values.max()) - int(least) < 2**16:
        # Counting is ten times faster than sorting, and exact.
        counts = np.cumsum(np.bincount((values.astype(np.int64) - int(least)).ravel()))
        cut = TAIL * values.size
        low, high = np.searchsorted(counts, [cut, values.size - cut])
        return float(int(least) + int(low)), float(int(least) + int(high))
    ordered = np.partition(values.ravel(), [int(TAIL * (values.size - 1)), int((1 - TAIL) * (values.size - 1))])
    return float(ordered[int(TAIL * (values.size - 1))]), float(ordered[int((1 - TAIL) * (values.size - 1))])


def check_size(height: int, width: int, *, max_pixels: int, min_side: int) -> None:
    if height * width > max_pixels:
        raise Refused(Reason.IMAGE_TOO_LARGE)
    if min(height, width) < min_side:
        raise Refused(Reason.IMAGE_TOO_SMALL)


def checked(film: NDArray[np.float32], window: Window) -> tuple[NDArray[np.float32], Window]:
    if film.min() == film.max():
        raise Refused(Reason.IMAGE_BLANK)
    return film, window


def grey8(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The film in 256 grey values, as it is written."""
    import numpy as np

    return rounded(np.clip(pixels, np.float32(0), np.float32(1)))


def rounded(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Values within [0, 1] in eight bits, in strips that stay in the processor's cache."""
    import numpy as np

    out = np.empty(pixels.shape, dtype=np.uint8)
    strip = max(1, 2**15 // max(1, pixels.shape[1]))
    for top in range(0, pixels.shape[0], strip):
        part = np.multiply(pixels[top : top + strip], np.float32(255), dtype=np.float32)
        part += np.float32(0.5)
        out[top : top + strip] = part
    return out
