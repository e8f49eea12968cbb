"""blur: a Gaussian over the whole film. A common baseline; it hides fine texture, not anatomy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.options import Configured, MethodOptions
from updp.methods.strength import resolve_strength

if TYPE_CHECKING:
    import numpy as np


class Blur(Configured):
    """Sigma grows linearly with strength, up to ``max_sigma`` of the film's shorter side."""

    info: ClassVar[MethodInfo] = method_info("blur")

    class Options(MethodOptions):
        max_sigma: float = Field(1 / 16, gt=0, description="Sigma at strength 1, as a fraction of the shorter side.")

    options: Options

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        amount = resolve_strength(self.info, strength)
        return [Deidentified(self._blur(study, amount)) for study in batch]

    def _blur(self, study: Study, amount: float) -> np.ndarray[Any, np.dtype[np.float32]]:
        import numpy as np
        from PIL import Image, ImageFilter

        assert study.pixels is not None
        sigma = amount * self.options.max_sigma * min(study.pixels.shape[:2])
        if sigma == 0:
            return study.pixels
        if study.native is not None:
            return _blur_deep(study.pixels, sigma)
        grey = Image.fromarray(np.round(study.pixels * 255).astype(np.uint8))
        blurred = grey.filter(ImageFilter.GaussianBlur(sigma))
        return np.asarray(blurred).astype(np.float32) * np.float32(1 / 255)


def _blur_deep(film: np.ndarray[Any, np.dtype[np.float32]], sigma: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A Gaussian of more than eight bits, as three box means: its cost does not grow with sigma."""
    import numpy as np
    from scipy.ndimage import uniform_filter

    # Three boxes of side w have the variance (w^2 - 1) / 4.
    side = max(1, round(float(np.sqrt(4 * sigma**2 + 1))))
    for _ in range(3):
        film = uniform_filter(film, size=side, mode="nearest")
    return film
