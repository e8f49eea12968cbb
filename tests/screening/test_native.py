from typing import Any

import numpy as np
import pytest
from pydicom.dataset import Dataset

from updp.core.native import Native
from updp.core.policy import BurnedInPolicy
from updp.core.reasons import Reason, Refused
from updp.screening.burned_in import Line, TextScreen
from updp.screening.native import NativeFilm

RECT = (20, 30, 60, 12)  # x, y, width, height


def header(**more: Any) -> Dataset:
    made = Dataset()
    made.PhotometricInterpretation, made.BitsStored = "MONOCHROME2", 12
    for name, value in more.items():
        setattr(made, name, value)
    return made


def film(inside: int, around: int, bits: int = 12, kind: type = np.uint16) -> Native:
    """A flat film with a bar at ``RECT``, a dark corner, and grain that differs by one."""
    values = np.full((120, 160), around, kind)
    values[:20, 120:] = 600
    values[::2] += 1
    x, y, w, h = RECT
    values[y : y + h, x : x + w] = inside
    return Native(values, bits)


class Reads:
    """A reader that sees the bar wherever it stands out from the film, and reads a name there."""

    def __init__(self) -> None:
        self.looks = 0

    def read(self, pixels: np.ndarray, *, thorough: bool) -> list[Line]:
        self.looks += 1
        x, y, w, h = RECT
        bar, around = pixels[y + 2 : y + h - 2, x + 2 : x + w - 2], pixels[90:, :]
        return [Line(RECT, "QUIBBLESWORTH", 0.99)] if abs(float(bar.mean() - around.mean())) > 0.01 else []


def test_text_is_painted_at_the_depth_of_the_file_and_nothing_else_changes():
    native = film(3900, 1000)
    screened, boxes = TextScreen(BurnedInPolicy(), Reads()).screen_film(NativeFilm(native, header()), ["Quibblesworth"])
    assert screened.native.values.dtype == np.uint16
    assert screened.native.bits == 12
    painted = np.zeros(native.values.shape, bool)
    for box in boxes:
        if box.painted:
            painted[box.y : box.y + box.h, box.x : box.x + box.w] = True
    assert 0 < painted.sum() < painted.size / 4
    assert np.array_equal(screened.native.values[~painted], native.values[~painted])
    assert screened.native.values[painted].max() < 1100


def test_a_name_that_the_window_hides_is_found_in_the_whole_range():
    shown = header(WindowCenter=1000, WindowWidth=1000)
    native = film(3900, 2500)  # both are white in this window
    assert np.ptp(NativeFilm(native, shown).views()[0][20:]) == 0
    reader = Reads()
    screened, boxes = TextScreen(BurnedInPolicy(), reader).screen_film(NativeFilm(native, shown))
    assert any(box.painted for box in boxes)
    assert screened.native.values.max() < 2700


def test_a_window_that_hides_nothing_is_looked_at_alone():
    views = NativeFilm(film(3900, 1000), header(WindowCenter=2048, WindowWidth=4096)).views()
    assert len(views) == 1


def test_a_film_that_nobody_may_read_is_not_rendered(monkeypatch):
    monkeypatch.setattr(NativeFilm, "views", lambda self: pytest.fail("looked at"))
    native = film(3900, 1000)
    screened, boxes = TextScreen(BurnedInPolicy(mode="off")).screen_film(NativeFilm(native))
    assert (screened.native, boxes) == (native, ())
    with pytest.raises(Refused) as refused:
        TextScreen(BurnedInPolicy(mode="header")).screen_film(NativeFilm(native))
    assert refused.value.reason is Reason.BURNED_IN_UNCHECKED
