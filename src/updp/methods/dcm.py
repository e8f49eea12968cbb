"""DCM-DeID (Tian et al. 2025, arXiv 2507.21703): block where the patient shows, fill in from what the findings say.

Built from the paper's abstract; its body could not be had, and what follows is a design in its spirit.

1. *Identity-Blocking.* The film is cut into cells of 16 x 16 pixels, ranked by how much each gives the patient away;
   the share rho with the highest rank is blocked. Masks are nested in rho, and rho is the knob.
2. *Medical-Semantics-Compensation.* Feature maps of a findings network are written as a short code and a decoder fills
   the blocked cells from the code and the open cells.
3. *Minimum description length.* The code is rounded to whole numbers and paid for by the bit under a learned prior, and
   an adversary reads identities from it in training: what does not help to tell findings is not worth its bits.

The mask is as personal as a face, so it is neither released nor noted; only the filled film leaves. Open cells leave as
they were: privacy needs a high rho. At rho = 1 a film depends on the patient through the code alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.methods.base import MethodInfo
from updp.methods.learned import WEIGHTS, Trained
from updp.methods.listing import DCM
from updp.methods.unet import SmallUNet
from updp.models.backbone import FEATURES
from updp.models.classifier import Classifier
from updp.study import Study

if TYPE_CHECKING:
    import numpy as np

    from updp.models.roles import AutoencoderRole

CELL = 16


class MedicalCode(nn.Module):
    """Feature maps N×F×s×s to a code of whole numbers N×channels×s×s, and its length in bits."""

    def __init__(self, channels: int = 8, hidden: int = 128) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(FEATURES, hidden, 1), nn.SiLU(), nn.Conv2d(hidden, channels, 1))
        self.centre = nn.Parameter(torch.zeros(channels))
        self.width = nn.Parameter(torch.zeros(channels))  # logarithm of the prior's scale

    def forward(self, maps: Tensor, noise: Tensor | None = None) -> Tensor:
        """The code; in training, noise of a width of one in (-1/2, 1/2) stands in for rounding."""
        z: Tensor = self.encode(maps)
        return z.round() if noise is None else z + noise

    def bits(self, code: Tensor) -> Tensor:
        """Length of each film's code under the prior, a logistic a channel."""
        centre, width = self.centre[:, None, None], self.width.exp()[:, None, None]
        upper, lower = ((code + side - centre) / width for side in (0.5, -0.5))
        share = (torch.sigmoid(upper) - torch.sigmoid(lower)).clamp_min(1e-9)
        return -share.log2().sum((1, 2, 3))


class Compensator(nn.Module):
    """Everything that is trained: the findings network (fixed), the code, the decoder."""

    def __init__(
        self, classifier: dict[str, Any], latents: int, channels: int = 8, hidden: int = 128, width: int = 48
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "classifier": classifier, "latents": latents, "channels": channels, "hidden": hidden, "width": width,
        }  # fmt: skip
        self.medical = Classifier(**classifier)
        self.code = MedicalCode(channels, hidden)
        self.decoder = SmallUNet(latents + 2 + channels, latents, width, pools=2, slope=0.1)

    def features(self, films: Tensor) -> Tensor:
        """Maps of the findings network, N×F×s×s."""
        return self.medical.encoder.maps(films)

    def fill(self, latents: Tensor, blocked: Tensor, code: Tensor) -> Tensor:
        """Latents of the whole film, from those of the open cells (``blocked`` is N×1×h×w), and the code."""
        open_ = latents * (1 - blocked)
        share = blocked.mean((2, 3), keepdim=True).expand_as(blocked)
        told = functional.interpolate(code, blocked.shape[-2:], mode="bilinear")
        whole: Tensor = open_ + self.decoder(torch.cat([open_, blocked, share, told], 1)) * blocked
        return whole


class DCMDeID(Trained):
    info: ClassVar[MethodInfo] = DCM

    def __init__(self, pack: str = "cxr256", weights: str = WEIGHTS, spare: float = 0.5) -> None:
        if spare < 0:
            raise ValueError("spare, the weight of cells that show findings, must not be negative")
        self.spare = spare
        super().__init__(pack, weights)

    def build(self, config: dict[str, Any]) -> Compensator:
        return Compensator(**config)

    def make(self, studies: list[Study], films: Tensor, strength: float, rngs: list[np.random.Generator]) -> Tensor:
        if strength == 0:
            return films
        blocked = block(self.saliency(films), strength)
        code = self.network.code(self.network.features(films))
        return compensate(self.network, self.pack.autoencoder, films, blocked, code)

    def saliency(self, films: Tensor) -> Tensor:
        """How much each cell gives the patient away, less what it shows of the findings; N×1×h×w."""
        who = cell_saliency(films, self.pack.identity.embed, similarity)
        if self.spare == 0:
            return who
        return who - self.spare * cell_saliency(films, self.network.medical, agreement)

    def bits(self, films: Tensor) -> Tensor:
        """Length of each film's code."""
        network: Compensator = self.network
        with torch.no_grad():
            return network.code.bits(network.code(network.features(films)))


def similarity(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1)


def agreement(a: Tensor, b: Tensor) -> Tensor:
    return -(a - b).square().mean(1)


def cell_saliency(films: Tensor, network: Any, compare: Any) -> Tensor:
    """What each cell adds to the likeness of a film to itself, N×1×h×w, to first order and in units of the total.

    The film is blurred until each cell is flat; the gradient of its likeness to the film, times what was blurred away,
    says which cells bring the likeness back. One backward pass instead of one forward pass for every cell.
    """
    flat = functional.avg_pool2d(films, CELL)
    start = functional.interpolate(flat, scale_factor=float(CELL), mode="bilinear").detach()
    with torch.enable_grad():
        start.requires_grad_(True)
        likeness = compare(network(start), network(films.detach()).detach()).sum()
        (slope,) = torch.autograd.grad(likeness, start)
    gain = functional.avg_pool2d(slope * (films - start.detach()), CELL)
    gain = functional.avg_pool2d(gain, 3, 1, 1, count_include_pad=False)  # a cell beside a telling one tells too
    return gain / gain.abs().sum((2, 3), keepdim=True).clamp_min(1e-12)


def block(saliency: Tensor, rho: float) -> Tensor:
    """The share ``rho`` of cells with the highest saliency as a mask of ones; masks of a film are nested in rho."""
    if not 0 <= rho <= 1:
        raise ValueError(f"rho must lie in [0, 1], not {rho}")
    cells = saliency.flatten(1)
    count = math.floor(rho * cells.shape[1] + 0.5)
    order = cells.argsort(dim=1, descending=True, stable=True)
    mask = torch.zeros_like(cells).scatter(1, order[:, :count], 1.0)
    return mask.reshape(saliency.shape)


def compensate(network: Compensator, coder: AutoencoderRole, films: Tensor, blocked: Tensor, code: Tensor) -> Tensor:
    """Films with their blocked cells filled in. No pixel of a blocked cell is read."""
    mask = blocked.repeat_interleave(CELL, 2).repeat_interleave(CELL, 3)
    # Coded after blocking: a cell's latent also sees the cells around it.
    latents = coder.encode(films * (1 - mask) + 0.5 * mask)
    filled = coder.decode(network.fill(latents, blocked, code))
    return films * (1 - mask) + filled * mask
