"""DCM-DeID (Tian et al. 2025, arXiv 2507.21703): block what identifies the patient, fill it from findings.

Built from the paper's abstract; its body was not available, and what follows is a design after the abstract.

1. *Identity-Blocking.* The film is cut into cells of 16 x 16 pixels, ranked by how much each identifies the patient;
   the share rho with the highest rank is blocked. Masks are nested in rho, and rho is the strength.
2. *Medical-Semantics-Compensation.* Features of the findings network and the vlm are written as a short code, and the
   pack's generator fills the blocked cells, conditioned on tokens made of the code and on the open cells: one decoder
   for every rho, since inpainting by diffusion needs no training of its own (RePaint, Lugmayr et al. 2022, arXiv
   2201.09865).
3. *Minimum description length.* The code is rounded to whole numbers, and its length in bits under a learned prior is
   part of the loss. An adversary reads identities from it in training. So the code leaves out what does not help to
   tell findings.

The mask identifies the patient, so it is neither released nor recorded; only the filled film leaves. Open cells leave
as they were: privacy needs a high rho. At rho = 1 a film depends on the patient through the code alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.dcm.compensation import FeatureCompensator
from updp.methods.learned import Trained
from updp.models.errors import PackError
from updp.models.generator import Condition, Generator
from updp.models.samplers import alpha, sigma

if TYPE_CHECKING:
    import numpy as np

CELL = 16
#: Films drawn together; with guidance twice as many latents, which is what a core's cache holds.
_AT_ONCE = 16


class DCMDeID(Trained):
    info: ClassVar[MethodInfo] = method_info("dcm")

    class Options(Trained.Options):
        spare: float = Field(0.5, ge=0, description="Weight of the findings against identity in the ranking of cells.")
        steps: int | None = Field(None, ge=1, description="Steps of the sampler; default: the pack's.")
        guidance: float | None = Field(None, description="Weight of classifier-free guidance; default: the pack's.")

        rate: int | None = Field(None, ge=1, description="Channels of the code that are used; default: all.")

    options: Options

    def build(self, config: dict[str, Any]) -> FeatureCompensator:
        return FeatureCompensator(**config)

    def make(self, studies: list[Study], films: Tensor, strength: float, rngs: list[np.random.Generator]) -> Tensor:
        if strength == 0:
            return films
        made = []
        for i in range(0, len(films), _AT_ONCE):
            some, streams = films[i : i + _AT_ONCE], rngs[i : i + _AT_ONCE]
            noise = self.generator.seeded_noise([int(rng.integers(2**62)) for rng in streams])
            # With everything blocked there is nothing to rank.
            rank = self.saliency(some) if strength < 1 else torch.zeros(len(some), 1, *noise.shape[-2:])
            made.append(self.fill(some, block(rank, strength), self.code(some), noise))
        return torch.cat(made)

    def code(self, films: Tensor) -> Tensor:
        """The code of each film, N×channels, cut to the rate."""
        code: Tensor = self.network.code(self.network.features(films, self.pack.vlm), self._kept)
        return code

    @property
    def _kept(self) -> int:
        channels: int = self.network.channels
        rate = self.options.rate or channels
        if rate > channels:
            raise PackError(f"the code of these weights has {channels} channels, fewer than the rate {rate}")
        return rate

    @property
    def generator(self) -> Generator:
        found = self.pack.generator
        if not isinstance(found, Generator):
            raise PackError(f"dcm needs a generator of updp's own; that of pack {self.pack.name} is another")
        return found

    def fill(self, films: Tensor, blocked: Tensor, code: Tensor, noise: Tensor) -> Tensor:
        """Films with their blocked cells (N×1×h×w) filled in from the code and the open cells."""
        condition = self.network.condition(code)
        return compensate(self.generator, films, blocked, condition, noise, self.options.steps, self.options.guidance)

    def saliency(self, films: Tensor) -> Tensor:
        """How much each cell identifies the patient, less what it shows of the findings; N×1×h×w."""
        who = cell_saliency(films, self.pack.identity.embed, similarity)
        if self.options.spare == 0:
            return who
        return who - self.options.spare * cell_saliency(films, self.network.medical, agreement)

    def bits(self, films: Tensor) -> Tensor:
        """Length of each film's code."""
        with torch.no_grad():
            counted: Tensor = self.network.code.bits(self.code(films), self._kept)
            return counted


def similarity(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1)


def agreement(a: Tensor, b: Tensor) -> Tensor:
    return -(a - b).square().mean(1)


def cell_saliency(films: Tensor, network: Any, compare: Any) -> Tensor:
    """What each cell adds to the similarity of a film to itself, N×1×h×w, to first order and in units of the total.

    The film is blurred until each cell is flat; the gradient of its similarity to the film, times what the blur
    removed, says which cells restore the similarity. One backward pass instead of one forward pass for every cell.
    """
    flat = functional.avg_pool2d(films, CELL)
    start = functional.interpolate(flat, scale_factor=float(CELL), mode="bilinear").detach()
    with torch.enable_grad():
        start.requires_grad_(True)
        likeness = compare(network(start), network(films.detach()).detach()).sum()
        (gradient,) = torch.autograd.grad(likeness, start)
    gain = functional.avg_pool2d(gradient * (films - start.detach()), CELL)
    # A cell beside an identifying one identifies too.
    gain = functional.avg_pool2d(gain, 3, 1, 1, count_include_pad=False)
    return gain / gain.abs().sum((2, 3), keepdim=True).clamp_min(1e-12)


def block(saliency: Tensor, rho: float) -> Tensor:
    """The share ``rho`` of cells with the highest saliency as a mask of ones; masks of a film are nested in rho."""
    if not 0 <= rho <= 1:
        raise ValueError(f"rho must lie in [0, 1], not {rho}")
    cells = saliency.flatten(1)
    count = math.floor(rho * cells.shape[1] + 0.5)
    order = cells.argsort(dim=1, descending=True, stable=True)
    mask = torch.zeros_like(cells).scatter(1, order[:, :count], 1.0)
    return mask.reshape(saliency.shape)


def compensate(
    generator: Generator, films: Tensor, blocked: Tensor, condition: Condition, noise: Tensor,
    steps: int | None = None, guidance: float | None = None,
) -> Tensor:  # fmt: skip
    """Films with their blocked cells drawn by the generator. No pixel of a blocked cell is read but by the code."""
    steps = generator.sampling.steps if steps is None else steps
    weight = generator.sampling.guidance if guidance is None else guidance
    coder = generator.autoencoder
    mask = blocked.repeat_interleave(CELL, 2).repeat_interleave(CELL, 3)
    # Encoded after blocking: a cell's latent also depends on the cells around it.
    known = coder.encode(films * (1 - mask) + 0.5 * mask)

    def estimate(latents: Tensor, t: Tensor, cond: Condition) -> Tensor:
        """The clean latents: as they are known in open cells, as they are estimated in blocked ones."""
        v = generator.guided(latents, t, cond, weight)
        guess = alpha(t)[:, None, None, None] * latents - sigma(t)[:, None, None, None] * v
        return known * (1 - blocked) + guess * blocked

    drawn = generator.sample(noise, condition, steps, weight, predict=estimate)
    drawn = known * (1 - blocked) + drawn * blocked  # a finisher draws open cells too
    return films * (1 - mask) + coder.decode(drawn) * mask
