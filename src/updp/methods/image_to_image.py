"""Vanilla image-to-image: noise is added to the film's latent and the pack's generator removes it again.

The baseline of every diffusion method: what the noise does not remove comes back, the patient's ribs included
(SDEdit, Meng et al. 2022, arXiv 2108.01073).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.learned import OnPack

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class ImageToImage(OnPack):
    """``strength`` is the share of the diffusion time that the film is noised to; at 0 it is only coded."""

    info: ClassVar[MethodInfo] = method_info("image-to-image")

    class Options(OnPack.Options):
        steps: int | None = Field(
            None, ge=1, description="Steps of the sampler from pure noise, fewer at less strength; default: the pack's."
        )
        guidance: float | None = Field(None, description="Weight of classifier-free guidance; default: the pack's.")
        conditioned: bool = Field(True, description="Condition on the report or the findings; else on an empty text.")

    options: Options

    def make(self, studies: list[Study], films: Tensor, strength: float, rngs: list[np.random.Generator]) -> Tensor:
        from updp.methods.updp.method import words_of

        if strength == 0:
            return self.pack.autoencoder.decode(self.pack.autoencoder.encode(films))
        words = [
            words_of(study, rng) if self.options.conditioned else "" for study, rng in zip(studies, rngs, strict=True)
        ]
        seeds = [int(rng.integers(2**62)) for rng in rngs]
        return self.pack.generator.generate(
            words, seeds, self.options.steps, self.options.guidance, init_images=films, strength=strength
        )

    def decided(self, strength: float) -> dict[str, Any]:
        return {"steps": self.options.steps, "conditioned": self.options.conditioned}
