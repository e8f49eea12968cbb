"""Painting a box out of a film so that it looks like the film around it.

The box is filled from its surroundings by push-pull interpolation (Gortler et al., "The Lumigraph", 1996): the film is
averaged down until the hole closes and brought back up. Grain of the strength found around the box is added, so that no
flat patch marks the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rect = tuple[int, int, int, int]  # x, y, width, height


def paint_out(pixels: NDArray[np.float32], rects: Sequence[Rect], spare: Sequence[Rect] = ()) -> NDArray[np.float32]:
    """A copy of the film with every box replaced by background, what is inside ``spare`` excepted."""
    import cv2

    if pixels.ndim == 3:
        return np.stack([paint_out(plane, rects, spare) for plane in np.moveaxis(pixels, -1, 0)], axis=-1)
    out = np.array(pixels, dtype=np.float32, copy=True)
    hidden = np.zeros(out.shape, dtype=np.uint8)
    for x, y, w, h in rects:
        hidden[max(0, y) : max(0, y + h), max(0, x) : max(0, x + w)] = 1
    for x, y, w, h in spare:
        hidden[max(0, y) : max(0, y + h), max(0, x) : max(0, x + w)] = 0
    if hidden.all():  # nothing to look like
        return np.zeros_like(out)
    holes, labels, stats, _ = cv2.connectedComponentsWithStats(hidden, connectivity=8)
    for hole in range(1, holes):  # boxes that touch are one hole
        x, y, w, h = (int(v) for v in stats[hole][:4])
        margin = max(8, min(w, h))
        seen = hidden[max(0, y - margin) : y + h + margin, max(0, x - margin) : x + w + margin]
        while seen.all():
            margin *= 2
            seen = hidden[max(0, y - margin) : y + h + margin, max(0, x - margin) : x + w + margin]
        window = np.s_[max(0, y - margin) : y + h + margin, max(0, x - margin) : x + w + margin]
        patch, known = pixels[window], hidden[window] == 0
        noise = np.random.default_rng((x, y, w, h)).normal(0.0, 1.0, patch.shape) * _grain(patch, known)
        filled = np.clip(_push_pull(patch, known) + noise, 0.0, 1.0).astype(np.float32)
        mine = labels[window] == hole
        out[window][mine] = filled[mine]
    return out


def _push_pull(patch: NDArray[np.float32], known: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Fill the unknown pixels of a patch from coarser and coarser averages of the known ones."""
    import cv2

    weights = [known.astype(np.float32)]
    values = [np.where(known, patch, 0.0).astype(np.float32)]
    while min(values[-1].shape) > 1 and not weights[-1].all():
        height, width = ((n + 1) // 2 for n in values[-1].shape)
        weight = cv2.resize(weights[-1], (width, height), interpolation=cv2.INTER_AREA)
        value = cv2.resize(values[-1], (width, height), interpolation=cv2.INTER_AREA)
        values.append(np.where(weight > 0, value / np.maximum(weight, 1e-6), 0.0).astype(np.float32))
        weights.append((weight > 0).astype(np.float32))
        values[-1] *= weights[-1]
    if not weights[-1].all():
        seen = weights[-1] > 0
        values[-1] = np.where(seen, values[-1], values[-1][seen].mean() if seen.any() else 0.0).astype(np.float32)
    filled = values[-1]
    for value, weight in zip(values[-2::-1], weights[-2::-1], strict=True):
        rough = cv2.resize(filled, (value.shape[1], value.shape[0]), interpolation=cv2.INTER_LINEAR)
        filled = np.where(weight > 0, value, rough).astype(np.float32)
    smooth = cv2.GaussianBlur(filled, (0, 0), 2.0)  # the pyramid leaves steps inside the hole
    return np.where(known, patch, smooth).astype(np.float32)


def _grain(patch: NDArray[np.float32], known: NDArray[np.bool_]) -> float:
    """The strength of the film's grain: the spread of its finest detail, robust against edges."""
    import cv2

    fine = np.abs(patch - cv2.GaussianBlur(patch, (0, 0), 1.0))[known]
    return float(1.4826 * np.median(fine)) if fine.size else 0.0
