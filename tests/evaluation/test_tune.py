"""Tuning: validation patients only, both limits on the far end of their intervals, resumable."""

import json

import numpy as np
import pytest

from tests.conftest import Hospital, sweep
from tests.evaluation.fake_probes import Budget, Fixed, PixelLinkage, figure
from updp.core.policy import Policy
from updp.core.record import BENCHMARK_KEY, Study, split_of
from updp.evaluation import tune as module
from updp.evaluation.cohort.sample import (
    NoSample,
    choose,
    exhibit_of,
    made_once,
    make,
    origin,
    take_sample,
)
from updp.evaluation.cohort.settings import MethodPlan, Setting
from updp.evaluation.tune import choose_strength, hypervolume, tune
from updp.models.pack import FORMAT

SMALL = Policy.parse("[burned_in]\nmode='off'\n[image]\nsize=64\n")


@pytest.fixture(autouse=True)
def _small_here(monkeypatch):
    monkeypatch.setattr(module, "budget_of", lambda quick: Budget())
    monkeypatch.setattr(module, "learned_in", lambda folder: None)


@pytest.fixture
def source(tmp_path):
    """Sixty invented patients with two films each, some of every split."""
    return Hospital(tmp_path / "export", films=120).write()


def point(strength, linkage, utility):
    spread = {"value": linkage, "low": linkage - 0.02, "high": linkage + 0.02, "n": 50}
    use = {"value": utility, "low": utility - 0.02, "high": utility + 0.02, "n": 50}
    return {"method": "m", "strength": strength, "linkage": spread, "utility": use}


def probes():
    return [PixelLinkage(), Fixed("utility", [figure("diagnostic skill kept", 0.95, 0.9, 1.0, None, "higher")])]


def test_the_frontier_and_the_strength_are_written(source, tmp_path):
    told = []
    found = tune(
        source,
        out=tmp_path / "t",
        method=MethodPlan(name="dp-pix", options={"m": "image"}),
        strengths=[0.0, 1.0],
        films=80,
        probes=probes,
        say=told.append,
    )
    facts = json.loads((tmp_path / "t" / "frontier.json").read_text())
    assert [p["strength"] for p in facts["points"]] == [0.0, 1.0]
    weak, strong = (p["linkage"]["value"] for p in facts["points"])
    assert weak == pytest.approx(0.5, abs=0.2)  # a whole film as the unit leaves nothing at any strength
    assert strong == pytest.approx(0.5, abs=0.2)
    assert (tmp_path / "t" / "frontier.svg").read_text().startswith("<svg xmlns")
    assert found.advice == facts["advice"]
    assert any("film linkage" in line and "n = " in line for line in told)
    assert sweep(tmp_path / "t", skip=(".cache",)) == []


def test_test_patients_are_never_looked_at(source, tmp_path):
    sample = take_sample(source, 80, splits=module.SPLITS, policy=SMALL, cache=tmp_path / "c")
    assert {study.split for study in sample.studies} == {"train", "val"}
    assert len(sample) <= 80


def test_a_second_call_makes_no_film_again(source, tmp_path, monkeypatch):
    options = {"out": tmp_path / "t", "method": "dp-pix", "strengths": [0.5], "films": 40, "probes": probes}
    first = tune(source, **options)
    from updp.evaluation.cohort import sample as made

    def again(*args, **kwargs):
        raise AssertionError("made again")

    monkeypatch.setattr(made, "make", again)
    assert tune(source, **options).points == first.points
    with pytest.raises(AssertionError):
        tune(source, **(options | {"seed": 1}))


def test_a_strength_that_could_not_be_measured_is_said(source, tmp_path):
    told = []
    missing = lambda: [PixelLinkage()]  # noqa: E731
    found = tune(source, out=tmp_path / "t", method="blur", strengths=[0.5], films=40, probes=missing, say=told.append)
    assert found.strength is None
    assert "not measured" in told[-1]
    assert not (tmp_path / "t" / "frontier.svg").exists()


def test_the_most_useful_strength_that_is_private_for_certain_is_chosen():
    sweep_ = [point(0.0, 0.9, 0.99), point(0.3, 0.57, 0.95), point(0.6, 0.55, 0.9), point(0.9, 0.51, 0.6)]
    assert choose_strength(sweep_, 0.6, 0.85) == (0.3, "use --strength 0.3")
    strength, words = choose_strength(sweep_, 0.58, 0.92)
    assert strength is None
    assert "no strength keeps enough use for certain" in words
    strength, words = choose_strength(sweep_[:2], 0.58, 0.85)
    assert strength is None
    assert "more films may settle it" in words
    assert choose_strength([], 0.6, 0.85)[0] is None


def test_hypervolume_of_a_perfect_method_is_one_and_of_copies_none():
    perfect = {"method": "m", "strength": 1, "linkage": {"value": 0.5}, "utility": {"value": 1.0}}
    copies = perfect | {"linkage": {"value": 1.0}}
    assert hypervolume([perfect]) == 1.0
    assert hypervolume([copies]) == 0.0
    assert hypervolume([copies, perfect]) == 1.0


def test_patients_come_whole_and_those_with_several_films_first():
    studies = [Study(f"{p}-{n}", f"{p}-{n}", p, split="train") for p in "abcdefgh" for n in range(1 + (p in "cf"))]
    chosen = choose(studies, 4, {"train": 1.0}, seed=0)
    assert {study.patient_id for study in chosen} == {"c", "f"}
    assert len(choose(studies, 6, {"train": 1.0}, seed=0)) == 6
    assert choose(studies, 6, {"val": 1.0}, seed=0) == []
    many = [Study(str(n), str(n), "z", split="train") for n in range(70)]
    assert len(choose(many, 60, {"train": 1.0}, seed=0)) == 10


def test_a_sample_is_what_a_release_would_hand_to_its_method(source, tmp_path):
    sample = take_sample(source, 40, splits={"train": 1.0}, policy=SMALL, cache=tmp_path / "c")
    assert not any("Quibblesworth" in text for text in sample.released_texts)
    assert all("Quibblesworth" in text for text in sample.real_texts)
    assert all(study.patient_id.startswith("p") and study.path is None for study in sample.studies)
    made = make(sample, Setting("keep"), 0)
    exhibit = exhibit_of(sample, made)
    np.testing.assert_array_equal(exhibit.released, exhibit.real)
    made.kept[3] = False
    short = exhibit_of(sample, made)
    assert len(short) == len(sample)
    assert np.flatnonzero(short.kept_back).tolist() == [3]
    assert not short.released_texts[3]
    assert len(short.paired) == len(sample) - 1


def test_splits_are_the_public_ones(source, tmp_path):
    sample = take_sample(
        source, 200, splits={"train": 1.0, "val": 1.0, "test": 1.0}, policy=SMALL, cache=tmp_path / "c"
    )
    counts = {split: sum(s.split == split for s in sample.studies) // 2 for split in ("train", "val", "test")}
    expected = [split_of(f"Zanthora-{n}", BENCHMARK_KEY) for n in range(60)]
    assert counts == {split: expected.count(split) for split in counts}


def test_a_source_without_validation_patients_is_refused_in_a_sentence(tmp_path):
    hospital = Hospital(tmp_path / "export", films=2)
    with pytest.raises(NoSample, match="no film of the splits"):
        take_sample(hospital.write(), 10, splits={"nobody": 1.0}, policy=SMALL, cache=tmp_path / "c")


def test_films_are_made_once_and_again_when_weights_or_updp_are_others(source, tmp_path, monkeypatch):
    sample = take_sample(source, 6, splits=module.SPLITS, policy=SMALL, cache=tmp_path / "c")
    pack = tmp_path / "pack"
    pack.mkdir()
    described = f'format = {FORMAT}\nname = "p"\n[roles]\n'
    (pack / "pack.toml").write_text(described)
    setting = Setting("updp", (("pack", str(pack)),), 1.0)
    before = origin(sample, setting, 0)
    assert before == origin(sample, setting, 0)
    assert before != origin(sample, setting, 1)
    (pack / "pack.toml").write_text(described + "[thresholds]\nfinding = 0.5\n")
    assert before != origin(sample, setting, 0)

    blurred = Setting("blur", (), 0.5)
    first = made_once(sample, blurred, 0, tmp_path / "made")
    held = made_once(sample, blurred, 0, tmp_path / "made")
    assert held.seconds == first.seconds  # read, not made
    assert np.array_equal(held.films, first.films)
    monkeypatch.setattr("updp.core.version.__version__", "another")
    assert made_once(sample, blurred, 0, tmp_path / "made").origin != first.origin
