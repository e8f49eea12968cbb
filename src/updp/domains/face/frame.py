"""The frame that networks of faces look at: a square with the eyes, nose and mouth where every face has them.

A photograph is turned, scaled and cut by a similarity of its landmarks. What lies outside the frame does not enter a
network, and a method that releases the frame releases nothing of what stood around the face.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from updp.domains.face.landmarks import EYES, MOUTH_CORNERS, NOSE_TIP, centre

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Where eyes, nose and corners of the mouth lie on a square of side 1: the template of ArcFace, seen from a little
#: further away, so that the chin is inside.
GOAL = (
    np.array([[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]) / 112
    - 0.5
) / 1.12 + 0.5


def five_of(points: NDArray[Any]) -> NDArray[np.float64]:
    """Eyes, nose and corners of the mouth from 106 landmarks."""
    eyes = [centre(points, EYES[side]) for side in ("left", "right")]
    return np.array([*eyes, points[NOSE_TIP], *(points[corner] for corner in MOUTH_CORNERS)], np.float64)


def similarity(points: NDArray[Any], side: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The turn and the move that lead from places in the frame to places in the photograph, by least squares."""
    goal, five = GOAL * side, five_of(points)
    source, target = goal - goal.mean(0), five - five.mean(0)
    scale = (source**2).sum()
    a = (source * target).sum() / scale
    b = (source[:, 0] * target[:, 1] - source[:, 1] * target[:, 0]).sum() / scale
    turn = np.array([[a, -b], [b, a]])
    return turn, five.mean(0) - turn @ goal.mean(0)


def framed(photo: NDArray[np.uint8], points: NDArray[Any], side: int) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """A photograph H×W×3 in the frame, and its landmarks there; edges of the photograph are continued."""
    from scipy.ndimage import map_coordinates

    turn, move = similarity(points, side)
    y, x = np.mgrid[:side, :side].astype(np.float64)
    place = np.stack([x, y], -1) @ turn.T + move
    grey = photo.astype(np.float32)
    if (step := float(np.hypot(*turn[0]))) > 1:  # the photograph is larger than the frame
        from scipy.ndimage import gaussian_filter

        grey = gaussian_filter(grey, (0.5 * (step - 1), 0.5 * (step - 1), 0))
    rows = [place[..., 1], place[..., 0]]
    out = np.stack([map_coordinates(grey[..., c], rows, order=1, mode="nearest") for c in range(3)], -1)
    return np.clip(np.rint(out), 0, 255).astype(np.uint8), (points - move) @ np.linalg.inv(turn).T
