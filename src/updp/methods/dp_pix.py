"""DP-Pix (Fan 2018): cell means with Laplace noise, epsilon-differentially private in m pixels of one film.

Each b x b cell becomes its mean plus Laplace noise of scale m / (b^2 epsilon) on films in [0, 1]. Changing at most m
pixels of the film moves the vector of cell means by at most m / b^2 in L1, so the released film is epsilon-DP *with m
pixels as the unit*. Published settings use m = 1: they protect one pixel, not a patient. ``m="image"`` protects the
whole film, at a noise that leaves nothing to see; both are offered so that the difference can be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from updp.methods.base import Deidentified, MethodInfo, resolve_strength
from updp.study import Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Strength runs over epsilon on a logarithmic scale between these two.
EPSILON_RANGE = (10.0, 0.01)


class DPPix:
    """``strength`` 0 is epsilon 10, 0.5 about 0.32, 2/3 the published 0.1, 1 is 0.01; ``epsilon`` fixes it instead."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="dp-pix",
        summary="pixelation by cell means with Laplace noise",
        knob="epsilon, from 10 (strength 0) to 0.01 (strength 1), logarithmic",
        default_strength=2 / 3,
        guarantee="epsilon-DP for any change of m pixels within one film (not for a patient unless m = 'image')",
        paper="Fan, Image Pixelization with Differential Privacy, DBSec 2018",
    )

    def __init__(self, b: int = 8, m: int | Literal["image"] = 1, epsilon: float | None = None) -> None:
        if b < 1:
            raise ValueError("b, the side of a cell, must be at least 1")
        if m != "image" and m < 1:
            raise ValueError("m, the protected number of pixels, must be at least 1 or 'image'")
        if epsilon is not None and epsilon <= 0:
            raise ValueError("epsilon must be positive")
        self.b = b
        self.m = m
        self.epsilon = epsilon

    def fit(self, train: Iterable[Study], services: Any, rng: np.random.Generator) -> None:
        """Nothing to learn."""

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        epsilon = self.epsilon or _epsilon(resolve_strength(self.info, strength))
        out = []
        for study, stream in zip(batch, rng, strict=True):
            assert study.pixels is not None
            height, width = study.pixels.shape
            m = height * width if self.m == "image" else self.m
            film = pixelate(study.pixels, self.b, m / epsilon, stream)
            out.append(Deidentified(film, {"epsilon": round(epsilon, 6), "unit": f"{m} pixels", "cell": self.b}))
        return out


def pixelate(film: NDArray[np.float32], b: int, unit: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Cell means of ``film`` plus Laplace noise of scale ``unit`` / (pixels in the cell), clipped and replicated.

    ``unit`` is m / epsilon. Cells cut short by the film's edge have fewer pixels, hence a larger sensitivity and more
    noise: scaling by the true count keeps the guarantee where b does not divide the film.
    """
    import numpy as np

    height, width = film.shape
    padded = np.pad(film, ((0, -height % b), (0, -width % b)))
    rows, columns = padded.shape[0] // b, padded.shape[1] // b
    count = np.outer(np.minimum(b, height - b * np.arange(rows)), np.minimum(b, width - b * np.arange(columns)))
    means = padded.reshape(rows, b, columns, b).sum(axis=(1, 3), dtype=np.float64) / count
    noisy = np.clip(means + rng.laplace(0.0, 1.0, means.shape) * (unit / count), 0.0, 1.0).astype(np.float32)
    return np.repeat(np.repeat(noisy, b, axis=0), b, axis=1)[:height, :width]


def _epsilon(strength: float) -> float:
    weakest, strongest = EPSILON_RANGE
    return weakest * math.exp(strength * math.log(strongest / weakest))
