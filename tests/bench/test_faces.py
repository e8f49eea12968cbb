"""The bench of faces: figures of a small clinic of invented people, by networks of a few channels."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.training import small_faces
from updp.bench import faces
from updp.core.record import Study
from updp.domains.face.frame import GOAL
from updp.domains.face.landmarks import named
from updp.evaluation.cohort.settings import Setting
from updp.evaluation.probes.photographs import Found

pytestmark = pytest.mark.numeric
PEOPLE = 12


def colours(name, films):
    """A recogniser of mean colours."""
    found = films.reshape(len(films), 4, -1, 4, films.shape[2] // 4, 3).mean((2, 4)).reshape(len(films), -1)
    found = found - found.mean(1, keepdims=True)
    return (found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)).astype(np.float32)


def visits(start: int) -> faces.Visits:
    films, points = small_faces.invented(start + PEOPLE)
    films, points = films[start:], points[start:]
    people = np.array([f"0/{start + n:02d}" for n in range(PEOPLE)])
    studies = [
        Study(f"visit-{n}", f"visit-{n}", who, pixels=film.astype(np.float32) / np.float32(255),
              landmarks=named(own, film.shape), view="FRONTAL")
        for n, (who, film, own) in enumerate(zip(people, films, points, strict=True))
    ]  # fmt: skip
    masks = np.zeros(films.shape[:3], bool)
    masks[:, 12:16, 8:12] = True
    return faces.Visits(studies, people, films, masks, np.arange(PEOPLE) % len(faces.CLASSES))


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setattr(faces, "features", colours)
    monkeypatch.setattr(faces.recognisers, "available", lambda: ("colours",))
    monkeypatch.setattr(faces, "_perceptual", lambda truth, found: None)

    def found(films, cache, like=None):
        points = np.repeat(small_faces.invented(1)[1], len(films), 0)
        fives = np.repeat(GOAL[None] * films.shape[1], len(films), 0)
        return Found(fives, points, np.ones(len(films), bool))

    monkeypatch.setattr("updp.evaluation.probes.photographs.find_all", found)
    seen = visits(0)
    clinic = faces.Clinic(seen, seen.films, seen.people, visits(PEOPLE))
    return faces.Bench(clinic, small_faces.pack(tmp_path / "tiny-faces"), seed=0, steps=2)


def test_what_is_kept_is_found_again_and_what_is_blurred_away_is_further_off(bench):
    kept = bench.measured(Setting("keep"))
    assert kept["identity"]["colours"]["ID distance"][0] == pytest.approx(0, abs=1e-3)
    assert kept["identity"]["colours"]["match"] == [1.0, 1.0, 1.0]
    assert kept["landmarks"]["eyes"] == [0.0, 0.0, 0.0]
    assert kept["diseases"]["frozen"].keys() == {"All", *faces.CLASSES}
    blurred = bench.measured(Setting("blur", (), 1.0))
    assert blurred["identity"]["colours"]["ID distance"][0] > 0.01
    assert "recovery" not in blurred


def test_an_original_comes_back_with_its_password_alone(bench):
    found = bench.measured(Setting("invented-face", (("side", 128),), 1.0))
    assert found["recovery"]["right"]["back"] == 1.0
    assert found["recovery"]["right"]["PSNR"][0] > 30
    assert found["recovery"]["near"] == found["recovery"]["wrong"] == {"back": 0.0}
    assert found["password bits"] == 256


def test_the_table_has_a_row_for_each_setting_and_the_paper_beside_the_default_strength(bench):
    measured = {"fit 1": bench.measured(Setting("keep")), "fit 0.5": bench.measured(Setting("keep"))}
    text = faces.markdown({"about": {"recognisers": ["colours"], "patients": PEOPLE}, "settings": measured})
    rows = [line for line in text.splitlines() if line.startswith("| fit 1 |")]
    assert len(rows) >= 8
    assert "54.21" in rows[0]
    assert "54.21" not in next(line for line in text.splitlines() if line.startswith("| fit 0.5 |"))


def test_a_second_call_measures_nothing_anew(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(faces, "take", lambda *given, **named: bench.clinic)
    monkeypatch.setattr("updp.models.load_pack", lambda name: bench.pack)
    monkeypatch.setattr(faces, "Bench", lambda *given: SimpleNamespace(measured=bench.measured))
    plans = [faces.MethodPlan(name="keep")]
    first = faces.bench_faces([tmp_path], tmp_path / "out", methods=plans, say=lambda line: None)
    monkeypatch.setattr(faces, "Bench", None)  # not asked for again
    again = faces.bench_faces([tmp_path], tmp_path / "out", methods=plans, say=lambda line: None)
    assert first == again == json.loads((tmp_path / "out" / "faces.json").read_text())
