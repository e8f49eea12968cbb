"""Letters beside a line that is painted: an initial behind a wide space, a sign the detector left outside its box.

A detector draws its box around the letters that stand together. What stands beside them at the same height, as strong
and as large as a letter, belongs to the same line, whoever can read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from updp.screening.painting import Rect

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How many letters are added at each end, one behind the other.
MOST = 4
#: The widest gap before a further letter, in heights of a letter.
GAP = 1.5
#: The least contrast of a further letter, as a share of that of the line.
STRENGTH = 0.4
#: A line whose ink is fainter than this has no neighbours that could be distinguished from grain.
FAINT = 0.02


def with_neighbours(film: NDArray[np.float32], rect: Rect) -> Rect:
    """A box and the letters beside it, along the line; a box about as high as wide has no direction and stays."""
    _, _, w, h = rect
    turns = (0, 2) if w > 1.5 * h else (1, 3) if h > 1.5 * w else ()
    letter = max(6, round(min(w, h) / 1.5))  # the rim of a box is a quarter of the letters at each side
    for turn in turns:
        for _ in range(MOST):
            wider = _one_more(film, rect, turn, letter)
            if wider is None:
                break
            rect = wider
    return rect


def _one_more(film: NDArray[np.float32], rect: Rect, turn: int, letter: int) -> Rect | None:
    """The box with the letter that stands next to it, to the right after ``turn`` quarter turns, or ``None``."""
    import cv2

    height, width = film.shape
    x, y, w, h = rect
    reach, rim = round((GAP + 1.5) * letter), round(0.4 * letter)
    left, right, top, bottom = {
        0: (x, x + w + reach, y - rim, y + h + rim),
        2: (x - reach, x + w, y - rim, y + h + rim),
        1: (x - rim, x + w + rim, y - reach, y + h),
        3: (x - rim, x + w + rim, y, y + h + reach),
    }[turn]
    left, top, right, bottom = max(0, left), max(0, top), min(width, right), min(height, bottom)
    window = np.ascontiguousarray(film[top:bottom, left:right], dtype=np.float32)
    if min(window.shape) < 4:
        return None
    size = 2 * letter + 1
    away = window - cv2.blur(cv2.blur(window, (size, size)), (size, size))
    inside = away[max(0, y - top) : y - top + h, max(0, x - left) : x - left + w]
    if inside.size == 0:
        return None
    sign = 1.0 if float((inside**3).mean()) >= 0 else -1.0
    ink = sign * away
    level = float(np.percentile(sign * inside, 95))
    if level < FAINT:
        return None
    mask = (ink > STRENGTH * level).astype(np.uint8)
    mask[max(0, y - top) : y - top + h, max(0, x - left) : x - left + w] = 0
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    for a, b, wide, high, area in stats[1:count].tolist():
        gap = {0: left + a - (x + w), 2: x - (left + a + wide), 1: y - (top + b + high), 3: top + b - (y + h)}[turn]
        along, over = (wide, high) if turn in (0, 2) else (high, wide)
        whole = (
            (a > 0 or left == 0)
            and (b > 0 or top == 0)
            and (a + wide < mask.shape[1] or right == width)
            and (b + high < mask.shape[0] or bottom == height)
        )  # what reaches over the window's edge is larger than a letter
        if not whole or gap < 0 or gap > GAP * letter or area < 4:
            continue
        if not 0.3 * letter <= over <= 1.5 * letter or along > 1.5 * letter:
            continue
        x0, y0, x1, y1 = min(x, left + a - 2), min(y, top + b - 2), left + a + wide + 2, top + b + high + 2
        x1, y1 = max(x + w, x1), max(y + h, y1)
        x0, y0, x1, y1 = max(0, x0), max(0, y0), min(width, x1), min(height, y1)
        return x0, y0, x1 - x0, y1 - y0
    return None
