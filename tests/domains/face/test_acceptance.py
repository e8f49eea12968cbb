"""Which photographs are records of the domain, and with what reason others are not."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tests.domains.face.photographs import PHOTOS, drawing, face, unit
from updp.core.reasons import Reason, Refused
from updp.domains.face import acceptance


def reason(image: Image.Image, *labels: str) -> Reason | None:
    try:
        acceptance.accepted(unit(image), labels)
    except Refused as refused:
        return refused.reason
    return None


def canvas(*tiles: Image.Image, height: int = 256) -> Image.Image:
    out = Image.new("RGB", (sum(tile.width for tile in tiles), height), (90, 120, 90))
    left = 0
    for tile in tiles:
        out.paste(tile, (left, 0))
        left += tile.width
    return out


@pytest.mark.parametrize("number", [0, 20, 50])
def test_one_frontal_face_is_accepted_with_its_landmarks(number):
    found = acceptance.accepted(unit(face(number)), ())
    assert found.points.shape == (106, 2)
    assert 40 < found.between_eyes < 90
    assert (found.points > 0).all()
    assert (found.points < 256).all()


@pytest.mark.parametrize("size", [(200, 300), (900, 700)])
def test_a_photograph_need_not_be_square_nor_small(size):
    wide = Image.new("RGB", size, (100, 110, 120))
    wide.paste(face(3).resize((180, 180)), (10, 10))
    assert reason(wide) is None


def test_without_a_face_there_is_no_record():
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 255, (200, 200, 3), dtype=np.uint8))
    assert reason(noise) is Reason.FACE_NONE
    assert reason(drawing()) is Reason.FACE_NONE


def test_a_second_person_in_the_picture_is_refused_however_small():
    assert reason(canvas(face(1), face(2))) is Reason.FACE_SEVERAL
    assert reason(canvas(face(1), face(2).resize((128, 128)))) is Reason.FACE_SEVERAL


def test_a_face_of_few_pixels_is_refused():
    far = Image.new("RGB", (300, 300), (90, 120, 90))
    far.paste(face(4).resize((88, 88)), (100, 100))
    assert reason(far) is Reason.FACE_TOO_SMALL


def test_a_turned_head_and_dark_glasses_are_refused():
    assert reason(Image.open(PHOTOS / "turned.jpg")) is Reason.FACE_PROFILE
    assert reason(Image.open(PHOTOS / "sunglasses.jpg")) is Reason.EYES_HIDDEN


def test_closed_eyes_are_refused_where_the_label_needs_them_open(monkeypatch):
    monkeypatch.setattr(acceptance, "opening", lambda points, eye: 0.05)
    assert reason(face(0), "Strabismus", "mid") is Reason.EYES_CLOSED
    assert reason(face(0), "Ptosis") is None
    assert reason(face(0)) is None


def test_without_the_extra_the_error_names_it(monkeypatch):
    import importlib.util

    from updp.domains.face import finder

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(finder.FinderMissing, match=r"pip install 'updp\[face\]'"):
        finder.model_folder()
