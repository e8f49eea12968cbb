"""Letters beside a painted line go with it; what is no letter of it stays."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from performance.marks import DEJAVU
from updp.screening.neighbours import with_neighbours


def film(*pieces: tuple[str, int], ink: float = 0.9, size: int = 18) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """A grey film with pieces of text on one line, and where each begins and ends."""
    sheet = Image.new("F", (300, 80), 0.3)
    font = ImageFont.truetype(DEJAVU, size)
    spans = []
    for text, x in pieces:
        ImageDraw.Draw(sheet).text((x, 30), text, fill=ink, font=font)
        spans.append((x, x + int(font.getlength(text))))
    return np.asarray(sheet, dtype=np.float32), spans


@pytest.mark.parametrize("ink", [0.9, 0.02])
@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_an_initial_behind_a_space_belongs_to_the_line_however_it_is_turned(ink, turn):
    pixels, [(start, end), (begin, close)] = film(("SARGSYAN", 60), ("V", 170), ink=ink)
    hidden = np.zeros(pixels.shape, bool)
    hidden[28:54, start - 4 : end + 4] = True
    pixels, hidden = np.ascontiguousarray(np.rot90(pixels, turn)), np.rot90(hidden, turn)
    rows, columns = (np.flatnonzero(hidden.any(axis=axis)) for axis in (1, 0))
    box = (int(columns[0]), int(rows[0]), int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1)
    x, y, w, h = with_neighbours(pixels, box)
    covered = np.zeros(pixels.shape, bool)
    covered[y : y + h, x : x + w] = True
    assert np.rot90(covered, -turn)[34:48, begin + 2 : close - 2].all()


def test_several_letters_apart_are_followed_one_by_one():
    pixels, spans = film(("SARGSYAN", 20), ("V", 130), ("A", 160), ("K", 190))
    x, _, w, _ = with_neighbours(pixels, (16, 28, spans[0][1] - 12, 26))
    assert x + w >= spans[-1][1] - 2


@pytest.mark.parametrize(
    "shape",
    [np.s_[0:80, 170:174], np.s_[40:43, 170:300], np.s_[38:42, 250:256], np.s_[2:26, 170:200]],
    ids=["a wire across", "a wire along", "far away", "above the line"],
)
def test_what_is_no_letter_of_the_line_leaves_the_box_as_it_is(shape):
    pixels, [(start, end)] = film(("SARGSYAN", 60))
    pixels = pixels.copy()
    pixels[shape] = 0.9
    box = (start - 4, 28, end - start + 8, 26)
    assert with_neighbours(pixels, box) == box


def test_a_box_without_ink_or_at_the_rim_of_the_film_stays_as_it_is():
    pixels = np.full((40, 60), 0.3, np.float32)
    assert with_neighbours(pixels, (10, 10, 30, 10)) == (10, 10, 30, 10)
    assert with_neighbours(pixels, (0, 0, 60, 40)) == (0, 0, 60, 40)


def test_a_box_as_high_as_wide_does_not_grow():
    pixels, _ = film(("S", 60), ("A", 80), ("R", 100))
    assert with_neighbours(pixels, (58, 28, 16, 22)) == (58, 28, 16, 22)
