import numpy as np
import pytest

from tests.training.miniature import SIZE, film
from updp.core.record import BENCHMARK_KEY, Study, place_of
from updp.training.corpus import NoUsableFilm, prepare_corpus, split_for


def study(patient, labels=(), split=None):
    return Study(
        film_id=f"film-{patient}", study_id="s", patient_id=str(patient), view="PA", labels=labels, split=split,
        pixels=film(0, 0, False),
    )  # fmt: skip


def patients(low, high, count=3):
    return [p for p in range(400) if low <= place_of(str(p), BENCHMARK_KEY) < high][:count]


def test_the_reserved_half_of_chestxray14_never_enters_a_training_corpus(tmp_path):
    everyone = [("chestxray14", study(p)) for p in range(60)]
    corpus = prepare_corpus(everyone, tmp_path, SIZE, rule="halves")
    kept = {name.partition("/")[2] for name in corpus.patients.tolist()}
    assert kept == {str(p) for p in range(60) if place_of(str(p), BENCHMARK_KEY) < 0.5}
    assert corpus.record_of_splits()["name"] == "halves"


@pytest.mark.parametrize(
    ("low", "high", "official", "split"),
    [
        (0.0, 0.47, None, "train"),
        (0.47, 0.5, None, "val"),
        (0.5, 1.0, None, "reserved"),
        (0.5, 1.0, "train", "reserved"),
        (0.0, 0.47, "test", "test"),
    ],
)
def test_the_place_of_a_patient_decides_in_chestxray14(low, high, official, split):
    for patient in patients(low, high):
        assert split_for("chestxray14", study(patient, split=official), "halves") == split
        assert split_for("chestxray14-2", study(patient, split=official), "halves") == split


def test_other_sources_follow_their_split_or_validate_on_few():
    assert split_for("iu_xray", study("CXR1", split="val"), "halves") == "val"
    drawn = [split_for("manifest", study(p), "halves") for p in range(1000)]
    assert 10 < drawn.count("val") < 60
    assert set(drawn) == {"train", "val"}


def test_a_bench_may_look_at_reserved_patients_as_its_test_split(tmp_path):
    (patient,) = patients(0.5, 1.0, 1)
    films = [("chestxray14", study(patient))]
    with pytest.raises(NoUsableFilm):
        prepare_corpus(films, tmp_path / "train", SIZE, rule="halves")
    corpus = prepare_corpus(films, tmp_path / "bench", SIZE, rule="halves", reserved=True)
    assert corpus.splits.tolist() == ["test"]


def test_films_shared_out_by_another_rule_are_not_taken_for_these(tmp_path):
    prepare_corpus([("chestxray14", study(p)) for p in patients(0, 0.4)], tmp_path, SIZE)
    with pytest.raises(ValueError, match="divided by the rule hash, not halves: choose another folder"):
        prepare_corpus([], tmp_path, SIZE, rule="halves")


def test_a_label_outside_the_fourteen_leaves_the_findings_unknown(tmp_path):
    films = [
        ("manifest", study(0, ("Lung Opacity",), "train")),
        ("manifest", study(1, (), "train")),
        ("manifest", study(2, ("Effusion", "Support Devices"), "train")),
        ("manifest", study(3, None, "train")),
    ]
    corpus = prepare_corpus(films, tmp_path, SIZE)
    assert np.isnan(corpus.labels[:, 0]).tolist() == [True, False, False, True]
    assert corpus.findings(2) == ("Effusion",)
    assert [corpus.observed(row) for row in range(4)] == [("Lung Opacity",), (), ("Effusion", "Support Devices"), None]


def test_a_method_learns_by_the_rule_of_its_pack(tmp_path):
    from types import SimpleNamespace

    from updp.training.corpus import rule_of

    assert rule_of(SimpleNamespace(info={"splits": {"name": "halves"}})) == "halves"
    assert rule_of(SimpleNamespace(info={"splits": {"rule": "official split"}})) == "hash"
