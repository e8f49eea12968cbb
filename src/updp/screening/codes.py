"""Codes burned into a film: bar codes and matrix codes, decoded or recognised by their pattern.

A label photographed with the patient holds the record number in a form no OCR reads. zxing-cpp decodes what a receiver
could decode; what is too small, too faint or too damaged for it today is found by its pattern: a compact patch where
light and dark alternate sharply many times, along one direction (bars) or along both (matrix). Only places leave this
module, never what a code says. zxing-cpp is part of the extra ``ocr``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from updp.screening.painting import Rect

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Films up to this side are also decoded enlarged: a module of one or two pixels is too small for the decoder.
SMALL = 1280
#: Sides the pattern is looked for at: modules of 1.5 to 4 pixels at one of them.
SIDES = (1024, 512, 256)
#: Step of grey between neighbours that counts as an edge.
STEP = 0.04
#: Shortest side of a patch, in pixels of the size looked at.
LEAST = 10
#: Widths of a bridge between a patch and what lies beside it, ribs or a wire, that is cut.
APART = (8, 24)
#: Changes between light and dark: along a bar code, along one of stacked bars, along either side of a matrix code.
BARS, STACKED, MODULES = 14.0, 35.0, 5.6


def find_codes(film: NDArray[np.float32]) -> list[Rect]:
    """Places that hold a code, decodable or not."""
    return _decoded(film) + _patterned(film)


def _decoded(film: NDArray[np.float32]) -> list[Rect]:
    import cv2
    import zxingcpp

    views = [(film, 1.0)]
    if max(film.shape) <= SMALL:
        views.append((np.asarray(cv2.resize(film, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)), 2.0))
    out = []
    for view, zoom in views:
        grey = np.ascontiguousarray(np.clip(view, 0.0, 1.0) * 255.0 + 0.5, dtype=np.uint8)
        for found in zxingcpp.read_barcodes(grey):
            at = found.position
            corners = np.array(
                [(p.x, p.y) for p in (at.top_left, at.top_right, at.bottom_right, at.bottom_left)], dtype=np.float64
            )
            corners /= zoom
            out.append(_grown(corners.min(axis=0), corners.max(axis=0), film.shape))
    return out


def _grown(low: NDArray[np.float64], high: NDArray[np.float64], shape: tuple[int, ...]) -> Rect:
    """A box with a rim: the decoder gives the middle of a bar code's scan line, or a code without its outer modules."""
    size = high - low
    rim = np.maximum(4, np.where(size < 0.25 * size.max(), 0.35 * size.max(), 0.15 * size.max()))
    left, top = (int(v) for v in np.maximum(0, np.floor(low - rim)))
    right, bottom = (int(v) for v in np.minimum((shape[1], shape[0]), np.ceil(high + rim)))
    return left, top, right - left, bottom - top


def _patterned(film: NDArray[np.float32]) -> list[Rect]:
    import cv2

    out = []
    for side in SIDES:
        scale = side / max(film.shape)
        if scale > 1.0 and side > SIDES[-1]:
            continue
        size = (max(16, round(film.shape[1] * scale)), max(16, round(film.shape[0] * scale)))
        how = cv2.INTER_AREA if scale < 1.0 else cv2.INTER_LINEAR
        small = film if scale == 1.0 else np.asarray(cv2.resize(film, size, interpolation=how), dtype=np.float32)
        out += [_back(rect, small.shape, film.shape) for rect in _patches(small)]
    return out


def _patches(film: NDArray[np.float32]) -> list[Rect]:
    """Compact patches dense with edges whose light and dark alternate as in a code."""
    import cv2

    across = np.abs(cv2.Sobel(film, cv2.CV_32F, 1, 0, ksize=3, scale=0.125))
    down = np.abs(cv2.Sobel(film, cv2.CV_32F, 0, 1, ksize=3, scale=0.125))
    upright = (across > STEP) & (across > 3 * down)
    level = (down > STEP) & (down > 3 * across)
    out = []
    for edges, reach, share, bars in (
        (np.maximum(across, down) > STEP, (7, 7), 0.5, False),
        (upright, (15, 7), 0.3, True),
        (level, (7, 15), 0.3, True),
    ):
        seen = (cv2.blur(edges.astype(np.float32), reach) > share).astype(np.uint8)
        dense = cv2.morphologyEx(seen, cv2.MORPH_CLOSE, np.ones((reach[1], reach[0]), dtype=np.uint8))
        for apart in APART:
            parts = cv2.morphologyEx(dense, cv2.MORPH_OPEN, np.ones((apart, apart), dtype=np.uint8))
            count, _, stats, _ = cv2.connectedComponentsWithStats(parts, connectivity=4)
            for x, y, w, h, area in stats[1:count].tolist():
                patch = film[y : y + h, x : x + w]
                if min(w, h) >= LEAST and area >= 0.6 * w * h and (_is_bars if bars else _is_matrix)(patch):
                    rim = 3 + max(w, h) // 16
                    left, top = max(0, x - rim), max(0, y - rim)
                    right, bottom = min(film.shape[1], x + w + rim), min(film.shape[0], y + h + rim)
                    out.append((left, top, right - left, bottom - top))
    return out


@dataclass(frozen=True, slots=True)
class _Pattern:
    """How light and dark alternate in a patch."""

    rows: float  # changes along a row, on average
    columns: float
    depth: float  # mean distance from the local mean, in units of the patch's spread: 1 for two even levels
    contrast: float
    edges: float  # share of pixels at an edge
    one_way: float  # 1 if all edges run in one direction

    @classmethod
    def of(cls, patch: NDArray[np.float32]) -> _Pattern:
        import cv2

        away = patch - cv2.blur(patch, (9, 9))
        light = away > 0
        across = cv2.Sobel(patch, cv2.CV_32F, 1, 0, ksize=3, scale=0.125)
        down = cv2.Sobel(patch, cv2.CV_32F, 0, 1, ksize=3, scale=0.125)
        steep = np.hypot(across, down)
        turned = np.abs((steep * np.exp(2j * np.arctan2(down, across))).sum())
        contrast = float(np.abs(away).mean())
        return cls(
            rows=float((light[:, 1:] != light[:, :-1]).sum(axis=1).mean()),
            columns=float((light[1:] != light[:-1]).sum(axis=0).mean()),
            depth=contrast / max(float(patch.std()), 1e-6),
            contrast=contrast,
            edges=float((steep > STEP).mean()),
            one_way=float(turned) / max(float(steep.sum()), 1e-6),
        )


def _is_matrix(patch: NDArray[np.float32]) -> bool:
    seen = _Pattern.of(patch)
    few = min(seen.rows, seen.columns)
    if seen.depth < 0.65 or seen.contrast < 0.06 or seen.edges < 0.5:
        return False
    return few >= MODULES and seen.one_way < 0.3 and max(patch.shape) <= 1.8 * min(patch.shape)


def _is_bars(patch: NDArray[np.float32]) -> bool:
    """One row of bars, or several stacked (PDF417), which change a little along the other direction too."""
    seen = _Pattern.of(patch)
    few, many = sorted((seen.rows, seen.columns))
    if seen.depth < 0.6:
        return False
    return (many >= BARS and few <= 0.15 * many and seen.one_way >= 0.85) or (
        many >= STACKED and few <= 0.12 * many and seen.one_way >= 0.55
    )


def _back(rect: Rect, small: tuple[int, ...], full: tuple[int, ...]) -> Rect:
    """A place on a reduced film, in pixels of the film."""
    x, y, w, h = rect
    across, down = full[1] / small[1], full[0] / small[0]
    left, top = int(x * across), int(y * down)
    right, bottom = min(full[1], int(np.ceil((x + w) * across))), min(full[0], int(np.ceil((y + h) * down)))
    return left, top, right - left, bottom - top
