"""`classifier`: the fourteen findings of ChestX-ray14 on a film."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from updp.models.backbone import FEATURES, FilmEncoder, pooled
from updp.models.images import batched


class Classifier(nn.Module):
    """Films N×1×S×S in [0, 1] to one probability per finding."""

    def __init__(self, labels: Sequence[str], size: int = 160) -> None:
        super().__init__()
        self.config = {"labels": list(labels), "size": size}
        self.labels = tuple(labels)
        self.encoder = FilmEncoder(size)
        self.head = nn.Linear(FEATURES, len(self.labels))

    @batched
    def features(self, images: Tensor) -> Tensor:
        """The 1 280 features below the head: the space of FD-classifier."""
        features: Tensor = self.encoder(images)
        return features

    def forward(self, images: Tensor, begun: bool = False) -> Tensor:
        """Logits of films, or of what the backbone's `begin` made of them; differentiable."""
        features = pooled(self.encoder.backbone.finish(images)) if begun else self.features(images)
        logits: Tensor = self.head(nn.functional.dropout(features, 0.3, self.training))
        return logits

    @batched
    def probabilities(self, images: Tensor) -> Tensor:
        return torch.sigmoid(self(images))
