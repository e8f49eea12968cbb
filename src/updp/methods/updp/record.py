"""What methods share that draw several films from the record alone: prompts that no film has a part in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from updp.methods.updp.method import UPDP
from updp.methods.updp.searches import Report

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from updp.methods.updp.projection import Projection

#: Films generated together.
_AT_ONCE = 32


class RecordOptions(Report):
    """UPDP's options of a prompt from the report alone."""

    image_to_image: Literal[False] = False

    inspects: ClassVar[bool] = False

    def projection(self, strength: float) -> Projection:
        """No token is drawn, so no random number is spent on it: a film depends on no other of its batch."""
        from updp.methods.updp.projection import Projection

        return Projection("top-k", self.top_k, self.bonus, 0.0)


class OfRecord(UPDP):
    """Several films of each record."""

    def _embed(self, films: Tensor) -> Tensor:
        """Prompts are those of the records. The films are not looked at: what they would score is of no use here."""
        import torch

        return torch.zeros(len(films), 1)

    def _draw(self, texts: Sequence[str], rngs: Sequence[np.random.Generator], count: int) -> list[Tensor]:
        """``count`` films of each prompt."""
        import torch

        seeds = [int(rng.integers(2**62)) for rng in rngs for _ in range(count)]
        words = [text for text in texts for _ in range(count)]
        options, generator = self.options, self.pack.generator
        parts = [
            generator.generate(
                words[i : i + _AT_ONCE], seeds[i : i + _AT_ONCE], options.sampler_steps, options.guidance
            )
            for i in range(0, len(words), _AT_ONCE)
        ]
        return list(torch.split(torch.cat(parts), count)) if parts else []
