"""A network saved as TorchScript, as `identity` or `classifier`: any architecture, without its code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from updp.models.errors import PackError
from updp.models.images import batched


class _Scripted:
    """A network of images N×C×S×S, given as [0, 1] less ``mean`` over ``std``."""

    def __init__(
        self,
        path: Path,
        size: int,
        channels: int = 1,
        mean: float = 0.0,
        std: float = 1.0,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        try:
            self.network = torch.jit.load(str(path), map_location=device).eval()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise PackError(f"{path.name} is not a TorchScript file of this version of torch") from error
        self.network.to(getattr(torch, dtype))
        self.size, self.channels, self.mean, self.std = size, channels, mean, std
        self.device, self.dtype = device, getattr(torch, dtype)

    def see(self, images: Tensor) -> Tensor:
        if images.shape[-1] != self.size:
            images = functional.interpolate(images, self.size, mode="bilinear", antialias=True)
        if images.shape[1] != self.channels:  # grey to colour and back
            images = images.mean(1, keepdim=True).expand(-1, self.channels, -1, -1)
        seen: Tensor = self.network((images.to(self.device, self.dtype) - self.mean) / self.std)
        return seen


class ScriptedIdentity(_Scripted):
    @batched
    def embed(self, images: Tensor) -> Tensor:
        return functional.normalize(self.see(images).flatten(1), dim=-1)


class ScriptedClassifier(_Scripted):
    """Logits, one for each of ``labels``."""

    def __init__(self, path: Path, labels: Sequence[str], **settings: float) -> None:
        super().__init__(path, **settings)  # type: ignore[arg-type]
        self.labels = tuple(labels)

    @batched
    def probabilities(self, images: Tensor) -> Tensor:
        return torch.sigmoid(self.see(images))
