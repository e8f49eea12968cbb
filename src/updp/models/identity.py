"""`identity`: who is on the film. Unit vectors that lie close for two films of one person.

Where a rib crosses is what tells people apart, so maps from the middle of the backbone keep their places and go through
one linear layer; a pooled vector from the top, as classification wants it, loses most of it (Packhäuser et al. 2022,
arXiv 2103.08562, keep a map for the same reason).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from updp.models.backbone import EfficientNetLite0
from updp.models.images import batched

#: Backbone blocks whose maps are looked at, their channels, and pixels a cell of the pooled map covers.
_TAPS = ((10, 112, 20), (14, 192, 32))


class Identity(nn.Module):
    """Films N×1×S×S in [0, 1] to unit vectors N×space."""

    centre: Tensor
    spread: Tensor

    def __init__(self, size: int = 160, space: int = 192) -> None:
        super().__init__()
        self.config = {"size": size, "space": space}
        self.size = size
        self.backbone = EfficientNetLite0()
        features = sum(channels * (size // cell) ** 2 for _, channels, cell in _TAPS)
        self.register_buffer("centre", torch.zeros(features))
        self.register_buffer("spread", torch.ones(features))
        self.project = nn.Linear(features, space, bias=False)

    def features(self, images: Tensor) -> Tensor:
        """The pooled maps, flattened."""
        if images.shape[-1] != self.size:
            images = nn.functional.interpolate(images, self.size, mode="bilinear", antialias=True)
        maps = self.backbone.maps_at(images, tuple(block for block, _, _ in _TAPS))
        pooled = [
            nn.functional.adaptive_avg_pool2d(m, self.size // cell).flatten(1)
            for m, (_, _, cell) in zip(maps, _TAPS, strict=True)
        ]
        return torch.cat(pooled, 1)

    def forward(self, images: Tensor) -> Tensor:
        standard = (self.features(images) - self.centre) / self.spread
        return nn.functional.normalize(self.project(standard), dim=-1)

    @batched
    def embed(self, images: Tensor) -> Tensor:
        embedded: Tensor = self(images)
        return embedded
