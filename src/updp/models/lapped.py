"""`autoencoder` of the second generation: a lapped linear code, and a decoder that adds what a linear one cannot.

Kernels of 32×32 pixels at a stride of 16 overlap, so the code has no block edges. Channels are divided by the square
root of their spread: coarse ones stay larger than fine ones, and diffusion on the latents learns anatomy before grain.
The decoder sees the latents and the linear synthesis and adds to it. It doubles maps by repeating pixels and convolving
them (pixel shuffles leave a grid). With `grain`, it also adds noise in two bands, at an amplitude it predicts for each
pixel: a radiograph's grain is random, and a decoder without a random input can only repeat patterns. The noise is one
fixed field, so equal latents give equal films. `further` stages draw a film at twice the size each, from the same
latents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.models.images import batched
from updp.models.layers import Residual, zeroed

STRIDE, KERNEL = 16, 32
_MARGIN = (KERNEL - STRIDE) // 2
_CUTS = (4, 2, 1)  # of the film's side, the maps that see the synthesis
_GRAIN = 0.01  # of the range: about the grain of a film


def _doubled(x: Tensor) -> Tensor:
    return functional.interpolate(functional.silu(x), scale_factor=2.0, mode="nearest")


class _Further(nn.Module):
    """A film at twice the size: the smaller one enlarged, and what these layers add."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.up = nn.Conv2d(inputs, width, 3, padding=1)
        self.base = nn.Conv2d(1, width, 3, padding=1)
        self.block = Residual(width)
        self.out = zeroed(nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, x: Tensor, film: Tensor) -> tuple[Tensor, Tensor]:
        film = functional.interpolate(film, scale_factor=2.0, mode="bilinear", align_corners=False)
        x = self.block(self.up(_doubled(x)) + self.base(film - 0.5))
        return x, film + self.out(functional.silu(x))


def grain(noise: Tensor, coarse: Tensor) -> Tensor:
    """Two bands of grain N×2×S×S from white noise N×1×S×S and N×1×S/2×S/2: the finest octave, and the one below it."""
    fine = noise - functional.interpolate(functional.avg_pool2d(noise, 2), scale_factor=2.0, mode="nearest")
    return torch.cat([fine, functional.interpolate(coarse, scale_factor=2.0, mode="bilinear")], 1)


@lru_cache(maxsize=8)
def grain_field(size: int) -> Tensor:
    """The grain of every film of `size` pixels, 1×2×S×S, the same in every call."""
    source = torch.Generator().manual_seed(size)
    return grain(
        torch.randn(1, 1, size, size, generator=source), torch.randn(1, 1, size // 2, size // 2, generator=source)
    )


class Refinement(nn.Module):
    """Latents N×C×S/16×S/16 and their linear synthesis N×1×S×S to the film; before training, the synthesis itself."""

    def __init__(self, channels: int, widths: Sequence[int], further: Sequence[int] = (), grain: bool = False) -> None:
        super().__init__()
        if 2 ** (len(widths) - 1) != STRIDE:
            raise ValueError(f"the decoder has five widths, from the latents' maps to the film's, not {len(widths)}")
        self.enter = nn.Conv2d(channels, widths[0], 3, padding=1)
        depths = (2, 2, 2, 1, 1)  # large maps are expensive
        self.blocks = nn.ModuleList(
            nn.Sequential(*(Residual(w) for _ in range(depth))) for w, depth in zip(widths, depths, strict=True)
        )
        self.up = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(widths))
        # The three largest maps see the synthesis, cut into as many channels as make it their size.
        self.base = nn.ModuleList(
            nn.Conv2d(cut * cut, w, 3, padding=1) for cut, w in zip(_CUTS, widths[2:], strict=True)
        )
        self.out = zeroed(nn.Conv2d(widths[-1], 1, 3, padding=1))
        self.amplitude = zeroed(nn.Conv2d(widths[-1], 2, 3, padding=1)) if grain else None
        self.further = nn.ModuleList(_Further(a, b) for a, b in pairwise([widths[-1], *further]))

    def forward(self, latents: Tensor, base: Tensor, field: Tensor | None = None) -> Tensor:
        """`field` N×2×S×S is grain other than that of every film: training draws it anew."""
        x = self.blocks[0](self.enter(latents.contiguous(memory_format=torch.channels_last)))
        for i, up in enumerate(self.up):
            x = up(_doubled(x))
            if i > 0:
                x = x + self.base[i - 1](functional.pixel_unshuffle(base - 0.5, _CUTS[i - 1]))
            x = self.blocks[i + 1](x)
        film: Tensor = base + self.out(functional.silu(x))
        if self.amplitude is not None:
            field = grain_field(base.shape[-1]) if field is None else field
            amplitude = _GRAIN * functional.softplus(self.amplitude(functional.silu(x)) - 1)
            film = film + (amplitude * field.to(film)).sum(1, keepdim=True)
        for stage in self.further:
            x, film = stage(x, film)
        return film


class LappedAutoencoder(nn.Module):
    """Films N×1×S×S in [0, 1] to latents N×C×S/patch×S/patch, and back."""

    mean: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(
        self,
        channels: int = 16,
        widths: Sequence[int] = (128, 96, 48, 24, 12),
        further: Sequence[int] = (),
        grain: bool = False,
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "channels": channels, "widths": list(widths), "further": list(further), "grain": grain,
        }  # fmt: skip
        self.channels = channels
        self.enlarged = 2 ** len(further)
        self.patch = STRIDE * self.enlarged
        self.register_buffer("mean", torch.zeros(1))  # of the films
        self.register_buffer("shift", torch.zeros(channels))  # of the latents, by channel
        self.register_buffer("scale", torch.ones(channels))
        self.analysis = nn.Conv2d(1, channels, KERNEL, STRIDE, bias=False)
        self.synthesis = nn.ConvTranspose2d(channels, 1, KERNEL, STRIDE, bias=False)
        self.refine = Refinement(channels, widths, further, grain)

    @property
    def linear(self) -> list[Tensor]:
        """The weights of the code; they stay as they are while the decoder learns."""
        return [self.analysis.weight, self.synthesis.weight]

    @property
    def loss_weight(self) -> Tensor:
        """Weight of each channel in a diffusion loss: the scale of the latents says it already."""
        return torch.ones_like(self.scale)[:, None, None]

    @batched
    def encode(self, images: Tensor) -> Tensor:
        if self.enlarged > 1:  # the code is that of the smaller film
            images = functional.avg_pool2d(images, self.enlarged)
        padded = functional.pad(images - self.mean, (_MARGIN,) * 4, mode="reflect")
        latents: Tensor = (self.analysis(padded) - self.shift[:, None, None]) / self.scale[:, None, None]
        return latents

    def synthesise(self, latents: Tensor) -> Tensor:
        """The linear part of the decoder, at a side of 16 pixels per latent."""
        raw = latents * self.scale[:, None, None] + self.shift[:, None, None]
        film: Tensor = self.synthesis(raw)[:, :, _MARGIN:-_MARGIN, _MARGIN:-_MARGIN] + self.mean
        return film

    @batched
    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        """Films from latents; `clamp=False` keeps gradients outside [0, 1]."""
        images: Tensor = self.refine(latents, self.synthesise(latents))
        return images.clamp(0, 1) if clamp else images

    def forward(self, images: Tensor) -> Tensor:
        return self.decode(self.encode(images), clamp=False)
