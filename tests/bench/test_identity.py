"""The identity experiment in both worlds: who is scored, and that attackers learn on others."""

import json
from dataclasses import replace

import pytest

from tests.conftest import Hospital, sweep
from tests.evaluation.fake_probes import Fixed, figure
from tests.methods.tiny import tiny_pack
from updp.bench import identity
from updp.evaluation.cohort.sample import NoSample
from updp.models import load_pack
from updp.sources import open_source
from updp.training.corpus import rule_of, split_for


@pytest.fixture
def pack(tmp_path):
    return str(tiny_pack(tmp_path / "tiny"))


@pytest.fixture
def source(tmp_path):
    return Hospital(tmp_path / "export", films=120).write()


def test_the_two_worlds_share_their_teachers_and_no_scored_patient(pack, source):
    models = load_pack(pack)
    opened = open_source(source)
    studies = list(opened)
    placed = {name: {s.patient_id: place(models)(s, opened.layout) for s in studies}
              for name, place in (("met", identity.met), ("unmet", identity.unmet))}  # fmt: skip
    scored = {name: {p for p, split in found.items() if split == "test"} for name, found in placed.items()}
    taught = {name: {p for p, split in found.items() if split == "train"} for name, found in placed.items()}
    assert scored["met"]
    assert scored["unmet"]
    assert not scored["met"] & scored["unmet"]
    assert taught["met"] == taught["unmet"]
    learned = {s.patient_id for s in studies if split_for(opened.layout, s, rule_of(models)) == "train"}
    assert scored["met"] <= learned
    assert not (scored["unmet"] | taught["unmet"]) & learned


def test_every_setting_is_named_in_both_worlds_beside_the_published_figure(pack, source, tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "PLANS", (("keep", {}, "97.21"), ("blur", {}, "4.57")))
    asked = []

    def probes():
        asked.append(1)
        return [Fixed("film", [replace(figure("identification accuracy", 0.5, 0.4, 0.6, 0.1), protocol="as printed")])]

    def run():
        return identity.bench_identity(
            source, tmp_path / "out", pack=pack, patients=5, quick=True, probes=probes, say=lambda line: None
        )

    worlds = run()
    assert [world.name for world in worlds] == ["met by the generator", "not met"]
    assert all(len(world.rows) == 2 for world in worlds)
    text = (tmp_path / "out" / "identity.md").read_text()
    assert text.count("97.21") == 2
    assert text.count("50.0 [40.0, 60.0], chance 10.0") == 4
    assert len(json.loads((tmp_path / "out" / "identity.json").read_text())) == 2
    assert sweep(tmp_path / "out", skip=("met-by-the-generator/.cache", "not-met/.cache")) == []
    run()
    assert len(asked) == 4  # a second call resumes


def test_a_source_of_neither_world_is_said_so(pack, source, tmp_path, monkeypatch):
    for name in ("met", "unmet"):
        monkeypatch.setattr(identity, name, lambda pack: lambda study, layout: None)
    with pytest.raises(NoSample, match="either world"):
        identity.bench_identity(source, tmp_path / "out", pack=pack, say=lambda line: None)
