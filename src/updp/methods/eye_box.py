"""eye-box: a black bar over the eyes, as case reports print it. It hides the sign with the eyes, and little else."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.options import MethodOptions
from updp.methods.per_image import PerFace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EyeBox(PerFace):
    """The bar runs along the line of the eyes; its height grows with strength."""

    info: ClassVar[MethodInfo] = method_info("eye-box")

    class Options(MethodOptions):
        max_height: float = Field(1.6, gt=0, description="Height at strength 1, in distances between the eyes.")
        width: float = Field(2.4, gt=0, description="Width, in distances between the eyes.")

    options: Options

    def draw(self, pixels: NDArray[np.float32], points: NDArray[np.float64], strength: float) -> NDArray[np.float32]:
        height = strength * self.options.max_height
        return bar(pixels, points, self.options.width, height) if strength else pixels


def bar(pixels: NDArray[np.float32], points: NDArray[np.float64], width: float, height: float) -> NDArray[np.float32]:
    """The photograph with a black bar along the eyes; width and height in distances between them."""
    import numpy as np

    from updp.domains.face.landmarks import EYES, between_eyes, centre

    left, right = (centre(points, EYES[side]) for side in ("left", "right"))
    unit = between_eyes(points)
    along = (right - left) / max(unit, 1e-6)
    y, x = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    dx, dy = x - (left[0] + right[0]) / 2, y - (left[1] + right[1]) / 2
    covered = (np.abs(dx * along[0] + dy * along[1]) <= width * unit / 2) & (
        np.abs(dy * along[0] - dx * along[1]) <= height * unit / 2
    )
    return np.where(covered[..., None] if pixels.ndim == 3 else covered, np.float32(0), pixels)
