"""`autoencoder`: 256-pixel films to 16×16 latents and back.

Encoder and decoder are a principal-component projection of 16×16 patches plus convolutional residual branches that
start at zero: before any training it is already the best linear code, and training only has to learn block edges and
fine texture. Latents are normalised by channel, as diffusion needs them.
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

    def start_from_components(self, films: Tensor) -> None:
        """Set the projection to the principal components of the films' patches, and the normalisation with it."""
        p = self.patch
        patches = nn.functional.unfold(films, p, stride=p).transpose(1, 2).reshape(-1, p * p).double()
        mean = patches.mean(0)
        centred = patches - mean
        _, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
        basis = vectors.flip(1)[:, : self.channels].T.float()  # channels x p*p, largest variance first
        basis = basis * torch.sign(basis.sum(1, keepdim=True))  # the sign of an eigenvector is arbitrary
        with torch.no_grad():
            self.mean.copy_(mean.float())
            self.project.weight.copy_(basis.reshape(self.channels, 1, p, p))
            self.expand.weight.copy_(basis.reshape(self.channels, 1, p, p))
        self.normalise(films)

    @torch.no_grad()
    def normalise(self, films: Tensor, batch: int = 32) -> None:
        """Make every latent channel zero-mean and unit-variance over these films."""
        self.shift.zero_()
        self.scale.fill_(1)
        raw = torch.cat([self.encode(films[i : i + batch]) for i in range(0, len(films), batch)])
        self.shift.copy_(raw.mean((0, 2, 3)))
        self.scale.copy_(raw.std((0, 2, 3)).clamp_min(1e-6))

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
