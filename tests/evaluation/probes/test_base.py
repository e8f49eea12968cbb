"""The pairs attackers are scored on."""

from __future__ import annotations

import numpy as np

from tests.evaluation.probes.attacks.hospital import exhibit
from updp.evaluation.probes.base import all_pairs, balanced_pairs, by_patient, own_pairs, roc_points, within

PATIENTS = np.array(["b", "a", "a", "c", "b", "a", "d"])
ROWS = np.arange(7)


def test_rows_are_grouped_by_patient():
    assert [rows.tolist() for rows in by_patient(PATIENTS, ROWS)] == [[1, 2, 5], [0, 4], [3], [6]]
    assert by_patient(PATIENTS, np.array([], int)) == []


def test_balanced_pairs_hold_as_many_of_one_patient_as_of_two_and_never_a_film_with_itself():
    pairs = balanced_pairs(PATIENTS, ROWS, np.random.default_rng(0), 10, ordered=True)
    assert pairs.same.sum() == 8
    assert (~pairs.same).sum() == 8
    assert ((PATIENTS[pairs.left] == PATIENTS[pairs.right]) == pairs.same).all()
    assert (pairs.left != pairs.right).all()
    few = balanced_pairs(PATIENTS, ROWS, np.random.default_rng(0), 1, ordered=False)
    assert few.same.sum() == 2


def test_own_pairs_match_each_film_with_itself_and_with_another_patient():
    pairs = own_pairs(PATIENTS, ROWS, np.random.default_rng(0), 10)
    assert (pairs.left[pairs.same] == pairs.right[pairs.same]).all()
    assert sorted(pairs.left[pairs.same]) == list(range(7))
    assert (PATIENTS[pairs.left[~pairs.same]] != PATIENTS[pairs.right[~pairs.same]]).all()


def test_all_pairs_are_all_of_them_until_there_are_too_many():
    pairs = all_pairs(PATIENTS, ROWS, np.random.default_rng(0), 1000, ordered=False)
    assert len(pairs.left) == 21
    assert pairs.same.sum() == 4
    fewer = all_pairs(PATIENTS, ROWS, np.random.default_rng(0), 6, ordered=False)
    assert (~fewer.same).sum() == 6
    assert fewer.same.sum() == 3


def test_a_curve_is_thinned_and_keeps_its_ends():
    rng = np.random.default_rng(0)
    same = rng.random(5000) < 0.5
    points = roc_points(same, rng.normal(size=5000) + same)
    assert len(points) <= 60
    assert points[0] == [0.0, points[0][1]]
    assert points[-1] == [1.0, 1.0]
    assert roc_points(np.array([True, False]), np.zeros(2))[-1] == [1.0, 1.0]


def test_a_smaller_budget_keeps_whole_patients_and_both_sides():
    everything = exhibit(patients=40, films=2, size=16)
    some = within(everything, 40)
    assert len(some) <= 40
    assert len(some.rows("train")) == len(some.rows("val", "test")) == 20
    assert all(count == 2 for count in np.unique(some.patients, return_counts=True)[1])
    assert within(everything, 1000) is everything
