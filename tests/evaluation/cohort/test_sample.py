"""Controls of a bench: releases whose answer is known."""

import numpy as np
import pytest

from updp.core.record import Study
from updp.evaluation.cohort.sample import Sample, control
from updp.evaluation.cohort.settings import CONTROLS


@pytest.fixture
def sample():
    real = np.random.default_rng(7).integers(0, 256, (12, 8, 8), dtype=np.uint8)
    studies = [Study(f"s{i}", f"f{i}", f"p{i // 2}") for i in range(12)]
    texts, ages, sexes = [""] * 12, np.full(12, np.nan, np.float32), np.full(12, "")
    return Sample(studies, real, texts, texts, ages, sexes, "a digest", None)


def test_a_third_of_the_patients_leave_as_they_are_where_they_are_planted_and_nobody_in_noise(sample):
    def untouched(name):
        made = control(sample, name, 0)
        assert made.kept.all()
        same = (made.films == sample.real).all((1, 2))
        return {study.patient_id for study, whole in zip(sample.studies, same, strict=True) if whole}

    assert untouched("noise") == set()
    assert untouched("planted") == {"p0", "p3"}


def test_shuffled_films_are_the_same_films_of_other_patients(sample):
    films = control(sample, "shuffled", 0).films
    assert sorted(film.tobytes() for film in films) == sorted(film.tobytes() for film in sample.real)
    assert not np.array_equal(films, sample.real)


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_is_the_same_each_time_and_another_with_another_seed(sample, name):
    first, again, other = (control(sample, name, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.films, again.films)
    assert first.origin == again.origin != other.origin
    assert not np.array_equal(first.films, other.films)
