"""Sheets: films side by side in one picture, for inspection."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional


def write_sheet(films: Tensor, path: Path, columns: int = 4) -> None:
    """Films N×1×S×S in [0, 1] as rows of `columns`; places left over stay black."""
    from PIL import Image

    missing = -len(films) % columns
    size = films.shape[-1]
    full = functional.pad(films[:, 0].clamp(0, 1), (0, 0, 0, 0, 0, missing))
    tiles = full.reshape(-1, columns, size, size).permute(0, 2, 1, 3).reshape(-1, columns * size)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((tiles * 255).round().to(torch.uint8).numpy()).save(path, optimize=True)
