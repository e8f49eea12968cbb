"""Muon: momentum whose update of a weight matrix is made orthogonal (Jordan et al. 2024).

Every direction of a matrix then moves by the same amount, which a small U-Net learns from in fewer samples than AdamW
needs. A convolution kernel is the matrix of its outputs by all its inputs. The size of an update is that of AdamW
(Liu et al. 2025, arXiv 2502.16982), so that both share one learning rate. ``torch.optim.Muon`` takes matrices alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_QUINTIC = (3.4445, -4.7750, 2.0315)  # of the Newton–Schulz iteration, tuned for speed over accuracy
_SIZE = 0.2  # root mean square of an update, about that of AdamW


def orthogonal(matrix: Tensor, steps: int = 5) -> Tensor:
    """The nearest matrix with orthogonal rows or columns, roughly: singular values end within about 0.7 and 1.2.

    All factors are polynomials of one Gram matrix, so the iteration runs on its small side.
    """
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / (wide.norm() + 1e-7)
    gram = wide @ wide.T
    a, b, c = _QUINTIC
    unit = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    total = unit
    for i in range(steps):
        factor = a * unit + b * gram + c * (gram @ gram)
        total = factor @ total
        if i + 1 < steps:
            gram = factor @ gram @ factor
    out: Tensor = total @ wide
    return out if matrix.shape[0] <= matrix.shape[1] else out.T


class Muon(torch.optim.Optimizer):
    """For weights of two dimensions and more; biases, norms and embeddings belong to another optimiser."""

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, weight_decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                held = self.state[weight]
                if not held:
                    held["momentum"] = torch.zeros_like(weight)
                mean = held["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                ahead = weight.grad.lerp(mean, group["momentum"]).reshape(len(weight), -1)
                update = orthogonal(ahead) * _SIZE * max(ahead.shape) ** 0.5
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(update.reshape(weight.shape), alpha=-group["lr"])


def takes(name: str, weight: nn.Parameter) -> bool:
    """Whether Muon learns this weight of a U-Net: a matrix or kernel between features, not at an end, not of text."""
    ends = ("first.", "last.", "text.", "attributes.", "augmentation.", "time.", "sentence.", "prior.", "shown.")
    return weight.ndim >= 2 and not name.removeprefix("module.").startswith(ends)
