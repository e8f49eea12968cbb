"""What a privacy budget buys: every budget of every variant, between chance and certainty."""

import json

import pytest

from tests.conftest import Hospital
from tests.methods.tiny import tiny_pack
from updp.bench import epsilon
from updp.bench.tables import read_rows


@pytest.fixture
def source(tmp_path):
    hospital = Hospital(tmp_path / "export", films=6)
    for row in hospital.rows:
        row["split"] = "val"
    return hospital.write()


def test_every_budget_is_measured_between_the_two_ends(source, tmp_path, monkeypatch):
    monkeypatch.setattr(epsilon, "EPSILONS", (1.0, 1000.0))
    variants = (epsilon.VARIANTS[0] | {"clip": 1.0}, epsilon.VARIANTS[-1] | {"steps": 2, "length": 6})
    monkeypatch.setattr(epsilon, "VARIANTS", variants)
    pack = str(tiny_pack(tmp_path / "tiny"))
    rows = epsilon.bench_epsilon([source], tmp_path / "out", pack=pack, judge=pack, films=6, say=lambda line: None)
    assert [row.epsilon for row in rows] == [1.0, 1000.0] * 2
    assert {row.films for row in rows} == {6}
    one_word = rows[:2]
    assert one_word[0].epsilon_word == pytest.approx(1.0)
    # So large a budget draws the best word, as no privacy at all does.
    assert one_word[1].kept.value == pytest.approx(1.0, abs=1e-6)
    assert one_word[0].kept.value != pytest.approx(1.0, abs=1e-6)
    # The judge is the same vlm here, so it must agree.
    assert all(row.judge.value == pytest.approx(row.score.value, abs=1e-3) for row in rows)
    written = json.loads((tmp_path / "out/epsilon.json").read_text())
    assert read_rows(epsilon.Row, written["rows"]) == rows
    assert written["about"]["pack"]["role"] == "vlm"
    assert (tmp_path / "out/epsilon.md").read_text().count("\n") == 6
    assert (tmp_path / "out/epsilon.png").stat().st_size > 1000


def test_sources_without_a_validation_film_are_said_so(tmp_path):
    hospital = Hospital(tmp_path / "export", films=2)
    for row in hospital.rows:
        row["split"] = "train"
    with pytest.raises(ValueError, match="no validation film"):
        epsilon.bench_epsilon([hospital.write()], tmp_path / "out")
