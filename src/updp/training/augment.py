"""Small, label-preserving changes of films: another stand, exposure or crop, never a mirror (the heart has a side)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


def augment(films: Tensor, size: int, rng: np.random.Generator, strength: float = 1.0) -> Tensor:
    """Films N×1×S×S in [0, 1], turned, shifted, scaled and re-exposed at random, at `size` pixels."""
    n = len(films)
    angle = rng.normal(0, 4 * strength, n) * math.pi / 180
    zoom = np.exp(rng.normal(-0.03, 0.06 * strength, n))
    stretch = np.exp(rng.normal(0, 0.02 * strength, n))
    shift = rng.normal(0, 0.04 * strength, (n, 2))
    theta = np.zeros((n, 2, 3), np.float32)
    theta[:, 0, 0], theta[:, 0, 1] = zoom * stretch * np.cos(angle), -zoom * np.sin(angle)
    theta[:, 1, 0], theta[:, 1, 1] = zoom * np.sin(angle), zoom / stretch * np.cos(angle)
    theta[:, :, 2] = shift
    grid = functional.affine_grid(torch.from_numpy(theta).to(films.device), [n, 1, size, size], align_corners=False)
    moved = functional.grid_sample(films, grid, padding_mode="border", align_corners=False)

    def draw(mean: float, deviation: float) -> Tensor:
        values = rng.normal(mean, deviation * strength, (n, 1, 1, 1)).astype(np.float32)
        return torch.from_numpy(values).to(films.device)

    gamma = draw(0, 0.2).exp()
    contrast, light = draw(0, 0.12).exp(), draw(0, 0.05)
    return ((moved.clamp(1e-4, 1) ** gamma - 0.5) * contrast + 0.5 + light).clamp(0, 1)
