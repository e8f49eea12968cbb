"""blur: a Gaussian over the whole film. A common baseline; it hides fine texture, not anatomy."""

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


class Blur(PerImage):
    """Sigma grows linearly with strength, up to ``max_sigma`` of the film's shorter side."""

    info: ClassVar[MethodInfo] = method_info("blur")

    class Options(MethodOptions):
        max_sigma: float = Field(1 / 16, gt=0, description="Sigma at strength 1, as a fraction of the shorter side.")

    options: Options

    def make(self, study: Study, strength: float, rng: np.random.Generator) -> Deidentified:
        import numpy as np
        from PIL import Image, ImageFilter

        assert study.pixels is not None
        sigma = strength * self.options.max_sigma * min(study.pixels.shape[:2])
        if sigma == 0:
            return Deidentified(study.pixels)
        if study.native is not None:
            return Deidentified(_blur_deep(study.pixels, sigma))
        grey = Image.fromarray(np.round(study.pixels * 255).astype(np.uint8))
        blurred = grey.filter(ImageFilter.GaussianBlur(sigma))
        return Deidentified(np.asarray(blurred).astype(np.float32) * np.float32(1 / 255))


def _blur_deep(film: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """A Gaussian of more than eight bits, as three box means: its cost does not grow with sigma."""
    import numpy as np
    from scipy.ndimage import uniform_filter

    # Three boxes of side w have the variance (w^2 - 1) / 4.
    side = max(1, round(float(np.sqrt(4 * sigma**2 + 1))))
    for _ in range(3):
        film = uniform_filter(film, size=side, mode="nearest")
    return film
