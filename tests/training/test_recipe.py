import errno
import os
import re
import shutil

import numpy as np
import pytest
import torch

from tests.training.miniature import SIZE, TINY, studies
from updp.bench.pack import bench_pack
from updp.domains.chest import CHEST
from updp.models import load_pack
from updp.models.errors import MissingRequirement
from updp.pipeline.engines import Crashed, local
from updp.training.autoencoder import CodeStage
from updp.training.classifier import ClassifierStage
from updp.training.corpus import NoUsableFilm, load_corpus, prepare_corpus
from updp.training.identity import IdentityStage, identity_figures
from updp.training.loop import (
    FORMAT,
    StageConfig,
    TrainingError,
    learning_rate,
    read_checkpoint,
    run_stage,
    write_checkpoint,
)
from updp.training.recipe import STAGES, Recipe, export_pack, export_run, train_pack


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return prepare_corpus(studies(), tmp_path_factory.mktemp("corpus"), SIZE)


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("packs") / "miniature"
    train_pack(corpus, out, TINY, say=quiet)
    return out


def test_the_recipe_fills_every_role_from_films_to_pack(trained):
    pack = load_pack(trained)
    films = torch.rand(3, 1, SIZE, SIZE)
    assert set(pack.info["roles"]) == CHEST.roles
    assert pack.autoencoder.decode(pack.autoencoder.encode(films)).shape == films.shape
    assert pack.identity.embed(films).norm(dim=1).allclose(torch.ones(3), atol=1e-5)
    assert pack.classifier.probabilities(films).shape == (3, len(pack.classifier.labels))
    assert pack.vlm.embed_images(films).shape == pack.vlm.embed_texts(["a", "b", "c"]).shape
    made = pack.generator.generate(["The heart is enlarged."] * 2, [1, 2], steps=2)
    assert made.shape == (2, 1, SIZE, SIZE)
    assert made.min() >= 0
    assert made.max() <= 1


def test_the_pack_records_patient_disjoint_splits(trained, corpus):
    splits = load_pack(trained).info["splits"]
    assert splits["train"]["patients"] == 18
    assert splits["val"]["patients"] == 6
    assert not set(corpus.patients[corpus.rows("train")]) & set(corpus.patients[corpus.rows("val")])


def test_the_bench_measures_every_quick_part(trained, corpus):
    parts = ("autoencoder", "phantoms", "classifier", "identity", "vlm", "generator", "copies", "listening")
    judge = load_pack(trained).classifier
    figures = bench_pack(trained, corpus, parts, films=4, judge=judge, pairs=2, say=quiet)
    assert set(figures) == set(parts)
    assert 0 <= figures["identity"]["auc val"] <= 1
    assert figures["generator"]["FD-classifier made"] > 0
    assert figures["autoencoder"]["psnr"] > 10
    assert figures["generator"]["power 4-8"] > 0
    assert figures["phantoms"]["discs kept counted"] == 60
    assert 0 <= figures["listening"]["auc Cardiomegaly"] <= 1


def test_the_listening_test_is_refused_without_a_judge(trained, corpus):
    with pytest.raises(ValueError, match="needs a judge: a classifier that shares nothing with the pack"):
        bench_pack(trained, corpus, ["listening"], say=quiet)


def test_the_bench_refuses_a_part_it_does_not_know(trained, corpus):
    with pytest.raises(ValueError, match="no part 'taste'; there are: "):
        bench_pack(trained, corpus, ["taste"], say=quiet)


def test_training_again_reads_the_finished_stages_back(trained, corpus, tmp_path):
    lines: list[str] = []
    train_pack(corpus, tmp_path / "again", TINY, run=trained.with_name("miniature.run"), say=lines.append)
    assert sum("resumed at step" in line for line in lines) == len(STAGES)
    first, second = load_pack(trained), load_pack(tmp_path / "again")
    assert first.info["sha256"] == second.info["sha256"]


def test_roles_that_learn_at_the_same_time_give_the_pack_of_one_after_the_other(trained, corpus, tmp_path):
    run = tmp_path / "run"
    (run / "stages").mkdir(parents=True)  # a vocabulary is not learned the same twice
    shutil.copy(trained.with_name("miniature.run") / "stages" / "tokenizer.json", run / "stages")
    lines: list[str] = []
    train_pack(corpus, tmp_path / "apart", TINY, run=run, engine=local.run, workers=2, say=lines.append)
    assert sum("resumed at step" in line for line in lines) == 5  # code, decoder, vlm twice, identity: of the workers
    assert load_pack(tmp_path / "apart").info["sha256"] == load_pack(trained).info["sha256"]


def test_a_worker_that_dies_while_it_trains_is_a_sentence(corpus, tmp_path):
    def engine(_work, tasks, _workers):
        yield next(iter(tasks)), Crashed()

    with pytest.raises(TrainingError, match="the worker that trained decoder died; the same command goes on"):
        train_pack(corpus, tmp_path / "pack", TINY, engine=engine, say=quiet)


def stage_of(corpus, steps=4):
    config = StageConfig(steps=steps, batch=4, rate=1e-3, warmup=1)
    return CodeStage(corpus, config, {"channels": 8, "widths": [16, 16, 8, 8, 8]}), config


def weights(module):
    return torch.cat([v.flatten().double() for v in module.state_dict().values()])


def test_a_stage_killed_and_resumed_ends_where_an_unbroken_one_does(corpus, tmp_path):
    torch.manual_seed(0)
    stage, config = stage_of(corpus)
    begin = {k: v.clone() for k, v in stage.module.state_dict().items()}
    whole = run_stage(stage, config, tmp_path / "whole", build=stage.build, say=quiet)
    parts = None
    for _ in range(4):
        again, _ = stage_of(corpus)
        again.module.load_state_dict(begin)
        parts = run_stage(again, config, tmp_path / "parts", build=again.build, say=quiet, stop_after=0)
    assert parts is not None
    assert torch.equal(weights(whole), weights(parts))


def test_a_corrupt_checkpoint_gives_way_to_the_one_before(tmp_path):
    path = tmp_path / "stage.checkpoint"
    write_checkpoint(path, {"format": FORMAT, "step": 1})
    write_checkpoint(path, {"format": FORMAT, "step": 2})
    path.write_bytes(path.read_bytes()[:-7])
    assert read_checkpoint(path) == {"format": FORMAT, "step": 1}


def test_two_corrupt_checkpoints_are_an_error_and_none_is_a_start(tmp_path):
    path = tmp_path / "stage.checkpoint"
    assert read_checkpoint(path) is None
    for name in (path, path.with_suffix(".previous")):
        name.write_bytes(b"x" * 100)
    with pytest.raises(TrainingError, match=r"corrupt and no earlier one is intact"):
        read_checkpoint(path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    write_checkpoint(tmp_path / "stage.checkpoint", {"format": 99})
    with pytest.raises(TrainingError, match=f"format 99, not {FORMAT}"):
        read_checkpoint(tmp_path / "stage.checkpoint")


def test_a_checkpoint_of_another_shape_is_refused(corpus, tmp_path):
    stage, config = stage_of(corpus, steps=1)
    run_stage(stage, config, tmp_path, build=stage.build, say=quiet)
    other = CodeStage(corpus, config, {"channels": 4, "widths": [16, 16, 8, 8, 8]})
    with pytest.raises(TrainingError, match="belongs to another model shape"):
        run_stage(other, config, tmp_path, build=other.build, say=quiet)


def test_no_room_on_disk_leaves_the_last_checkpoint_intact(tmp_path, monkeypatch):
    path = tmp_path / "stage.checkpoint"
    write_checkpoint(path, {"format": FORMAT, "step": 1})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrainingError, match=r"No space left on device; the last good checkpoint is intact"):
        write_checkpoint(path, {"format": FORMAT, "step": 2})
    assert read_checkpoint(path) == {"format": FORMAT, "step": 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["stage.checkpoint"]


def test_a_loss_that_is_not_a_number_stops_the_stage(corpus, tmp_path):
    stage, config = stage_of(corpus)
    stage.loss = lambda module, *_: module.encode(torch.full((1, 1, SIZE, SIZE), float("nan"))).mean()
    with pytest.raises(TrainingError, match=r"loss is nan at step 0"):
        run_stage(stage, config, tmp_path, build=stage.build, say=quiet)


def test_a_source_without_a_usable_film_is_refused(tmp_path):
    lateral = [(name, study.but(view="LATERAL")) for name, study in studies(2)]
    with pytest.raises(NoUsableFilm, match="no usable frontal film to train on among 0 read"):
        prepare_corpus(lateral, tmp_path, SIZE)


def test_one_class_only_is_refused_before_anything_is_trained(tmp_path):
    corpus = prepare_corpus(studies(8, classes=1), tmp_path / "corpus", SIZE)
    with pytest.raises(TrainingError, match="with one class there is nothing to learn"):
        Recipe(corpus, tmp_path / "run", TINY, say=quiet).all()
    assert not list((tmp_path / "run").iterdir())


def test_unlabelled_films_are_refused_by_the_classifier(tmp_path):
    corpus = prepare_corpus(studies(8, labelled=False), tmp_path, SIZE)
    with pytest.raises(TrainingError, match="no film of the training patients is labelled"):
        ClassifierStage(corpus, TINY.classifier, 32, None)


def test_single_films_cannot_teach_identity(tmp_path):
    corpus = prepare_corpus(studies(8, films=1), tmp_path, SIZE)
    with pytest.raises(TrainingError, match="no training patient has two films"):
        IdentityStage(corpus, TINY.identity, 32, None)


def test_the_corpus_is_decoded_once_and_read_back_the_same(tmp_path):
    first = prepare_corpus(studies(4), tmp_path, SIZE)
    second = prepare_corpus(iter(()), tmp_path, SIZE)
    assert np.array_equal(first.films, second.films)
    assert first.record_of_splits() == load_corpus(tmp_path).record_of_splits()


def test_the_rate_warms_up_and_a_cosine_ends_at_zero():
    config = StageConfig(steps=100, batch=1, rate=1.0, warmup=10)
    assert learning_rate(0, config) == pytest.approx(0.1)
    assert learning_rate(10, config) == pytest.approx(1.0)
    assert learning_rate(100, config) == pytest.approx(0.0)


def test_a_stable_rate_stays_until_its_cooldown():
    config = StageConfig(steps=100, batch=1, rate=1.0, warmup=10, schedule="stable", cooldown=0.2)
    assert learning_rate(10, config) == learning_rate(80, config) == 1.0
    assert learning_rate(90, config) == pytest.approx(0.5)
    assert learning_rate(100, config) == 0


def test_a_run_is_exported_as_it_stands(trained, corpus, tmp_path):
    run = trained.with_name("miniature.run")
    longer = TINY.but(generator={"steps": 400}, decoder={"steps": 400})
    made = export_run(run, tmp_path / "pack", longer, corpus=corpus, extra={"summary": "Drawn."}, say=quiet)
    assert made.info["sha256"] == load_pack(trained).info["sha256"]
    assert made.info["trained"]["generator"] == TINY.generator.steps
    assert made.info["roles"]["autoencoder"]["model"] == "lapped"
    assert made.generator.sampling.grid == "cosine"
    assert "Drawn." in (tmp_path / "pack" / "README.md").read_text()
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrainingError, match=r"no checkpoint of code, decoder, vlm, .*: train these stages first"):
        export_run(tmp_path / "empty", tmp_path / "none", TINY, corpus=corpus, say=quiet)
    assert not (tmp_path / "none").exists()


def test_every_validation_keeps_its_sheet(trained):
    kept = {path.name for path in (trained.with_name("miniature.run") / "stages").glob("*.png")}
    assert {"generator-sheet-000004.png", "decoder-sheet-000006.png", "decoder-own-sheet-000002.png"} <= kept


def test_no_room_for_the_pack_leaves_nothing_half_written(trained, corpus, tmp_path, monkeypatch):
    import updp.training.recipe as recipe

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recipe, "role_entry", full)
    with pytest.raises(TrainingError, match="No space left on device; the checkpoints are intact"):
        export_pack({"identity": load_pack(trained).identity}, tmp_path / "pack", TINY, corpus.record_of_splits())
    assert list(tmp_path.iterdir()) == []


def test_a_missing_perceptual_network_is_named_before_anything_is_trained(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("updp.models.lpips.find_spec", lambda name: None)
    with pytest.raises(MissingRequirement, match=r"pip install 'updp\[train\]'"):
        Recipe(corpus, tmp_path / "run", TINY.but(perceptual=True), say=quiet).all()
    assert not list((tmp_path / "run").iterdir())


def test_a_perfect_embedding_verifies_every_pair():
    patients = np.repeat([f"p{i}" for i in range(6)], 3)
    figures = identity_figures(np.repeat(np.eye(6, dtype=np.float32), 3, 0), patients, np.random.default_rng(0))
    assert figures["auc"] == 1
    assert figures["rank-1"] == 1
    assert figures["gallery"] == 6


def test_an_embedding_that_says_nothing_verifies_by_chance():
    rng = np.random.default_rng(0)
    embedded = rng.normal(size=(600, 16)).astype(np.float32)
    embedded /= np.linalg.norm(embedded, axis=1, keepdims=True)
    figures = identity_figures(embedded, np.repeat([f"p{i}" for i in range(200)], 3), rng)
    assert figures["auc"] == pytest.approx(0.5, abs=0.07)
    assert figures["rank-1"] < 0.05


def test_configuration_from_toml_changes_only_what_it_names(tmp_path):
    from updp.training.config import PackConfig

    file = tmp_path / "pack.toml"
    file.write_text('name = "big"\nsize = 512\n[generator]\nsteps = 7\n')
    config = PackConfig.read(file)
    assert (config.name, config.size, config.generator.steps) == ("big", 512, 7)
    assert config.generator.batch == PackConfig().generator.batch
    assert config.further() == [12]
    assert PackConfig().further() == []
    with pytest.raises(ValueError, match="size is 256 or less, or 256 doubled once or more, not 300"):
        PackConfig(size=300)
    with pytest.raises(ValueError, match="split is one of hash, halves, not 'thirds'"):
        PackConfig(split="thirds")
    file.write_text("colour = 1\n")
    with pytest.raises(ValueError, match="no configuration key 'colour'; there are: name, size"):
        PackConfig.read(file)
    file.write_text("[generator]\nstps = 1\n")
    with pytest.raises(ValueError, match="no key of stage generator 'stps'; did you mean 'steps'"):
        PackConfig.read(file)


def test_a_trained_pack_brings_what_checks_of_its_films_need(trained, corpus):
    from safetensors.numpy import load_file

    held = load_file(trained / "training_identities.safetensors")["identities"]
    assert len(held) == len(corpus.rows("train"))
    lines = load_pack(trained).info["thresholds"]
    assert {"identity_same", "identity_copy", "pixel_copy", "finding_present"} <= set(lines)


def test_the_card_says_data_recipe_splits_and_figures(trained, tmp_path):
    import shutil

    from updp.training.card import describe_pack

    folder = tmp_path / "described"
    shutil.copytree(trained, folder)
    describe_pack(folder, figures={"speed": {"seconds a film": 0.25}}, limits=["Made of drawn films."])
    card = (folder / "README.md").read_text()
    for words in (
        "Model pack miniature",
        "| train | 18 | 36 |",
        "| speed | seconds a film | 0.25 |",
        "Made of drawn films.",
    ):
        assert words in card
    assert load_pack(folder).figures["speed"]["seconds a film"] == 0.25


def test_virtual_patients_keep_their_anatomy_and_are_nobodys_copy(trained, corpus):
    from updp.training.codes import codes_of
    from updp.training.thresholds import thresholds
    from updp.training.virtual import Shelf, make_virtual_films

    pack = load_pack(trained)
    people, pictures = codes_of(pack, corpus, corpus.rows("train"))
    lines = thresholds(pack, corpus, people, pictures)
    assert -1 <= lines["identity_same"] <= 1
    shelf = Shelf(people, pictures, 2.0, 2.0)
    made = make_virtual_films(pack, 1, patients=3, shelf=shelf, steps=2)
    again = make_virtual_films(pack, 1, patients=3, shelf=shelf, steps=2)
    assert all(np.array_equal(a.pixels, b.pixels) for a, b in zip(made, again, strict=True))
    assert {e.patient for e in made} == {0, 1, 2}
    assert all(2 <= sum(e.patient == p for e in made) <= 5 for p in range(3))
    with pytest.raises(ValueError, match="stay too near to training films"):
        make_virtual_films(pack, 1, patients=2, shelf=Shelf(people, pictures, -2.0, -2.0), steps=2, tries=1)


def test_virtual_films_are_written_into_their_pack(trained, tmp_path, capsys):
    import json
    import shutil

    from updp.training.virtual import main

    folder = tmp_path / "miniature"
    shutil.copytree(trained, folder)
    info = folder / "pack.toml"
    info.write_text(re.sub(r"(?m)^(identity|pixel)_copy = .*$", r"\1_copy = 2.0", info.read_text()))
    prepare_corpus(studies(), tmp_path / "corpus", SIZE)
    main([str(folder), str(tmp_path / "corpus"), "--patients", "2"])
    rows = json.loads((folder / "virtual" / "films.json").read_text())["films"]
    assert {row["patient"] for row in rows} == {0, 1}
    assert capsys.readouterr().out == f"{len(rows)} films of 2 patients in {folder / 'virtual'}\n"
    named = load_pack(folder).info["sha256"]  # checked against the files when it is loaded
    assert {f"virtual/{row['file']}" for row in rows} <= set(named)
