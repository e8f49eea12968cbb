"""A torchxrayvision DenseNet as `classifier`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from updp.models.adapters import extra
from updp.models.images import batched

SIZE = 224


class XrvClassifier:
    """Weights of `torchxrayvision.models.DenseNet` (a state dict, or a whole pickled model is refused) at a path."""

    def __init__(
        self, path: Path, labels: Sequence[str] | None = None, device: str = "cpu", dtype: str = "float32"
    ) -> None:
        xrv = extra("torchxrayvision")
        state = torch.load(path, map_location="cpu", weights_only=True)
        count = state["classifier.weight"].shape[0]
        model = xrv.models.DenseNet(num_classes=count)
        model.load_state_dict(state, strict=False)
        names = tuple(labels) if labels is not None else tuple(xrv.datasets.default_pathologies)
        self.wrap(model.to(getattr(torch, dtype)), names, device)

    def wrap(self, model: Any, labels: Sequence[str], device: str = "cpu") -> XrvClassifier:
        """Use a model that is already built."""
        self.model: Any = model.to(device).eval().requires_grad_(False)
        self.labels, self.device = tuple(labels), device
        return self

    @batched
    def probabilities(self, images: Tensor) -> Tensor:
        images = images.to(self.device, next(self.model.parameters()).dtype)
        x = functional.interpolate(images, SIZE, mode="bilinear", antialias=True)
        out: Tensor = self.model(x * 2048 - 1024)  # torchxrayvision's films are in [-1024, 1024]
        # Published weights apply the sigmoid themselves once they carry operating thresholds.
        calibrated = getattr(self.model, "op_threshs", None) is not None
        return out if calibrated else torch.sigmoid(out)
