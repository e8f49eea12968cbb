"""Stage `autoencoder`: start from principal components, learn edges and texture on crops, a perceptual term late."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from updp.models.autoencoder import Autoencoder
from updp.training.corpus import Corpus
from updp.training.figures import psnr, ssim
from updp.training.loop import StageConfig


def as_tensor(films: np.ndarray) -> Tensor:
    """uint8 films to N×1×S×S in [0, 1]."""
    return torch.from_numpy(np.array(films)).unsqueeze(1).float().div_(255)


class AutoencoderStage:
    name = "autoencoder"

    def __init__(self, corpus: Corpus, config: StageConfig, channels: int, width: int, crop: int = 128) -> None:
        self.corpus, self.config, self.crop = corpus, config, crop
        self.rows = corpus.rows("train")
        self.model_config = {"channels": channels, "width": width}
        self.module: nn.Module = self.build()
        rng = np.random.default_rng(config.seed)
        some = np.sort(rng.choice(self.rows, min(1000, len(self.rows)), replace=False))
        self.module.start_from_components(as_tensor(corpus.films[some]))
        # What the components cannot say is small; without a gentle start the branches would unlearn them.
        self.perceptual = _perceptual()

    def build(self) -> Autoencoder:
        return Autoencoder(**self.model_config)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = rng.choice(self.rows, self.config.batch)
        size, crop = self.corpus.films.shape[1], min(self.crop, self.corpus.films.shape[1])
        patches = []
        for row in rows:
            # Whole blocks, or the projection would never see the phases it is used at.
            top, left = rng.integers(0, (size - crop) // 16 + 1, 2) * 16
            patches.append(self.corpus.films[row, top : top + crop, left : left + crop])
        x = as_tensor(np.stack(patches)).to(device)
        y = module(x)
        loss: Tensor = (y - x).abs().mean() + 20 * (y - x).square().mean()
        if self.perceptual is not None and step > 0.6 * self.config.steps:
            self.perceptual.to(device)
            loss = loss + 0.02 * self.perceptual(x, y)
        return loss

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        rows = self.corpus.rows("val")[:96]
        device = next(module.parameters()).device
        quality, structure = [], []
        for i in range(0, len(rows), 16):
            x = as_tensor(self.corpus.films[rows[i : i + 16]])
            y = module(x.to(device)).clamp(0, 1).cpu()
            quality.append(psnr(x, y))
            structure.append(ssim(x, y))
        return {"psnr": float(torch.cat(quality).mean()), "ssim": float(torch.cat(structure).mean())}


class _Gradients(nn.Module):
    """Differences of neighbouring pixels at three scales: keeps edges crisp where no perceptual network is at hand."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        total = x.new_zeros(())
        for _ in range(3):
            total = total + (x.diff(dim=-1) - y.diff(dim=-1)).abs().mean()
            total = total + (x.diff(dim=-2) - y.diff(dim=-2)).abs().mean()
            x, y = nn.functional.avg_pool2d(x, 2), nn.functional.avg_pool2d(y, 2)
        return total


def _perceptual() -> nn.Module:
    return _Gradients()
