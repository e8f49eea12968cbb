"""`identity`: who is on the film. Unit vectors that lie close for two films of one person.

The maps are not pooled away before the last layer: where a rib crosses is what tells people apart (Packhäuser et al.
2022, arXiv 2103.08562, keep a 5×5 map for the same reason).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from updp.models.backbone import FEATURES, FilmEncoder
from updp.models.images import batched


class Identity(nn.Module):
    """Films N×1×S×S in [0, 1] to unit vectors N×space."""

    def __init__(self, size: int = 160, space: int = 128, reduce: int = 48) -> None:
        super().__init__()
        self.config = {"size": size, "space": space, "reduce": reduce}
        self.encoder = FilmEncoder(size)
        cells = (size // 32) ** 2
        self.reduce = nn.Conv2d(FEATURES, reduce, 1)
        self.head = nn.Sequential(nn.Flatten(), nn.LayerNorm(reduce * cells), nn.Linear(reduce * cells, space))

    @batched
    def embed(self, images: Tensor) -> Tensor:
        return nn.functional.normalize(self.head(self.reduce(self.encoder.maps(images))), dim=-1)

    def forward(self, images: Tensor) -> Tensor:
        return self.embed(images)


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of every pair of embeddings."""
    return torch.as_tensor(a) @ torch.as_tensor(b).T
