"""pixelate: every cell becomes its mean. The baseline DP-Pix adds noise to; without noise it promises nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.options import MethodOptions
from updp.methods.per_image import PerImage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Pixelate(PerImage):
    """The side of a cell grows geometrically with strength, from one pixel to ``max_cell`` of the film's side."""

    info: ClassVar[MethodInfo] = method_info("pixelate")

    class Options(MethodOptions):
        max_cell: float = Field(1 / 8, gt=0, le=1, description="Cell at strength 1, as a fraction of the film's side.")

    options: Options

    def make(self, study: Study, strength: float, rng: np.random.Generator) -> Deidentified:
        import numpy as np

        assert study.pixels is not None
        side = max(1, round(max(1.0, self.options.max_cell * min(study.pixels.shape[:2])) ** strength))
        means, _ = cell_means(study.pixels, side)
        return Deidentified(replicate(means.astype(np.float32), side, study.pixels.shape), {"cell": side})


def cell_means(film: NDArray[np.float32], b: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Means of b x b cells and how many pixels each has; cells at the lower and right edge may be cut short."""
    import numpy as np

    height, width, *channels = film.shape
    padded = np.pad(film, ((0, -height % b), (0, -width % b), *((0, 0) for _ in channels)))
    rows, columns = padded.shape[0] // b, padded.shape[1] // b
    count = np.outer(np.minimum(b, height - b * np.arange(rows)), np.minimum(b, width - b * np.arange(columns)))
    count = count.reshape(*count.shape, *(1 for _ in channels))
    return padded.reshape(rows, b, columns, b, *channels).sum(axis=(1, 3), dtype=np.float64) / count, count


def replicate(cells: NDArray[np.float32], b: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Cells as a film of ``shape``."""
    import numpy as np

    return np.repeat(np.repeat(cells, b, axis=0), b, axis=1)[: shape[0], : shape[1]]
