"""Nodule phantoms through an autoencoder: a disc that was added comes back, and none appears where none was added.

Discs of 6 to 20 pixels with soft edges are added to real films at random places. The contrast of a disc is measured by
a matched filter (disc against the ring around it) on the difference of two decoded films, with the disc and without. An
invented disc is one where the filter response is larger on the decoded film than on the film itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import binomtest
from torch import Tensor
from torch.nn import functional

DIAMETERS = (6, 8, 10, 14, 20)
CONTRAST = 0.1  # of the range, about that of a small nodule
ENOUGH = 0.8  # of the contrast, to call a disc kept
INVENTED = 0.5  # of the contrast, to call a disc invented
_MARGIN = 40  # pixels of a film of 256 kept free of discs


def share(hits: int, count: int, name: str) -> dict[str, float]:
    """A share with its count and its 95 % interval (Wilson)."""
    if count == 0:
        return {f"{name} counted": 0.0}
    low, high = binomtest(hits, count).proportion_ci(method="wilson")
    return {name: hits / count, f"{name} low": float(low), f"{name} high": float(high), f"{name} counted": float(count)}


def disc(size: int, diameter: float, centre: tuple[float, float]) -> Tensor:
    """A disc of height 1 in a film of `size` pixels, its edge one pixel wide."""
    y, x = torch.meshgrid(torch.arange(float(size)), torch.arange(float(size)), indexing="ij")
    away = ((y - centre[0]) ** 2 + (x - centre[1]) ** 2).sqrt()
    return (diameter / 2 - away + 0.5).clamp(0, 1)


def matched_filter(diameter: float) -> Tensor:
    """Weights whose product with a disc of height 1 is 1, and with a linear ramp of grey 0."""
    side = int(np.ceil(diameter * 1.8)) | 1
    middle = (side - 1) / 2
    inner = disc(side, diameter, (middle, middle))
    ring = disc(side, diameter * 1.7, (middle, middle)) - disc(side, diameter * 1.2, (middle, middle))
    kernel = inner / inner.sum() - ring / ring.sum()
    return kernel / (kernel * inner).sum()


def responses(difference: Tensor, diameter: float) -> Tensor:
    """Contrast of a disc at every place of N×1×S×S."""
    kernel = matched_filter(diameter)[None, None]
    return functional.conv2d(difference, kernel, padding=kernel.shape[-1] // 2)


@torch.no_grad()
def phantom_figures(through: Callable[[Tensor], Tensor], films: Tensor, rng: np.random.Generator) -> dict[str, float]:
    """`through` takes films N×1×S×S there and back; each film gets a disc of each diameter, one at a time."""
    size = films.shape[-1]
    plain = through(films)
    figures: dict[str, float] = {}
    margin = round(_MARGIN * size / 256)
    hits = count = 0
    for diameter in DIAMETERS:
        places = rng.integers(margin, size - margin, (len(films), 2))
        added = torch.stack([disc(size, diameter, (y, x)) for y, x in places])[:, None]
        # Where the film has no room above, the disc is dark: a white nodule in white bone cannot be seen at all.
        room = (films * added).sum((1, 2, 3)) / added.sum((1, 2, 3)) < 1 - 2 * CONTRAST
        sign = torch.where(room, 1.0, -1.0)[:, None, None, None]
        back = responses((through((films + sign * CONTRAST * added).clamp(0, 1)) - plain) * sign, diameter)
        put = responses(((films + sign * CONTRAST * added).clamp(0, 1) - films) * sign, diameter)
        rows, where = torch.arange(len(films)), torch.from_numpy(places)
        kept = back[rows, 0, where[:, 0], where[:, 1]] / put[rows, 0, where[:, 0], where[:, 1]]
        figures[f"contrast kept, {diameter} px"] = float(kept.mean())
        hits, count = hits + int((kept >= ENOUGH).sum()), count + len(kept)
    figures |= share(hits, count, "discs kept")
    invented = torch.zeros(len(films), dtype=torch.bool)
    inside = slice(margin, size - margin)
    for diameter in DIAMETERS:
        # A spot that was lost is no invention: what counts is where the decoded film has more of a disc than the film.
        more = responses(plain, diameter).abs() - responses(films, diameter).abs()
        found = more[:, :, inside, inside].amax((1, 2, 3))
        figures[f"largest invented contrast, {diameter} px"] = float(found.max()) / CONTRAST
        invented |= found > INVENTED * CONTRAST
    figures |= share(int(invented.sum()), len(films), "films with an invented disc")
    return figures
