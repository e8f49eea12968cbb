"""The identity experiment in both groups: who is scored, and that attackers learn on others."""

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


def test_the_two_groups_share_their_teachers_and_no_scored_patient(pack, source):
    models = load_pack(pack)
    opened = open_source(source)
    studies = list(opened)
    placed = {name: {s.patient_id: place(models)(s, opened.layout) for s in studies}
              for name, place in (("trained", identity.score_trained), ("others", identity.score_others))}  # fmt: skip
    scored = {name: {p for p, split in found.items() if split == "test"} for name, found in placed.items()}
    taught = {name: {p for p, split in found.items() if split == "train"} for name, found in placed.items()}
    assert scored["trained"]
    assert scored["others"]
    assert not scored["trained"] & scored["others"]
    assert taught["trained"] == taught["others"]
    learned = {s.patient_id for s in studies if split_for(opened.layout, s, rule_of(models)) == "train"}
    assert scored["trained"] <= learned
    assert not (scored["others"] | taught["others"]) & learned


def test_every_setting_is_named_in_both_groups_beside_the_published_figure(pack, source, tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "PLANS", (("keep", {}, "97.21"), ("blur", {}, "4.57")))
    asked = []

    def probes():
        asked.append(1)
        return [Fixed("film", [replace(figure("identification accuracy", 0.5, 0.4, 0.6, 0.1), protocol="as printed")])]

    def run():
        return identity.bench_identity(
            source, tmp_path / "out", pack=pack, patients=5, quick=True, probes=probes, say=lambda line: None
        )

    groups = run()
    assert [group.name for group in groups] == ["training patients", "other patients"]
    assert all(len(group.rows) == 2 for group in groups)
    text = (tmp_path / "out" / "identity.md").read_text()
    assert text.count("97.21") == 2
    assert text.count("50.0 [40.0, 60.0], chance 10.0") == 4
    written = json.loads((tmp_path / "out" / "identity.json").read_text())
    assert identity.markdown(identity.groups_of(written)) == text
    assert sweep(tmp_path / "out", skip=("training-patients/.cache", "other-patients/.cache")) == []
    run()
    assert len(asked) == 4  # a second call resumes


def test_a_source_of_neither_group_is_said_so(pack, source, tmp_path, monkeypatch):
    for name in ("score_trained", "score_others"):
        monkeypatch.setattr(identity, name, lambda pack: lambda study, layout: None)
    with pytest.raises(NoSample, match="either group"):
        identity.bench_identity(source, tmp_path / "out", pack=pack, say=lambda line: None)
