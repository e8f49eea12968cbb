"""The segmentation that is trained along with Privacy-Net: lung fields, read from the encoded picture.

The paper's task is segmentation, under the Dice loss. The sources here have no masks, so the target is computed from
the real film: lungs are its two largest dark regions that do not touch the frame. That is crude, and enough to tell
whether an encoded picture still shows where the lungs are.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.methods.unet import SmallUNet

#: Side of the maps: lungs are large.
SIDE = 64
#: Least share of the film that a lung covers.
_LEAST = 0.02


class Segmenter(nn.Module):
    """Pictures N×1×S×S to logits of the lung fields N×1×64×64."""

    def __init__(self, width: int = 16, pools: int = 3) -> None:
        super().__init__()
        self.config = {"width": width, "pools": pools}
        self.unet = SmallUNet(1, 1, width, pools)

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.unet(functional.interpolate(pictures, SIDE, mode="bilinear", antialias=True))
        return logits


def lungs(films: Tensor) -> Tensor:
    """Lung fields of real films N×1×S×S as masks N×1×64×64; all zero where none are found."""
    small = functional.interpolate(films, SIDE, mode="bilinear", antialias=True)
    small = functional.avg_pool2d(functional.pad(small, (2, 2, 2, 2), mode="replicate"), 5, 1)
    return torch.stack([torch.from_numpy(_lungs(film[0].detach().cpu().numpy())) for film in small])[:, None]


def _lungs(film: NDArray[np.float32]) -> NDArray[np.float32]:
    from scipy.ndimage import label

    regions, count = label(film < otsu(film))
    frame = np.concatenate([regions[0], regions[-1], regions[:, 0], regions[:, -1]])
    sizes = np.bincount(regions.ravel(), minlength=count + 1)
    sizes[np.unique(frame)] = 0
    sizes[0] = 0  # what is not dark
    largest = [place for place in np.argsort(-sizes)[:2] if sizes[place] >= _LEAST * film.size]
    return np.isin(regions, largest).astype(np.float32)


def otsu(film: NDArray[np.float32]) -> float:
    """The grey value that parts a film's histogram with the least variance inside both parts (Otsu 1979)."""
    counts, edges = np.histogram(film, 64)
    middle = (edges[1:] + edges[:-1]) / 2
    below = counts.cumsum()
    above = below[-1] - below
    total = (counts * middle).cumsum()
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = below * above * (total / below - (total[-1] - total) / above) ** 2
    return float(edges[1 + int(np.nan_to_num(apart).argmax())])


def dice(logits: Tensor, masks: Tensor) -> Tensor:
    """The Dice coefficient of each film that has a mask."""
    there = masks.flatten(1).any(1)
    p, m = torch.sigmoid(logits[there]).flatten(1), masks[there].flatten(1)
    return 2 * (p * m).sum(1) / (p.sum(1) + m.sum(1)).clamp_min(1e-6)
