"""The noise schedule of the generators, spacings of time, and the samplers from noise to a film.

Times run from 1 (noise) to 0 (a film) on the cosine schedule (Nichol & Dhariwal 2021, arXiv 2102.09672). These are not
the schedulers of diffusers, which round times to one in a thousand, take longer per film and have to be loaded by every
worker (``performance/samplers.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor

Grid = Literal["even", "cosine", "log_snr"]
_EDGE = 0.005  # how far the schedule is kept off both ends


def alpha(t: Tensor) -> Tensor:
    """Factor of the clean latents at time t."""
    return torch.cos((_EDGE + (1 - 2 * _EDGE) * t) * math.pi / 2)


def sigma(t: Tensor) -> Tensor:
    """Factor of the noise at time t."""
    return torch.sin((_EDGE + (1 - 2 * _EDGE) * t) * math.pi / 2)


@dataclass(frozen=True)
class Sampling:
    """How films are drawn unless the caller says otherwise; a pack may bring its own."""

    steps: int = 20
    guidance: float = 3.0
    grid: Grid = "even"
    # Guidance outside the middle times costs variety and time and improves nothing (arXiv 2404.07724).
    guided: tuple[float, float] = (0.15, 0.9)
    prior: float = 1.0  # guidance of the prior, of a generator with a representation
    # Times at which a generator with a finisher leaves diffusion; () is diffusion to the end.
    finish: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if list(self.finish) != sorted(self.finish, reverse=True) or not all(0 < t < 1 for t in self.finish):
            raise ValueError(f"finish is falling times between 0 and 1, not {list(self.finish)}")
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")
        if self.grid not in get_args(Grid):
            raise ValueError(f"grid is one of {', '.join(get_args(Grid))}, not {self.grid!r}")


def time_grid(steps: int, start: float = 1.0, grid: Grid = "even") -> Tensor:
    """`steps` + 1 times from `start` down to 0. `cosine` and `log_snr` are denser towards both ends."""
    if grid == "even":
        return torch.linspace(start, 0, steps + 1)
    part = torch.linspace(0, 1, steps + 1)
    if grid == "cosine":
        return start * (1 + torch.cos(math.pi * part)) / 2
    ends = torch.log(alpha(torch.tensor([start, 0.0])) / sigma(torch.tensor([start, 0.0])))
    log_snr = ends[0] + (ends[1] - ends[0]) * part
    times = (torch.atan(torch.exp(-log_snr)) * 2 / math.pi - _EDGE) / (1 - 2 * _EDGE)
    times[0], times[-1] = start, 0  # rounding must not move the ends
    return times


def dpm_solver(
    latents: Tensor, times: Tensor, predict: Callable[[Tensor, Tensor], Tensor], *, to_end: bool = True
) -> Tensor:
    """DPM-Solver++(2M) (Lu et al. 2022, arXiv 2211.01095); `predict` gives the clean latents at N times.

    Gives the last clean estimate, or without `to_end` the latents as they stand at the last time.
    """
    a, s = alpha(times), sigma(times)
    snr = torch.log(a / s)
    steps = len(times) - 1
    before: Tensor | None = None
    for i in range(steps):
        x0 = predict(latents, times[i].expand(len(latents)))
        h = snr[i + 1] - snr[i]
        if before is None or (to_end and i == steps - 1):
            direction = x0  # first order: there is no history yet, and the last step must not overshoot
        else:
            r = (snr[i] - snr[i - 1]) / h
            direction = (1 + 1 / (2 * r)) * x0 - before / (2 * r)
        latents = s[i + 1] / s[i] * latents - a[i + 1] * torch.expm1(-h) * direction
        before = x0
    return before if to_end and before is not None else latents


def ddim(latents: Tensor, times: Tensor, predict: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """DDIM without fresh noise (Song et al. 2021, arXiv 2010.02502); `predict` gives the noise at one time."""
    clean = latents
    for now, then in pairwise(times):
        noise = predict(latents, now)
        clean = (latents - sigma(now) * noise) / alpha(now)
        latents = alpha(then) * clean + sigma(then) * noise
    return clean
