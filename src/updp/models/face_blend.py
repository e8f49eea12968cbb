"""Another face around a patient's eyes: what is kept of a framed photograph, and how the two are joined.

The kept region is an ellipse around each eye with the lids and the skin that tumours of the lid grow on. Its size is
the privacy setting of methods that use it: at strength 1 little more than the lids, at 0 the whole photograph.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from updp.domains.face.frame import GOAL

#: Half axes of the region at strength 1 and how far its middle is below the eye, in distances between the eyes.
ACROSS, DOWN, LOWER = 0.36, 0.27, 0.05
#: Width of the seam as a share of the half axes.
SEAM = 0.3
#: Ring around the region whose colour the other face takes, in half axes.
RING = 1.6


def _distance(strength: Tensor, side: int, grow: float = 1.0) -> Tensor:
    """How far each pixel is from the nearer eye, in half axes: N×1×S×S; infinitely small at strength 0."""
    y, x = torch.meshgrid(torch.arange(side) + 0.5, torch.arange(side) + 0.5, indexing="ij")
    apart = float(GOAL[1, 0] - GOAL[0, 0])
    parts = []
    for eye in GOAL[:2]:
        dx = (x / side - float(eye[0])) / (ACROSS * apart)
        dy = (y / side - float(eye[1]) - LOWER * apart) / (DOWN * apart)
        parts.append(torch.sqrt(dx**2 + dy**2))
    nearest = torch.minimum(*parts)
    return nearest[None, None] * strength[:, None, None, None] / grow


def kept_region(strength: Tensor, side: int) -> Tensor:
    """1 where the patient's own pixels stay, 0 where they do not, with a soft seam: N×1×S×S for strengths N."""
    return torch.clamp((1 - _distance(strength, side)) / SEAM + 0.5, 0, 1)


def seen_region(strength: Tensor, side: int) -> Tensor:
    """The kept region and the ring around it: beyond, no pixel of the patient enters what is made."""
    return torch.clamp((1 - _distance(strength, side, RING)) / SEAM + 0.5, 0, 1)


def blend(patient: Tensor, other: Tensor, strength: Tensor) -> Tensor:
    """The other face with the patient's eyes, N×3×S×S; the other takes the colour of the skin around them."""
    side = patient.shape[-1]
    region, seen = kept_region(strength, side), seen_region(strength, side)
    ring = (seen - region).clamp_min(0) + 1e-6 * seen
    total = ring.sum((2, 3), keepdim=True).clamp_min(1e-9)
    own, theirs = ((ring * face).sum((2, 3), keepdim=True) / total for face in (patient, other))
    gain = (own / theirs.clamp_min(0.02)).clamp(0.4, 2.2)
    matched = (other * gain).clamp(0, 1)
    # Shading differs from place to place around the eyes: near the seam it is that of the patient on a coarse scale.
    reach = max(1, side // 16)
    coarse = _smoothed(seen * (patient - matched), reach) / _smoothed(seen, reach).clamp_min(1e-3)
    near = seen * _smoothed(region, max(1, side // 10))
    matched = matched + near * coarse * 0.8
    return (region * patient + (1 - region) * matched).clamp(0, 1)


def _smoothed(x: Tensor, reach: int) -> Tensor:
    """Three box means: nearly a Gaussian."""
    width = 2 * (reach // 2) + 1
    for _ in range(3):
        x = functional.avg_pool2d(functional.pad(x, (width // 2,) * 4, mode="replicate"), width, 1)
    return x
