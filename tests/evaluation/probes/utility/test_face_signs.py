"""Judges of the eyes, and landmarks: perfect where nothing changed, nothing left where everything is grey."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.probes.sitters import EACH, exhibit, known_faces, photographs
from updp.core.cache import MemoryCache
from updp.core.measurement import find
from updp.domains.face import finder
from updp.evaluation.probes.base import Budget
from updp.evaluation.probes.utility import face_signs
from updp.evaluation.probes.utility.diagnosis import KEPT

BUDGET = Budget.quick().but(draws=60)


@pytest.fixture(autouse=True)
def _no_detector(monkeypatch):
    monkeypatch.setattr(finder, "find_faces", known_faces)


@pytest.fixture(scope="module")
def cache():
    return MemoryCache()


@pytest.fixture
def marked(monkeypatch):
    """Photographs in which the people labelled with a tumour have a red spot under the left eye."""
    monkeypatch.setattr(face_signs, "LEAST_STEPS", 60)
    photos = photographs().copy()
    for n, photo in enumerate(photos):
        if n // EACH % 2 == 0:
            x, y = known_faces(photo)[0].five[0].astype(int)
            photo[y + 3 : y + 9, x - 4 : x + 4] = (200, 20, 20)
    return photos


def test_a_judge_learns_from_an_untouched_release_what_it_learns_from_real_photographs(cache, marked):
    shown = exhibit(marked).but(real=marked)
    found = face_signs.FaceDiagnosis().run(shown, None, BUDGET, np.random.default_rng(0), cache)
    assert find(found, "diagnosis AUC", regime=face_signs.REAL_REAL).value > 0.9
    assert find(found, "diagnosis AUC", regime=face_signs.REAL_REAL).detail["each"]["BCC"]["auc"] > 0.9
    assert find(found, KEPT, regime=face_signs.RELEASED_REAL).value == pytest.approx(1.0)
    assert find(found, face_signs.AGREE, regime="BCC") is not None


def test_a_release_without_signs_teaches_nothing(cache, marked):
    grey = np.full_like(marked, 120)
    shown = exhibit(grey).but(real=marked)
    found = face_signs.FaceDiagnosis().run(shown, None, BUDGET, np.random.default_rng(0), cache)
    assert find(found, KEPT, regime=face_signs.RELEASED_REAL).value < 0.6


def test_landmarks_of_an_untouched_release_are_where_they_were(cache):
    found = face_signs.FaceLandmarks().run(exhibit(photographs()), None, BUDGET, np.random.default_rng(0), cache)
    assert find(found, "face found").value == 1.0
    for metric in ("landmark error, eyes", "landmark error, mouth", "gaze error", "lid opening error"):
        assert find(found, metric).value == 0


def test_where_no_face_is_left_no_landmark_is_measured(cache):
    grey = np.full_like(photographs(), 120)
    found = face_signs.FaceLandmarks().run(exhibit(grey), None, BUDGET, np.random.default_rng(0), cache)
    assert find(found, "face found").value == 0
    assert "too few people whose released face is found" in find(found, "landmark error, eyes").reason
