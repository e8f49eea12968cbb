"""Signs that are measured on an eye of a photograph: where the iris stands, how red the white of the eye is.

Both look at the opening between the lids only. They need no network beside the landmarks, so that a rendered sign, a
released photograph and a recovered one are measured alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from updp.domains.face.landmarks import Eye

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Radius of the iris over the width of the eye: 5.9 of 30 mm.
IRIS = 0.2
#: The centre of the iris is looked for within this share of the eye's width, in this many steps to either side.
_REACH, _STEPS = 0.3, 24


def frame(
    points: NDArray[Any], eye: Eye
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    """Middle of an eye, the directions along it (towards the inner corner) and down, and its width."""
    outer, inner = points[eye.outer].astype(np.float64), points[eye.inner].astype(np.float64)
    width = max(float(np.linalg.norm(inner - outer)), 1e-6)
    along = (inner - outer) / width
    down = np.array([-along[1], along[0]])
    return (outer + inner) / 2, along, down if down[1] > 0 else -down, width


def coordinates(
    shape: tuple[int, ...], points: NDArray[Any], eye: Eye
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every pixel in the eye's own frame: along it and down, in widths of the eye from its middle."""
    middle, along, down, width = frame(points, eye)
    y, x = np.mgrid[: shape[0], : shape[1]].astype(np.float64)
    dx, dy = x - middle[0], y - middle[1]
    return (dx * along[0] + dy * along[1]) / width, (dx * down[0] + dy * down[1]) / width


def margins(points: NDArray[Any], eye: Eye, at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The margins of the upper and lower lid in the eye's frame, at places along it."""
    middle, along, down, width = frame(points, eye)

    def curve(rows: tuple[int, ...]) -> NDArray[np.float64]:
        own = points[list(rows)] - middle
        s, t = own @ along / width, own @ down / width
        order = np.argsort(s)
        return np.interp(at, s[order], t[order], left=0.0, right=0.0)

    upper = curve((eye.outer, *eye.upper, eye.inner))
    lower = curve((eye.outer, *eye.lower, eye.inner))
    return np.minimum(upper, lower), np.maximum(upper, lower)


def between_lids(shape: tuple[int, ...], points: NDArray[Any], eye: Eye) -> NDArray[np.bool_]:
    """The pixels of an eye's opening."""
    s, t = coordinates(shape, points, eye)
    upper, lower = margins(points, eye, s)
    return (np.abs(s) <= 0.5) & (t >= upper) & (t <= lower)


def iris(photo: NDArray[Any], points: NDArray[Any], eye: Eye) -> tuple[float, float]:
    """The centre of the iris in the eye's frame: where a disc of its size is darkest against the rest of the eye."""
    s, t = coordinates(photo.shape, points, eye)
    inside = between_lids(photo.shape, points, eye)
    if inside.sum() < 8:
        return 0.0, 0.0
    # Blood does not darken red: an inflamed eye is not taken for a part of the iris.
    dark = 1 - photo[..., 0].astype(np.float64)
    s, t, dark = s[inside], t[inside], dark[inside]
    centre = float(np.median(t))
    best, place = -np.inf, 0.0
    for step in range(-_STEPS, _STEPS + 1):
        candidate = _REACH * step / _STEPS
        # Soft edges, so that the place does not jump from pixel to pixel.
        within = np.clip((IRIS - np.hypot(s - candidate, t - centre)) / 0.04 + 0.5, 0, 1)
        if within.sum() < 2 or (1 - within).sum() < 2:
            continue
        gain = np.average(dark, weights=within) - np.average(dark, weights=1 - within)
        if gain > best:
            best, place = gain, candidate
    return place, centre


def iris_offset(photo: NDArray[Any], points: NDArray[Any], eye: Eye) -> float:
    """How far the iris is off the middle of the eye towards the inner corner, in widths of the eye."""
    return iris(photo, points, eye)[0]


def redness(photo: NDArray[Any], points: NDArray[Any], eye: Eye) -> float:
    """How red the white of the eye is: the mean of (red - green) over brightness outside the iris."""
    s, t = coordinates(photo.shape, points, eye)
    place = iris(photo, points, eye)
    white = between_lids(photo.shape, points, eye) & (np.hypot(s - place[0], t - place[1]) > 1.1 * IRIS)
    if not white.any():
        return 0.0
    own = photo[white].astype(np.float64)
    return float(((own[:, 0] - own[:, 1]) / np.maximum(own.mean(1), 0.05)).mean())
