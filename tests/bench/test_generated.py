"""Table 3 and Figures 4 and 5 on generated films: both readings, resumable."""

import json

import pytest

from tests.conftest import Hospital, sweep
from tests.methods.tiny import tiny_pack
from updp.bench import generated
from updp.bench.tables import read_rows
from updp.evaluation.evaluate import pack_facts
from updp.methods.updp.searches import PromptSearch
from updp.models import load_pack


def test_every_setting_of_the_tables_is_one_that_updp_takes():
    for _, _, options in generated.settings():
        PromptSearch.read({"check": False, **options})


@pytest.fixture
def few(monkeypatch):
    starts = {name: generated.STARTS[name] for name in ("raw report", "raw report + UPDP, as printed")}
    monkeypatch.setattr(generated, "STARTS", starts)
    monkeypatch.setattr(generated, "READINGS", {"default": {"steps": 2, "sampler_steps": 2}})
    monkeypatch.setattr(generated, "LENGTHS", (4,))
    monkeypatch.setattr(generated, "ITERATIONS", (1, 2))


def test_films_are_generated_scored_and_compared_and_a_second_call_resumes(few, tmp_path, monkeypatch):
    hospital = Hospital(tmp_path / "export", films=4)
    for row in hospital.rows:
        row["split"] = "val"
    source, pack = hospital.write(), str(tiny_pack(tmp_path / "tiny"))
    out = tmp_path / "out"

    def run():
        return generated.bench_generated([source], out, pack=pack, judge=pack, films=4, say=lambda line: None)

    rows = run()
    assert [row.setting for row in rows] == ["raw report", "raw report + UPDP, as printed", "4", "1", "2"]
    for row in rows:
        assert row.films == 4
        assert row.score.low <= row.score.value <= row.score.high
        # The judge is the same vlm here, so it must agree.
        assert row.judge.value == pytest.approx(row.score.value, abs=1e-2)
        assert 0 <= row.ssim.value < 1
    assert rows[0].loss is None
    assert all(0 < row.loss < 2 for row in rows[1:])
    text = (out / "generated.md").read_text()
    assert "41.10 [31.44, 47.19]" in text
    assert "Content iterations (Figure 4), default" in text
    assert (out / "generated-iterations.png").stat().st_size > 1000
    written = json.loads((out / "generated.json").read_text())
    assert read_rows(generated.Row, written["rows"]) == rows
    # Films depend on the whole pack, so that is what they name.
    assert written["about"]["pack"] == pack_facts(load_pack(pack))
    assert sweep(out) == []

    def unexpected(*args):
        raise AssertionError("a setting that was measured is not measured again")

    monkeypatch.setattr(generated._Bench, "_figures", unexpected)
    assert run() == rows
