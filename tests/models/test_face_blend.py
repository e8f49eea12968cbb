"""Joining two faces: what is kept of the patient, and where."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.training.small_faces import invented
from updp.domains.face.frame import GOAL
from updp.models.face_blend import blend, kept_region, seen_region
from updp.training.face_stages import as_tensor

pytestmark = pytest.mark.numeric

SIDE = 64
FILMS = as_tensor(invented(4, SIDE)[0])
PATIENT, OTHER = FILMS[:2], FILMS[2:]


def strengths(value: float) -> torch.Tensor:
    return torch.full((2,), value)


def test_strength_0_keeps_the_photograph():
    assert torch.equal(blend(PATIENT, OTHER, strengths(0.0)), PATIENT)


def test_regions_are_nested_and_hold_the_eyes():
    regions = [kept_region(torch.tensor([value]), SIDE)[0, 0] for value in (0.2, 0.5, 1.0)]
    assert bool((regions[0] >= regions[1]).all())
    assert bool((regions[1] >= regions[2]).all())
    for x, y in np.rint(GOAL[:2] * SIDE).astype(int):
        assert regions[2][y, x] == 1
    assert regions[2].mean() < 0.12


def test_the_eyes_stay_pixel_by_pixel_and_the_chin_is_the_other_ones():
    made = blend(PATIENT, OTHER, strengths(1.0))
    for x, y in np.rint(GOAL[:2] * SIDE).astype(int):
        assert torch.equal(made[:, :, y, x], PATIENT[:, :, y, x])
    rows = slice(SIDE - 10, SIDE)
    # Colours are matched by one gain, so the lower part is the other face's up to a factor.
    ours, theirs = made[:, :, rows].flatten(2), OTHER[:, :, rows].flatten(2)
    lit = (ours > 0.02) & (ours < 0.98)
    for n in range(2):
        one, two = ours[n, 0][lit[n, 0]], theirs[n, 0][lit[n, 0]]
        assert np.corrcoef(one, two)[0, 1] > 0.98


def test_nothing_outside_the_ring_reaches_the_released_face():
    """The patient's mouth, chin and forehead do not enter: other pixels there, the same released face."""
    beyond = seen_region(strengths(1.0), SIDE) == 0
    changed = torch.where(beyond, 1 - PATIENT, PATIENT)
    assert beyond.float().mean() > 0.6
    assert torch.equal(blend(PATIENT, OTHER, strengths(1.0)), blend(changed, OTHER, strengths(1.0)))
