"""`identity`: whose film it is. Unit vectors that lie close for two films of one person.

The places where ribs cross differ between people, so maps from the middle of the backbone keep their places and go
through one linear layer; a pooled vector from the top, as classification uses it, loses most of it (Packhäuser et al.
2022, arXiv 2103.08562, keep a map for the same reason).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from updp.models.backbone import EfficientNetLite0
from updp.models.images import batched


class Tap(NamedTuple):
    """A block of the backbone whose maps are used."""

    block: int
    channels: int
    cell: int  # pixels that a cell of the pooled map covers


#: The maps that may be asked for, by name, from the image upwards.
TAPS = {"lower": Tap(10, 112, 20), "upper": Tap(14, 192, 32)}


class Identity(nn.Module):
    """Films N×1×S×S in [0, 1] to unit vectors N×space."""

    centre: Tensor
    spread: Tensor

    def __init__(self, size: int = 160, space: int = 192) -> None:
        super().__init__()
        self.config = {"size": size, "space": space}
        self.size = size
        self.backbone = EfficientNetLite0()
        features = sum(tap.channels * (size // tap.cell) ** 2 for tap in TAPS.values())
        self.register_buffer("centre", torch.zeros(features))
        self.register_buffer("spread", torch.ones(features))
        self.project = nn.Linear(features, space, bias=False)

    def features(self, images: Tensor) -> Tensor:
        """The pooled maps, flattened."""
        if images.shape[-1] != self.size:
            images = nn.functional.interpolate(images, self.size, mode="bilinear", antialias=True)
        maps = self.backbone.maps_at(images, tuple(tap.block for tap in TAPS.values()))
        return torch.cat([self.pool(m, name) for m, name in zip(maps, TAPS, strict=True)], 1)

    def maps(self, images: Tensor, name: str) -> Tensor:
        """The maps of this name for images N×1×size×size."""
        found: Tensor = self.backbone.maps_at(images, (TAPS[name].block,))[0]
        return found

    def pool(self, maps: Tensor, name: str) -> Tensor:
        """Maps of this name averaged in cells, flattened."""
        return nn.functional.adaptive_avg_pool2d(maps, self.size // TAPS[name].cell).flatten(1)

    def between(self, lower: str, upper: str) -> nn.ModuleList:
        """The blocks that lead from maps of one name to those of another."""
        return nn.ModuleList(self.backbone._blocks[TAPS[lower].block + 1 : TAPS[upper].block + 1])

    def forward(self, images: Tensor) -> Tensor:
        standard = (self.features(images) - self.centre) / self.spread
        return nn.functional.normalize(self.project(standard), dim=-1)

    @batched
    def embed(self, images: Tensor) -> Tensor:
        embedded: Tensor = self(images)
        return embedded
