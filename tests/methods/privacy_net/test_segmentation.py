"""Lung fields from real films, and the Dice coefficient."""

import numpy as np
import pytest
import torch

from updp.methods.privacy_net.segmentation import SIDE, Segmenter, dice, lungs, otsu

pytestmark = pytest.mark.numeric


def chest(side=128, lungs_there=True):
    """Two dark ellipses in a bright body, and a dark frame that is no lung."""
    y, x = np.mgrid[0:side, 0:side] / side - 0.5
    film = np.full((side, side), 0.8, np.float32)
    if lungs_there:
        for centre in (-0.2, 0.2):
            film[((x - centre) / 0.13) ** 2 + (y / 0.3) ** 2 < 1] = 0.2
    film[:, :6] = 0.0
    return torch.from_numpy(film)[None, None]


def test_lungs_are_the_two_dark_regions_inside():
    mask = lungs(chest())[0, 0]
    assert mask[SIDE // 2, round(SIDE * 0.3)] == 1
    assert mask[SIDE // 2, round(SIDE * 0.7)] == 1
    assert mask[:, 0].sum() == 0
    assert float(mask.mean()) == pytest.approx(2 * np.pi * 0.13 * 0.3, abs=0.06)


def test_a_film_without_lungs_has_no_mask_and_no_say():
    masks = lungs(torch.cat([chest(), chest(lungs_there=False)]))
    assert not masks[1].any()
    assert len(dice(torch.zeros(2, 1, SIDE, SIDE), masks)) == 1


def test_dice_is_one_for_the_mask_and_nought_for_its_negative():
    masks = lungs(chest())
    assert float(dice(40 * (masks - 0.5), masks)[0]) == pytest.approx(1, abs=1e-3)
    assert float(dice(40 * (0.5 - masks), masks)[0]) == pytest.approx(0, abs=1e-3)


def test_the_threshold_lies_between_two_grey_values():
    film = np.where(np.arange(64 * 64).reshape(64, 64) % 3 == 0, 0.2, 0.9).astype(np.float32)
    assert 0.2 < otsu(film) < 0.9


def test_a_segmenter_learns_to_find_lungs():
    torch.manual_seed(0)
    model, films = Segmenter(8, 2), chest()
    masks = lungs(films)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    before = float(dice(model(films), masks).mean().detach())
    for _ in range(20):
        optimiser.zero_grad()
        (1 - dice(model(films), masks).mean()).backward()
        optimiser.step()
    assert float(dice(model(films), masks).mean()) > before + 0.1
