"""`updp study` from plan to figures on the command line, and what `updp review` refuses."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from typer.testing import CliRunner

from tests.review.conftest import made, made_once
from updp.cli.app import app
from updp.core.keys import Key

__all__ = ["made", "made_once"]


@pytest.fixture
def key_file(tmp_path):
    Key.create(tmp_path / "key", bytes(range(32)))
    return str(tmp_path / "key")


def call(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_a_simulated_study_runs_from_design_to_kappa(made, key_file, tmp_path):
    study = str(tmp_path / "study")
    planned = call(
        "study", "design", str(made / "out"), "--source", str(made / "export"), "--out", study,
        "--films", "20", "--simulated", "--key", key_file,
    )  # fmt: skip
    assert planned.exit_code == 0, planned.output
    needed = re.search(r"Effusion: 50% .*± 0.05 needs .*: (\d+) with 1, (\d+) with 3, (\d+) with 5", planned.output)
    assert needed, planned.output
    assert int(needed[1]) > int(needed[2]) > int(needed[3]) > 20
    assert "Simulated readers have answered" in planned.output
    found = call("study", "analyse", study, "--key", key_file)
    assert found.exit_code == 0, found.output
    assert "Cohen's kappa, all findings: original against released, majority vote (simulated)" in found.output
    facts = json.loads((tmp_path / "study" / "study.json").read_text())
    assert facts["simulated"] is True
    refused = call("study", "analyse", study, "--release", str(made / "out"), "--key", key_file)
    assert refused.exit_code != 0
    assert "not readers" in str(refused.exception)
    packed = call("study", "pack", study, "--out", str(tmp_path / "hand-out"), "--key", key_file)
    assert packed.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "hand-out").iterdir()) == [
        f"simulated-reader-{n}" for n in (1, 2, 3)
    ]


def test_a_study_finds_the_source_where_the_run_found_it_or_asks_for_it(made_once, key_file, tmp_path):
    planned = call("study", "design", str(made_once / "out"), "--out", str(tmp_path / "study"), "--films", "4", "--key",
                   key_file)  # fmt: skip
    assert planned.exit_code == 0, planned.output
    assert "3 readers, 4 patients, 9 readings each" in planned.output
    shutil.copytree(made_once / "out", tmp_path / "out", ignore=shutil.ignore_patterns("settings.sealed"))
    asked = call("study", "design", str(tmp_path / "out"), "--out", str(tmp_path / "none"), "--key", key_file)
    assert asked.exit_code != 0
    assert "--source" in asked.output
    assert not (tmp_path / "none").exists()


def test_review_prints_one_link_and_listens_on_this_computer_alone(made, key_file, monkeypatch):
    from updp.review.serve import Review

    ran = []
    monkeypatch.setattr(Review, "run", lambda self: ran.append(self))
    shown = call("review", str(made / "out"), "--key", key_file)
    assert shown.exit_code == 0, shown.output
    (ready,) = ran
    try:
        host, port = ready.listening.getsockname()
        assert host == "127.0.0.1"
        assert re.findall(r"\S+://\S+", shown.output) == [ready.links[0].address]
        assert re.fullmatch(rf"http://127\.0\.0\.1:{port}/enter/[\w-]{{32}}", ready.links[0].address)
        settings = ready.server.config
        assert (settings.access_log, settings.proxy_headers, settings.log_level) == (False, False, "error")
        taken = call("review", str(made / "out"), "--key", key_file, "--port", str(port))
        assert "in use" in str(taken.exception)
    finally:
        ready.listening.close()


def test_there_is_nothing_to_review_where_nothing_was_released(key_file, tmp_path):
    refused = call("review", str(tmp_path), "--key", key_file)
    assert refused.exit_code != 0
    assert "no finished release" in str(refused.exception)
