import numpy as np
import pytest
import torch

from tests.training.miniature import SIZE, TINY, studies
from updp.models.generator import UNet
from updp.models.lapped import LappedAutoencoder
from updp.models.vlm import VisionLanguage
from updp.training.augment import NUMBERS, change
from updp.training.autoencoder import as_tensor, principal_axes, start_from_blocks
from updp.training.corpus import prepare_corpus
from updp.training.generator import (
    GeneratorStage,
    GeneratorTextStage,
    Rows,
    Texts,
    draw_texts,
    said_loss,
    unet_config,
)
from updp.training.loop import StageConfig, TrainingError, run_stage
from updp.training.prompts import ATTRIBUTES
from updp.training.tokenizer import train_tokenizer

pytestmark = pytest.mark.numeric

MODEL = {"widths": [32, 32], "context": 32, "layers": 1, "heads": 2, "length": 16, "sentence_layers": 2}


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return prepare_corpus(studies(), tmp_path_factory.mktemp("corpus"), SIZE)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["the heart is enlarged"], 300, names=False)


@pytest.fixture(scope="module")
def texts(corpus, tokenizer, tmp_path_factory):
    return draw_texts(corpus, tokenizer, 16, tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def parts(corpus, tokenizer):
    torch.manual_seed(0)
    autoencoder = LappedAutoencoder(channels=4, widths=(16, 16, 8, 8, 8))
    films = as_tensor(corpus.films)
    start_from_blocks(autoencoder, films)
    principal_axes(autoencoder, films)
    vlm = VisionLanguage(tokenizer.get_vocab_size(), **TINY.vlm_model)
    vlm.tokenizer = tokenizer
    return autoencoder, vlm


def test_texts_are_drawn_once_and_say_what_the_labels_say(corpus, tokenizer, texts, tmp_path):
    again = draw_texts(corpus, tokenizer, 16, tmp_path)
    assert np.array_equal(again.ids, texts.ids)
    (kept,) = tmp_path.iterdir()
    stamp = kept.stat().st_mtime_ns
    draw_texts(corpus, tokenizer, 16, tmp_path)
    assert [p.stat().st_mtime_ns for p in tmp_path.iterdir()] == [stamp]
    heart = ATTRIBUTES.index("Cardiomegaly")
    # A report may leave a finding out; a text composed from labels may not.
    stated = np.array([not own for own in corpus.sentences])
    truth = corpus.labels[:, 1][:, None].repeat(texts.said.shape[1], 1)
    assert np.array_equal(texts.said[stated][:, :, heart], truth[stated])
    assert (texts.ids[..., -1][(texts.ids > 0).all(-1)] == tokenizer.token_to_id("[SEP]")).all()


def test_films_nobody_says_anything_of_are_not_drawn(corpus, texts):
    ids = texts.ids.copy()
    ids[corpus.rows("train")[3:], :, 2:] = 0
    rows = Rows(corpus, Texts(ids, texts.said), {})
    assert set(rows.draw(200, np.random.default_rng(0))) == set(corpus.rows("train")[:3])
    with pytest.raises(TrainingError, match="no training film has a label or a report"):
        Rows(corpus, Texts(np.zeros_like(ids), texts.said), {})


def test_a_heavier_source_is_drawn_more_often(corpus, texts):
    from dataclasses import replace

    ids = np.array([("a/" if i % 2 else "b/") + name for i, name in enumerate(corpus.ids)])
    mixed = replace(corpus, ids=ids)
    drawn = Rows(mixed, texts, {"a": 3.0}).draw(4000, np.random.default_rng(0))
    assert 0.7 < (mixed.sources()[drawn] == "a").mean() < 0.8


def test_the_text_tower_learns_what_sentences_say(corpus, tokenizer, texts, parts, tmp_path):
    torch.manual_seed(0)
    config = StageConfig(steps=40, batch=16, rate=3e-3, warmup=1, average=0.5)
    stage = GeneratorTextStage(corpus, config, texts, unet_config(parts[0], tokenizer, MODEL), {})
    before = stage.validate(stage.module)["validation loss"]
    still = stage.module.first.weight.clone()
    made = run_stage(stage, config, tmp_path, build=stage.build, say=quiet)
    assert stage.validate(made)["validation loss"] < 0.6 * before
    assert made.first.weight.equal(still)


def test_what_a_text_leaves_open_is_not_judged(tokenizer, parts):
    unet = UNet(**unet_config(parts[0], tokenizer, MODEL))
    ids = torch.tensor([[2, 7, 3], [2, 9, 3]])
    condition = unet.condition(ids, ids > 0)
    said = np.full((2, len(ATTRIBUTES)), -1, np.int8)
    assert said_loss(unet, condition, said) == 0
    said[1] = 0
    assert said_loss(unet, condition, said) > 0


def test_the_generator_learns_and_keeps_its_sheets(corpus, tokenizer, texts, parts, tmp_path):
    torch.manual_seed(0)
    config = StageConfig(steps=60, batch=16, rate=3e-3, warmup=5, schedule="stable", average=0.9)
    start = UNet(**unet_config(parts[0], tokenizer, MODEL))
    stage = GeneratorStage(corpus, config, *parts, texts, start, {}, tmp_path)
    before = stage.validate(stage.module)
    made = run_stage(stage, config, tmp_path, build=stage.build, say=quiet)
    after = stage.validate(made)
    assert after["validation loss"] < 0.8 * before["validation loss"]
    assert {"power 4-8", "power 8-32"} <= set(after)
    assert (tmp_path / "generator-sheet-000060.png").is_file()
    own = stage.own_latents(made, 5)
    assert own.shape == (5, 4, 4, 4)
    assert own.equal(stage.own_latents(made, 5))


def test_a_change_is_told_and_unchanged_films_are_told_zero():
    films = torch.rand(40, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    made, numbers = change(films, np.random.default_rng(0), share=0.5)
    same = (made == films).flatten(1).all(1)
    assert numbers.shape == (40, NUMBERS)
    assert torch.equal(same, (numbers == 0).all(1))
    assert 5 < same.sum() < 35
    assert numbers.abs().max() <= 1
    assert made.min() >= 0
    assert made.max() <= 1


def test_a_change_never_mirrors_a_film():
    films = torch.zeros(200, 1, 64, 64)
    films[:, :, 16:48, 8:24] = 1  # on the film's left
    made, _ = change(films, np.random.default_rng(0), share=1.0)
    assert (made[..., :32].mean((1, 2, 3)) > made[..., 32:].mean((1, 2, 3))).all()
