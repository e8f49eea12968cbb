"""Every rendered sign is measured: lid opening, place of the iris, redness, area of the mask."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from tests.domains.face.photographs import FACES, face, unit
from updp.domains.face import manifestations
from updp.domains.face.labels import DISEASES, GRADES, UNSEEN
from updp.domains.face.landmarks import EYES, opening
from updp.domains.face.manifestations import BOTH, DRAW, Rendered, Sign, render
from updp.domains.face.signs import frame, iris_offset, redness

PEOPLE = (5, 12, 40)
#: Diseases whose mask is a tumour.
TUMOURS = ("BCC", "SCC", "Eyelid_Nevus")
EYE = EYES["left"]


@cache
def landmarks(number: int) -> np.ndarray:
    return np.load(FACES / "landmarks.npz")["points"][number].astype(np.float64)


@cache
def shown(disease: str, grade: str | None, number: int, side: str = "left", inwards: bool = True) -> Rendered:
    sign = None if grade is None else Sign(disease, grade, side, 7, inwards)
    return render(unit(face(number)), landmarks(number), sign)


def by_grade(disease: str, measured, number: int) -> list[float]:
    """A measure without the disease and in its three grades."""
    return [measured(shown(disease, grade, number)) for grade in (None, *GRADES)]


def rising(values: list[float]) -> bool:
    return all(a < b for a, b in itertools.pairwise(values))


def test_every_disease_of_the_domain_can_be_drawn():
    assert set(DRAW) == {*DISEASES, *UNSEEN}
    assert BOTH | set(TUMOURS) <= set(DRAW)


@pytest.mark.parametrize("number", PEOPLE)
def test_ptosis_covers_the_share_of_the_opening_that_its_grade_says(number):
    values = by_grade("Ptosis", lambda made: opening(made.points, EYE), number)
    for share, value in zip(manifestations.COVERED, values[1:], strict=True):
        assert value == pytest.approx((1 - share) * values[0], rel=0.04)  # the corners do not move


@pytest.mark.parametrize("number", PEOPLE)
def test_retraction_opens_both_eyes_more_with_its_grade(number):
    for eye in EYES.values():
        assert rising(by_grade("TAO", lambda made, eye=eye: opening(made.points, eye), number))


def test_a_detector_that_knows_nothing_of_the_rendering_sees_the_lids_move():
    from updp.domains.face.finder import find_faces

    def seen(made: Rendered) -> float:
        return opening(find_faces(np.round(made.pixels * 255).astype(np.uint8))[0].points, EYE)

    number = PEOPLE[0]
    normal = seen(shown("Ptosis", None, number))
    assert seen(shown("Ptosis", "heavy", number)) < 0.94 * normal
    assert seen(shown("TAO", "heavy", number)) > 1.06 * normal


@pytest.mark.parametrize("number", PEOPLE[1:])  # the first person looks aside
@pytest.mark.parametrize("inwards", [True, False])
def test_a_deviating_eye_has_its_iris_moved_by_what_its_grade_says(number, inwards):
    before = iris_offset(shown("Strabismus", None, number).pixels, landmarks(number), EYE)
    for grade, shift in zip(GRADES, manifestations.DEVIATION, strict=True):
        after = iris_offset(shown("Strabismus", grade, number, "left", inwards).pixels, landmarks(number), EYE)
        assert after - before == pytest.approx(shift if inwards else -shift, abs=0.06)
    other = EYES["right"]
    assert iris_offset(shown("Strabismus", "heavy", number).pixels, landmarks(number), other) == pytest.approx(
        iris_offset(shown("Strabismus", None, number).pixels, landmarks(number), other)
    )


@pytest.mark.parametrize("number", PEOPLE)
@pytest.mark.parametrize("disease", ["Conjunctivitis", "Uveitis", "Entropion"])
def test_inflamed_eyes_are_redder_with_their_grade(number, disease):
    values = by_grade(disease, lambda made: redness(made.pixels, made.points, EYE), number)
    assert rising(values)


@pytest.mark.parametrize("disease", TUMOURS)
def test_the_mask_of_a_tumour_has_the_area_of_its_radius(disease):
    radii = {"BCC": "BCC_RADIUS", "SCC": "SCC_RADIUS", "Eyelid_Nevus": "NEVUS_RADIUS"}
    for number in PEOPLE:
        width = frame(landmarks(number), EYE)[3]
        for grade, radius in zip(GRADES, getattr(manifestations, radii[disease]), strict=True):
            area = shown(disease, grade, number).mask.sum()
            # A rough outline and pixels of a small eye: within a third, and a few pixels.
            assert area == pytest.approx(np.pi * (radius * width) ** 2, rel=0.33, abs=6)


@pytest.mark.parametrize("disease", list(DRAW))
def test_nothing_outside_the_eye_is_touched_and_the_mask_is_where_the_change_is(disease):
    number = PEOPLE[1]
    before, made = unit(face(number)), shown(disease, "heavy", number)
    change = np.abs(made.pixels - before).max(-1)
    sides = ("left", "right") if disease in BOTH else ("left",)
    y, x = np.mgrid[:256, :256]
    near = np.zeros((256, 256), bool)
    for side in sides:
        middle, _, _, width = frame(landmarks(number), EYES[side])
        near |= np.hypot(x - middle[0], y - middle[1]) < 1.3 * width
    assert change[~near].max() == 0
    assert made.mask.any()
    assert not made.mask[~near].any()
    assert change[made.mask].mean() > 5 * change[near & ~made.mask].mean()


def test_the_same_sign_is_drawn_alike_and_another_seed_otherwise():
    one, same = (render(unit(face(5)), landmarks(5), Sign("SCC", "mid", "left", 3)) for _ in range(2))
    other = render(unit(face(5)), landmarks(5), Sign("SCC", "mid", "left", 4))
    assert np.array_equal(one.pixels, same.pixels)
    assert not np.array_equal(one.pixels, other.pixels)
