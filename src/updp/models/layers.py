"""Layers that the autoencoders share."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor, nn
from torch.nn import functional

Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)


class Residual(nn.Module):
    """Two convolutions added to their input; untrained, the input itself."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = zeroed(nn.Conv2d(channels, channels, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(functional.silu(self.first(functional.silu(x))))
        return x + y


def zeroed(layer: Layer) -> Layer:
    """The layer with weights and bias of zero."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
