"""`autoencoder`: 256-pixel films to 16×16 latents and back.

The autoencoder of the first generation of packs; new ones are trained as ``lapped``. Encoder and decoder are a
principal-component projection of 16×16 patches plus convolutional residual branches. Latents are normalised by channel,
as diffusion needs them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from updp.models.images import batched
from updp.models.layers import Residual, zeroed


class Autoencoder(nn.Module):
    """Films N×1×S×S in [0, 1] to normalised latents N×C×S/16×S/16, and back."""

    patch = 16
    mean: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, channels: int = 24, width: int = 64) -> None:
        super().__init__()
        self.config = {"channels": channels, "width": width}
        self.channels = channels
        p, w = self.patch, width
        self.register_buffer("mean", torch.zeros(p * p))  # of the patches
        self.register_buffer("shift", torch.zeros(channels))  # of the latents, by channel
        self.register_buffer("scale", torch.ones(channels))
        self.project = nn.Conv2d(1, channels, p, p, bias=False)
        self.expand = nn.ConvTranspose2d(channels, 1, p, p, bias=False)
        self.encode_branch = nn.Sequential(
            nn.PixelUnshuffle(4),
            nn.Conv2d(16, w // 2, 3, padding=1),
            Residual(w // 2),
            nn.Conv2d(w // 2, w, 3, 2, 1),
            Residual(w),
            nn.Conv2d(w, 2 * w, 3, 2, 1),
            Residual(2 * w),
            nn.SiLU(),
            zeroed(nn.Conv2d(2 * w, channels, 1)),
        )
        self.decode_deep = nn.Sequential(
            nn.Conv2d(channels, 2 * w, 3, padding=1),
            Residual(2 * w),
            Residual(2 * w),
            nn.Conv2d(2 * w, 6 * w, 1),
            nn.PixelShuffle(2),
            nn.Conv2d(6 * w // 4, 3 * w // 2, 3, padding=1),
            Residual(3 * w // 2),
            Residual(3 * w // 2),
            nn.Conv2d(3 * w // 2, 4 * w, 1),
            nn.PixelShuffle(2),
        )
        # The last layers get the linear decoding too: they mostly repair its block edges.
        self.decode_base = nn.Sequential(nn.PixelUnshuffle(4), nn.Conv2d(16, w, 3, padding=1))
        self.decode_fine = nn.Sequential(
            Residual(w),
            Residual(w),
            nn.SiLU(),
            nn.Conv2d(w, w, 3, padding=1),
            nn.PixelShuffle(2),
            nn.SiLU(),
            zeroed(nn.Conv2d(w // 4, 4, 3, padding=1)),
            nn.PixelShuffle(2),
        )

    @property
    def loss_weight(self) -> Tensor:
        """Weight of each channel in a diffusion loss: coarse channels hold the anatomy, fine ones mostly grain."""
        weight = self.scale.sqrt()
        return (weight / weight.mean())[:, None, None]

    def _mean_image(self, like: Tensor) -> Tensor:
        p = self.patch
        mean = self.mean.reshape(1, 1, p, p)
        return mean.repeat(1, 1, like.shape[-2] // p, like.shape[-1] // p)

    @batched
    def encode(self, images: Tensor) -> Tensor:
        raw = self.project(images - self._mean_image(images)) + self.encode_branch(images)
        latents: Tensor = (raw - self.shift[:, None, None]) / self.scale[:, None, None]
        return latents

    @batched
    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        """Films from latents; `clamp=False` keeps gradients outside [0, 1]."""
        raw = latents * self.scale[:, None, None] + self.shift[:, None, None]
        base = self.expand(raw)
        base = base + self._mean_image(base)
        images: Tensor = base + self.decode_fine(self.decode_deep(latents) + self.decode_base(base))
        return images.clamp(0, 1) if clamp else images

    def forward(self, images: Tensor) -> Tensor:
        return self.decode(self.encode(images), clamp=False)
