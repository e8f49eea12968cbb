"""Codes on a film are found whether or not they decode; films without a code have none."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("zxingcpp")

from performance import marks
from updp.screening.codes import SMALL, find_codes
from updp.screening.painting import paint_out


def chest(side: int, seed: int = 5) -> np.ndarray:
    y, x = np.mgrid[0:side, 0:side].astype(np.float32) / side
    film = 0.75 - 0.5 * sum(np.exp(-(((x - c) / 0.16) ** 2 + ((y - 0.5) / 0.3) ** 2)) for c in (0.3, 0.7))
    film = film + 0.05 * np.sin(40 * y + 6 * np.abs(x - 0.5))
    return np.clip(film + np.random.default_rng(seed).normal(0, 0.008, film.shape), 0, 1).astype(np.float32)


def covered(rects, mark) -> float:
    """The share of a mark's box that lies in the places found."""
    seen = np.zeros(mark.ink.shape, dtype=bool)
    for x, y, w, h in rects:
        seen[max(0, y - mark.y) : max(0, y + h - mark.y), max(0, x - mark.x) : max(0, x + w - mark.x)] = True
    return float(seen.mean())


#: Every code on films that are decoded enlarged and on one too large for that, two codes on a film of full size.
CODES = [(turn, side) for turn in range(8) for side in (256, 1024, SMALL + 320)] + [(0, 3000), (5, 3000)]


@pytest.mark.parametrize(("turn", "side"), CODES)
@pytest.mark.parametrize("kind", ["matrix code", "bar code"])
def test_a_code_is_covered_and_no_longer_decodes(kind, turn, side):
    film = chest(side)
    mark = marks.mark(film, kind, np.random.default_rng((turn, side)), turn)[0]
    found = find_codes(film)
    assert covered(found, mark) > 0.5
    after = paint_out(film, found)
    assert not marks.decoded(mark, after)
    assert marks.left(mark, film, after) < marks.LEGIBLE


@pytest.mark.parametrize("name", ["QRCode", "DataMatrix", "Aztec"])
def test_a_code_too_damaged_to_decode_is_found_by_its_pattern(name):
    film = chest(512)
    ink = marks.code("MRN 48213377", name, 4.0)
    scratched = np.random.default_rng(2).random((ink.shape[0] // 4, ink.shape[1] // 4)) < 0.25
    ink = np.abs(ink - np.kron(scratched, np.ones((4, 4), dtype=np.float32)))
    mark = marks.label(film, ink, (200, 220), 0.6, name, "MRN 48213377")
    assert not marks.decoded(mark, film)
    assert covered(find_codes(film), mark) > 0.4


@pytest.mark.parametrize("side", [256, 512, 1500])
def test_a_film_with_ribs_grain_and_a_side_marker_has_no_code(side):
    film = chest(side)
    marks.stamp(film, marks.letters("L", marks.DEJAVU, side // 12), (side - side // 8, side // 20), 0.5, "marker")
    marks.stamp(film, marks.letters("PORTABLE AP", marks.DEJAVU, side // 30), (side // 20, side // 20), 0.5, "words")
    assert find_codes(film) == []
