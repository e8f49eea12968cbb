"""A small U-Net (Ronneberger et al. 2015, arXiv 1505.04597), the network of PriCheXy-Net and Privacy-Net."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class _Twice(nn.Module):
    """Convolution, norm, rectifier, twice. Groups instead of batches are normed: batches are small here."""

    def __init__(self, inputs: int, outputs: int, negative_slope: float) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.first, self.second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(outputs // 8, outputs), nn.GroupNorm(outputs // 8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.leaky_relu(self.norm1(self.first(x)), self.negative_slope)
        return functional.leaky_relu(self.norm2(self.second(x)), self.negative_slope)


class SmallUNet(nn.Module):
    """N×inputs×S×S to N×outputs×S×S; the last layer starts at zero. S is a multiple of 2^pools."""

    def __init__(self, inputs: int, outputs: int, width: int = 16, pools: int = 3, negative_slope: float = 0.0) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(pools + 1)]
        self.down = nn.ModuleList(_Twice(a, b, negative_slope) for a, b in zip([inputs, *widths], widths, strict=False))
        pairs = zip(widths[:0:-1], widths[-2::-1], strict=True)
        self.up = nn.ModuleList(_Twice(a + b, b, negative_slope) for a, b in pairs)
        self.last = nn.Conv2d(width, outputs, 1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        skips: list[Tensor] = []
        for i, level in enumerate(self.down):
            x = level(functional.max_pool2d(x, 2) if i else x)
            skips.append(x)
        skips.pop()
        for level in self.up:
            x = level(torch.cat([functional.interpolate(x, scale_factor=2.0, mode="nearest"), skips.pop()], 1))
        out: Tensor = self.last(x)
        return out
