"""Fitting a film to a square: padded, cropped or stretched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
from updp.imaging.grey import rounded, scaled

Fit = Literal["pad", "crop", "stretch"]
#: Mean grey value above which a bar is no longer one.
_BAR = 0.03


def square(pixels: NDArray[Any], size: int, fit: Fit = "pad") -> NDArray[np.float32]:
    """The image as ``size`` x ``size``: padded with black, cropped at the centre, or stretched. Channels come last.

    Takes uint8, or float32 in [0, 1], which is resampled in eight bits too: the released film has no more, and an 8-bit
    film comes through unrounded. Bicubic with antialiasing; a film much larger than ``size`` is first averaged in whole
    blocks down to twice ``size``, which moves no pixel of a noisy film by more than one grey level.
    """
    import numpy as np
    from PIL import Image

    if fit not in ("pad", "crop", "stretch"):
        raise ValueError("fit is one of pad, crop, stretch")
    height, width = pixels.shape[:2]
    if (height, width) == (size, size):
        return scaled(pixels) if pixels.dtype == np.uint8 else pixels.astype(np.float32, copy=False)
    box: tuple[float, float, float, float] = (0, 0, width, height)
    new_width = new_height = size
    if fit == "pad":
        longest = max(height, width)
        new_width, new_height = max(1, round(size * width / longest)), max(1, round(size * height / longest))
    elif fit == "crop":
        side = min(height, width)
        left, top = (width - side) // 2, (height - side) // 2
        box = (left, top, left + side, top + side)
    image = Image.fromarray(pixels if pixels.dtype == np.uint8 else rounded(pixels))
    image = image.resize((new_width, new_height), Image.Resampling.BICUBIC, box=box, reducing_gap=2.0)
    small = scaled(np.asarray(image))
    if (new_height, new_width) == (size, size):
        return small
    out = np.zeros((size, size, *pixels.shape[2:]), dtype=np.float32)
    top, left = (size - new_height) // 2, (size - new_width) // 2
    out[top : top + new_height, left : left + new_width] = small
    return out


def place_in_square(x: float, y: float, shape: tuple[int, ...], fit: Fit) -> tuple[float, float]:
    """Where a place in an image of ``shape`` comes to lie in its square, in fractions; outside [0, 1] if cut off."""
    height, width = shape[:2]
    if fit == "stretch":
        return x, y
    side = min(height, width) if fit == "crop" else max(height, width)
    return 0.5 + (x - 0.5) * width / side, 0.5 + (y - 0.5) * height / side


def without_bars(pixels: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A film that was padded from ``shape`` without its bars; whole where a method has drawn over them."""
    size, (height, width) = pixels.shape[0], shape[:2]
    longest = max(height, width)
    rows, columns = (max(1, round(size * side / longest)) for side in (height, width))
    top, left = (size - rows) // 2, (size - columns) // 2
    # Half of a bar: a blur carries the film's edge into the other half.
    outer = [pixels[: top // 2], pixels[size - top // 2 :], pixels[:, : left // 2], pixels[:, size - left // 2 :]]
    if any(bar.size and float(bar.mean()) > _BAR for bar in outer):
        return pixels
    return pixels[top : top + rows, left : left + columns]
