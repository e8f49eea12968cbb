"""DP-Pix (Fan 2018): cell means with Laplace noise, epsilon-differentially private in m pixels of one film.

Each b x b cell becomes its mean plus Laplace noise of scale m / (b^2 epsilon) on films in [0, 1]. Changing at most m
pixels of the film moves the vector of cell means by at most m / b^2 in L1, so the released film is epsilon-DP *with m
pixels as the unit*. Published settings use m = 1: they protect one pixel, not a patient.

Two variants protect the whole film. ``m="image"`` is the same mechanism with every pixel in the unit.
``basis="frequencies"`` spends the budget where a film has something to say: its lowest cosine frequencies, their
departure from a grey film clipped to a norm, under the Gaussian mechanism, (epsilon, delta)-DP for any two films. Both
leave little or nothing to see at an epsilon that means something; they are offered so that this can be seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.options import MethodOptions, contradiction
from updp.methods.per_image import PerImage
from updp.methods.pixelate import cell_means, replicate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Strength runs over epsilon on a logarithmic scale between these two.
EPSILON_RANGE = (10.0, 0.01)


class DPPix(PerImage):
    """``strength`` 0 is epsilon 10, 0.5 about 0.32, 2/3 the published 0.1, 1 is 0.01; ``epsilon`` fixes it instead."""

    info: ClassVar[MethodInfo] = method_info("dp-pix")

    class Options(MethodOptions):
        b: int = Field(8, ge=1, description="Side of a cell, in pixels.")
        m: Annotated[int, Field(ge=1)] | Literal["image"] = Field(
            1, description="Pixels whose change is protected, or 'image' for all of them."
        )
        epsilon: float | None = Field(None, gt=0, description="The privacy budget, instead of a strength.")
        basis: Literal["cells", "frequencies"] = Field(
            "cells", description="Noise on cell means (Laplace), or on the lowest cosine frequencies (Gaussian)."
        )
        kept: int = Field(6, ge=1, description="basis 'frequencies': frequencies kept per axis.")
        clip: float = Field(0.25, gt=0, description="basis 'frequencies': largest norm of the kept frequencies.")
        delta: float = Field(1e-5, gt=0, lt=1, description="basis 'frequencies': delta of the Gaussian mechanism.")

        @model_validator(mode="after")
        def _check(self) -> Self:
            unused = ("kept", "clip", "delta") if self.basis == "cells" else ("b", "m")
            for name in unused:
                if name in self.model_fields_set:
                    raise ValueError(contradiction("basis", name, f"basis {self.basis!r} does not use {name}"))
            return self

    options: Options

    def make(self, study: Study, strength: float, rng: np.random.Generator) -> Deidentified:
        options = self.options
        epsilon = options.epsilon or _epsilon(strength)
        assert study.pixels is not None
        height, width, *channels = study.pixels.shape
        decided: dict[str, Any] = {"epsilon": round(epsilon, 6)}
        if options.basis == "frequencies":
            film = low_frequencies(study.pixels, options.kept, options.clip, epsilon, options.delta, rng)
            decided |= {"delta": options.delta, "unit": "film", "frequencies": options.kept}
        else:
            m = height * width if options.m == "image" else options.m
            # A pixel is all of its channels: changing it moves the mean of each.
            film = pixelate(study.pixels, options.b, m * math.prod(channels) / epsilon, rng)
            decided |= {"unit": f"{m} pixels", "cell": options.b}
        return Deidentified(film, decided)


def pixelate(film: NDArray[np.float32], b: int, unit: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Cell means of ``film`` plus Laplace noise of scale ``unit`` / (pixels in the cell), clipped and replicated.

    ``unit`` is m / epsilon. Cells cut short by the film's edge have fewer pixels, hence a larger sensitivity and more
    noise: scaling by the true count keeps the guarantee where b does not divide the film.
    """
    import numpy as np

    means, count = cell_means(film, b)
    noisy = np.clip(means + rng.laplace(0.0, 1.0, means.shape) * (unit / count), 0.0, 1.0).astype(np.float32)
    return replicate(noisy, b, film.shape)


def low_frequencies(
    film: NDArray[np.float32], kept: int, clip: float, epsilon: float, delta: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """The film's kept x kept lowest cosine frequencies under the Gaussian mechanism, and nothing else of it.

    Coefficients of the film less mid-grey are scaled so that their norm is a root-mean-square grey value; clipping that
    norm to ``clip`` bounds the distance of any two films by 2 ``clip``, whatever they show.
    """
    import numpy as np
    from scipy.fft import dctn, idctn

    area = film.size
    low = dctn(film.astype(np.float64) - 0.5, axes=(0, 1), norm="ortho")[:kept, :kept] / math.sqrt(area)
    low *= min(1.0, clip / max(float(np.linalg.norm(low)), 1e-12))
    low += rng.standard_normal(low.shape) * gaussian_scale(epsilon, delta) * 2 * clip
    whole = np.zeros(film.shape)
    whole[: low.shape[0], : low.shape[1]] = low * math.sqrt(area)
    made: NDArray[np.float32] = np.clip(idctn(whole, axes=(0, 1), norm="ortho") + 0.5, 0.0, 1.0).astype(np.float32)
    return made


def gaussian_scale(epsilon: float, delta: float) -> float:
    """The least standard deviation, for sensitivity one, that is (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8)."""
    from scipy.special import log_ndtr

    def spent(sigma: float) -> float:
        near, far = 0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma
        return math.exp(log_ndtr(near)) - math.exp(epsilon + log_ndtr(far))

    low, high = 1e-6, 1.0
    while spent(high) > delta:
        high *= 2
    for _ in range(100):  # bisection: the delta spent falls as sigma grows
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) > delta else (low, middle)
    return high


def _epsilon(strength: float) -> float:
    weakest, strongest = EPSILON_RANGE
    return weakest * math.exp(strength * math.log(strongest / weakest))
