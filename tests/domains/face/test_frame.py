"""The frame: eyes, nose and mouth come to their places, whatever the photograph's size and turn."""

from __future__ import annotations

import numpy as np
import pytest

from updp.domains.face.frame import GOAL, five_of, framed, similarity
from updp.domains.face.people import names, people


@pytest.mark.parametrize("side", [64, 128])
def test_the_five_points_come_near_their_places(side):
    for person in people(6):
        film, points = framed(person.photo, person.points, side)
        assert film.shape == (side, side, 3)
        assert np.abs(five_of(points) / side - GOAL).max() < 0.08


def test_a_turned_photograph_gives_the_same_frame():
    person = next(people(1))
    height, width = person.photo.shape[:2]
    turned = np.ascontiguousarray(np.rot90(person.photo))
    points = np.stack([person.points[:, 1], width - 1 - person.points[:, 0]], 1)
    one, other = framed(person.photo, person.points, 96)[0], framed(turned, points, 96)[0]
    assert np.abs(one.astype(int) - other).mean() < 2
    assert height == width


def test_the_similarity_leads_back_to_the_photograph():
    person = next(people(1))
    turn, move = similarity(person.points, 100)
    _, points = framed(person.photo, person.points, 100)
    assert np.allclose(points @ turn.T + move, person.points)


def test_people_are_the_invented_ones_in_their_order():
    assert len(names()) == 77
    assert [person.name for person in people(3)] == [name for name, _ in names()[:3]]
