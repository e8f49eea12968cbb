"""What a film shows in numbers, drawn from what its text says: the prior of a generator with a representation.

A text leaves open most of what a film shows. A generator that gets only the text has to choose all of that at every
step, and chooses averages. So the film's representation, a few numbers of an image encoder, is drawn first, by a small
diffusion of its own conditioned on the text, and the film is drawn for it (unCLIP, Ramesh et al. 2022, arXiv
2204.06125; representation-conditioned generation, Li et al. 2023, arXiv 2312.03701). It is drawn from noise and text
alone: no film takes part.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.models.backbone import FEATURES
from updp.models.samplers import alpha, dpm_solver, sigma, time_grid

_FREQUENCIES = 64


class _Block(nn.Module):
    """A residual block whose norm is scaled and shifted by time and text."""

    def __init__(self, width: int, embedding: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulate = nn.Linear(embedding, 2 * width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        scale, shift = self.modulate(embedding).chunk(2, 1)
        y: Tensor = x + self.down(functional.silu(self.up(self.norm(x) * (1 + scale) + shift)))
        return y


class Prior(nn.Module):
    """Predicts v of noisy representations N×`size` at times in [0, 1], given the pooled text N×`context`."""

    mean: Tensor
    directions: Tensor

    def __init__(self, size: int, context: int, width: int = 256, layers: int = 3) -> None:
        super().__init__()
        self.size = size
        # What representations are of image features; only attackers and measurements need it.
        self.register_buffer("mean", torch.zeros(FEATURES))
        self.register_buffer("directions", torch.zeros(FEATURES, size))
        self.time = nn.Sequential(nn.Linear(_FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))
        self.text = nn.Linear(context, width)
        self.first = nn.Linear(size, width)
        self.blocks = nn.ModuleList(_Block(width, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, size)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor, times: Tensor, text: Tensor) -> Tensor:
        half = _FREQUENCIES // 2
        waves = torch.exp(-math.log(10_000) * torch.arange(half, device=x.device) / half)
        angles = 1000 * times.to(x.device)[:, None] * waves
        embedding = self.time(torch.cat([angles.sin(), angles.cos()], 1).to(x.dtype))
        embedding = functional.silu(embedding + self.text(text))
        x = self.first(x)
        for block in self.blocks:
            x = block(x, embedding)
        v: Tensor = self.last(functional.silu(self.norm(x)))
        return v

    def of_features(self, features: Tensor) -> Tensor:
        """The representations of real films, from the vlm's image features of them."""
        shown: Tensor = (features - self.mean) @ self.directions
        return shown

    @torch.no_grad()
    def sample(self, noise: Tensor, text: Tensor, guidance: float = 1.0, steps: int = 16) -> Tensor:
        """Representations N×`size` for pooled texts, from noise of the same shape; guidance above 1 leads away from
        those of any text."""
        any_text = torch.zeros_like(text)

        def clean(x: Tensor, t: Tensor) -> Tensor:
            a, s = alpha(t).to(x)[:, None], sigma(t).to(x)[:, None]
            v = self(x, t, text)
            if guidance != 1:
                weaker = self(x, t, any_text)
                v = weaker + guidance * (v - weaker)
            estimate: Tensor = a * x - s * v
            return estimate

        return dpm_solver(noise, time_grid(steps), clean)
