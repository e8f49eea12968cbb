import json

import pytest

from tests.conftest import Hospital
from tests.methods.tiny import tiny_pack
from updp.bench import ablation
from updp.bench.tables import read_rows


def test_every_ablation_is_run_on_validation_films_and_written_down(tmp_path, monkeypatch):
    monkeypatch.setattr(ablation, "LENGTHS", (2, 8))
    monkeypatch.setattr(ablation, "STEPS", (0, 3))
    monkeypatch.setattr(ablation, "TEMPERATURES", (0.0, 0.5))
    monkeypatch.setattr(ablation, "TOP_K", (1, 3))
    hospital = Hospital(tmp_path / "export", films=8)
    for n, row in enumerate(hospital.rows):
        row["split"] = "val" if n < 6 else "train"
    pack = str(tiny_pack(tmp_path / "tiny"))
    rows = ablation.bench_ablation(
        [hospital.write()], tmp_path / "out", pack=pack, judge=pack, films=4, say=lambda line: None
    )
    assert {row.films for row in rows} == {4}
    assert {row.table for row in rows} == {"initialisation", "length", "iterations", "temperature and K", "projection"}
    assert all(row.low <= row.score <= row.high for row in rows)
    # The judge is the same vlm here, so it must agree.
    assert all(row.judge == pytest.approx(row.score, abs=1e-3) for row in rows)
    written = json.loads((tmp_path / "out/ablation.json").read_text())
    assert len(written["rows"]) == len(rows)
    assert [gain["start"] for gain in written["gains"]] == ["random", "report"]
    read = read_rows(ablation.Row, written["rows"]), read_rows(ablation.Gain, written["gains"])
    assert ablation.markdown(*read) == (tmp_path / "out/ablation.md").read_text()
    assert written["about"]["films"] == 4
    for gain in written["gains"]:
        assert gain["judge"] == pytest.approx(gain["score"], abs=2.0)
    assert "41.10 [31.44, 47.19]" in (tmp_path / "out/ablation.md").read_text()
    assert (tmp_path / "out/ablation-length.png").stat().st_size > 1000


def test_sources_without_a_validation_film_are_said_so(tmp_path):
    hospital = Hospital(tmp_path / "export", films=2)
    for row in hospital.rows:
        row["split"] = "train"
    with pytest.raises(ValueError, match="no validation film"):
        ablation.bench_ablation([hospital.write()], tmp_path / "out")
