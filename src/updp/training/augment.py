"""Small, label-preserving changes of films: rotation, shift, zoom, exposure; never a mirror image."""

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


#: How far each of the six numbers of `change` goes: degrees, logarithm of the zoom, shifts, gamma, contrast.
_FULL = (6.0, 0.1, 0.08, 0.08, 0.25, 0.15)
NUMBERS = len(_FULL)


def change(films: Tensor, rng: np.random.Generator, share: float = 0.6) -> tuple[Tensor, Tensor]:
    """Films N×1×S×S, `share` of them changed, and six numbers in [-1, 1] per film that say how; zero is unchanged.

    A generator that is conditioned on the numbers in training draws unchanged films without them.
    """
    n = len(films)
    changed = rng.random(n) < share
    numbers = (rng.uniform(-1, 1, (n, NUMBERS)) * changed[:, None]).astype(np.float32)
    amounts = torch.from_numpy(numbers * np.array(_FULL, np.float32))
    some = torch.from_numpy(np.flatnonzero(changed))
    out = films.clone()
    if len(some):
        angle, zoom = amounts[some, 0] * math.pi / 180, amounts[some, 1].exp()
        theta = torch.zeros(len(some), 2, 3)
        theta[:, 0, 0] = theta[:, 1, 1] = angle.cos() * zoom
        theta[:, 0, 1], theta[:, 1, 0] = -angle.sin() * zoom, angle.sin() * zoom
        theta[:, :, 2] = amounts[some, 2:4]
        grid = functional.affine_grid(theta, [len(some), *films.shape[1:]], align_corners=False)
        moved = functional.grid_sample(films[some], grid, padding_mode="border", align_corners=False)
        gamma, contrast = amounts[some, 4:].exp()[:, :, None, None, None].unbind(1)
        out[some] = ((moved.clamp(1e-4, 1) ** gamma - 0.5) * contrast + 0.5).clamp(0, 1)
    return out, torch.from_numpy(numbers)
