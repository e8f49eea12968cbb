"""What every role requires of its films, and how long lists of films are processed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

Self = TypeVar("Self")
P = ParamSpec("P")
BATCH = 16


def batched(
    function: Callable[Concatenate[Self, Tensor, P], Tensor],
) -> Callable[Concatenate[Self, Tensor, P], Tensor]:
    """Run a role's method over a long batch in parts that fit the memory; gradients pass through."""

    @wraps(function)
    def run(self: Self, images: Tensor, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        if images.ndim != 4 or not images.is_floating_point():
            got = f"{tuple(images.shape)} {str(images.dtype).removeprefix('torch.')}"
            raise ValueError(f"expected float32 N×C×H×W, got {got}")
        if len(images) <= BATCH:
            return function(self, images, *args, **kwargs)
        parts = [images[i : i + BATCH] for i in range(0, len(images), BATCH)]
        return torch.cat([function(self, part, *args, **kwargs) for part in parts])

    return run  # type: ignore[return-value]
