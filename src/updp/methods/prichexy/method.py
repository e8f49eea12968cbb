"""PriCheXy-Net (Packhäuser et al., MICCAI 2023): a learned deformation, trained against a network that links patients.

A U-Net gives a field U(x) in [-1, 1]; every pixel is fetched from where -mu U(x), smoothed by a 9x9 Gaussian of sigma
2, points. A pixel moves by at most mu (n - 1) / 2: at the published mu = 0.01 that is 1.3 pixels of 256, so rib
geometry stays and what is lost is mostly the features that one network used.

``frame="original"`` smooths the whole sampling grid with zero padding, as the public code does: it drags a frame four
pixels wide towards the middle of the film even where mu is 0. The default smooths the field alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.learned import Trained
from updp.methods.unet import SmallUNet

if TYPE_CHECKING:
    import numpy as np

TAPS, SIGMA = 9, 2.0
#: The U-Net starts at zero; with this in front of tanh a few hundred steps reach the whole range.
GAIN = 10.0


class Deformer(nn.Module):
    """Films to fields N×2×S×S in [-1, 1], computed at ``side`` pixels; below the film's own size interpolated.

    Every pixel has its own shift. ``places`` by ``places`` pixels go through the U-Net as channels of one place: at 4
    it costs a twelfth, and the Gaussian that smooths the field is as wide.
    """

    def __init__(self, width: int = 16, pools: int = 4, side: int = 256, places: int = 1) -> None:
        super().__init__()
        self.config = {"width": width, "pools": pools, "side": side, "places": places}
        self.side, self.places = side, places
        self.unet = SmallUNet(places**2, 2 * places**2, width, pools)

    def forward(self, films: Tensor) -> Tensor:
        whole = films.shape[-1] == self.side
        seen = films if whole else functional.interpolate(films, self.side, mode="bilinear", antialias=True)
        field = functional.pixel_shuffle(self.unet(functional.pixel_unshuffle(seen, self.places)), self.places)
        # A shift of the whole film does not protect the patient, and training finds it first.
        field = torch.tanh(GAIN * (field - field.mean((2, 3), keepdim=True)))
        return field if whole else functional.interpolate(field, films.shape[-1], mode="bilinear", align_corners=True)


class PriCheXyNet(Trained):
    """``strength`` scales mu up to ``max_mu``; at 1/3 it is the largest published mu, 0.01."""

    info: ClassVar[MethodInfo] = method_info("prichexy")

    class Options(Trained.FirstOptions):
        max_mu: float = Field(0.03, gt=0, description="Size of the deformation at strength 1.")
        frame: Literal["fixed", "original"] = Field(
            "fixed", description="Smooth the field alone, or the whole sampling grid as the public code does."
        )

    options: Options

    def build(self, config: dict[str, Any]) -> Deformer:
        return Deformer(**config)

    def make(self, studies: list[Study], films: Tensor, strength: float, rngs: list[np.random.Generator]) -> Tensor:
        return warp(
            films, self.network(films), strength * self.options.max_mu, original=self.options.frame == "original"
        )

    def decided(self, strength: float) -> dict[str, Any]:
        return {"mu": round(strength * self.options.max_mu, 6), "frame": self.options.frame}


def identity_grid(side: int) -> Tensor:
    """Where each pixel is, 1×2×S×S, x before y, corners at ±1."""
    line = torch.linspace(-1, 1, side)
    y, x = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([x, y])[None]


def smooth(planes: Tensor, padding: Literal["reflect", "zeros"]) -> Tensor:
    """Each plane under the Gaussian."""
    taps = torch.exp(-((torch.arange(TAPS, dtype=planes.dtype) - TAPS // 2) ** 2) / (2 * SIGMA**2))
    taps = (taps / taps.sum()).to(planes.device)
    n, channels, height, width = planes.shape
    flat = planes.reshape(n * channels, 1, height, width)
    edge = (TAPS // 2,) * 4
    flat = functional.pad(flat, edge, mode="reflect") if padding == "reflect" else functional.pad(flat, edge)
    flat = functional.conv2d(functional.conv2d(flat, taps[None, None, None]), taps[None, None, :, None])
    return flat.reshape(planes.shape)


def sampling_grid(field: Tensor, mu: float | Tensor, original: bool = False) -> Tensor:
    """Where each pixel of the warped film comes from, N×2×S×S in [-1, 1]; ``field`` is N×2×S×S in [-1, 1]."""
    here = identity_grid(field.shape[-1]).to(field)
    if original:
        return smooth(here - mu * field, "zeros")
    return here - mu * smooth(field, "reflect")


def warp(films: Tensor, field: Tensor, mu: float | Tensor, original: bool = False) -> Tensor:
    """Films N×1×S×S under the deformation."""
    grid = sampling_grid(field, mu, original).permute(0, 2, 3, 1)
    return functional.grid_sample(films, grid, padding_mode="border", align_corners=True)
