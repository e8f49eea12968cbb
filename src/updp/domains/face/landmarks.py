"""The 106 landmarks of a face by name, and what is measured on them: eye opening, gaze, turn of the head.

Left and right are those of the image, not of the person. Points are rows of ``finder.Face.points``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from updp.core.record import Point, Study

COUNT = 106
#: The outline from the temple on the left by the chin to the temple on the right.
OUTLINE = (1, *range(9, 17), 2, *range(3, 9), 0, 24, 23, 22, 21, 20, 19, 18, 32, 31, 30, 29, 28, 27, 26, 25, 17)
#: Parts by which errors are given.
PARTS: Mapping[str, tuple[int, ...]] = {
    "eyes": (*range(33, 43), *range(87, 97)),
    "mouth": tuple(range(52, 72)),
    "nose": tuple(range(72, 87)),
}
NOSE_TIP = 86
MOUTH_CORNERS = (52, 61)


@dataclass(frozen=True, slots=True)
class Eye:
    """Rows of the landmarks of one eye. ``upper`` and ``lower`` run from the outer to the inner corner."""

    outer: int
    inner: int
    upper: tuple[int, int, int]
    lower: tuple[int, int, int]
    brow: tuple[int, ...]

    @property
    def rim(self) -> tuple[int, ...]:
        """The opening as a polygon."""
        return self.outer, *self.upper, self.inner, *reversed(self.lower)


EYES: Mapping[str, Eye] = {
    "left": Eye(35, 39, (41, 40, 42), (36, 33, 37), tuple(range(43, 52))),
    "right": Eye(93, 89, (96, 94, 95), (91, 87, 90), tuple(range(97, 106))),
}


def opening(points: NDArray[Any], eye: Eye) -> float:
    """Height of an eye's opening over its width."""
    axis = points[eye.inner] - points[eye.outer]
    width = float(np.linalg.norm(axis))
    apart = points[list(eye.lower)] - points[list(eye.upper)]
    across = np.array([-axis[1], axis[0]]) / max(width, 1e-6)
    return float(np.abs(apart @ across).mean()) / max(width, 1e-6)


def centre(points: NDArray[Any], eye: Eye) -> NDArray[Any]:
    return np.asarray((points[eye.outer] + points[eye.inner]) / 2)


def between_eyes(points: NDArray[Any]) -> float:
    """Distance of the eyes' centres: the unit of landmark errors."""
    return float(np.linalg.norm(centre(points, EYES["right"]) - centre(points, EYES["left"])))


def turn(points: NDArray[Any]) -> float:
    """How far the tip of the nose is off the middle of the eyes, in distances between the eyes: 0 is frontal."""
    left, right = (centre(points, EYES[side]) for side in ("left", "right"))
    along = (right - left) / max(float(np.linalg.norm(right - left)), 1e-6)
    return float((points[NOSE_TIP] - (left + right) / 2) @ along) / max(between_eyes(points), 1e-6)


def named(points: NDArray[Any], shape: tuple[int, ...]) -> dict[str, Point]:
    """Landmarks as a record holds them: by name, in fractions of the image."""
    height, width = shape[:2]
    return {f"face {n}": (float(x) / width, float(y) / height) for n, (x, y) in enumerate(points)}


def points_of(study: Study) -> NDArray[np.float64] | None:
    """The landmarks of a record in pixels of its image; None where it has none."""
    if study.pixels is None or len(study.landmarks) < COUNT:
        return None
    height, width = study.pixels.shape[:2]
    return np.array([study.landmarks[f"face {n}"] for n in range(COUNT)]) * (width, height)
