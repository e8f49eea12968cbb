"""The representation that a generator is conditioned on, and how its prior learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.miniature import SIZE, TINY, studies
from updp.models.generator import UNet
from updp.models.lapped import LappedAutoencoder
from updp.models.vlm import VisionLanguage
from updp.training.autoencoder import as_tensor
from updp.training.corpus import prepare_corpus
from updp.training.generator import draw_texts, unet_config
from updp.training.loop import run_stage
from updp.training.representation import PriorStage, principal, representations
from updp.training.tokenizer import train_tokenizer

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("representation")
    corpus = prepare_corpus(studies(), folder / "corpus", SIZE)
    tokenizer = train_tokenizer([t for row in corpus.sentences for t in row], 300, False)
    torch.manual_seed(0)
    vlm = VisionLanguage(tokenizer.get_vocab_size(), **TINY.vlm_model)
    vlm.tokenizer = tokenizer
    for part in vlm.modules():  # features of an untrained network hardly differ, until its norms know the films
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = 1.0
    with torch.no_grad():
        vlm.train()
        vlm.image(as_tensor(corpus.films))
    return folder, corpus, vlm.eval()


def test_numbers_are_centred_and_the_first_spread_most():
    rng = np.random.default_rng(0)
    features = (rng.normal(size=(400, 12)) * 2.0 ** -np.arange(12) + 3).astype(np.float32)
    mean, directions = principal(features, 6)
    shown = (features - mean) @ directions
    assert np.allclose(shown.mean(0), 0, atol=1e-3)
    spreads = shown.var(0)
    assert (np.diff(spreads) < 0).all()
    assert spreads.mean() == pytest.approx(1, rel=0.02)
    # The first of twelve halving deviations has four times the variance of the second, and keeps twice of it.
    assert spreads[0] / spreads[1] == pytest.approx(2, rel=0.3)
    assert np.abs(np.corrcoef(shown.T) - np.eye(6)).max() < 0.01


def test_features_in_which_films_hardly_differ_stay_within_half_precision():
    features = (1e-7 * np.random.default_rng(0).normal(size=(50, 8))).astype(np.float32)
    assert np.isfinite(principal(features, 4)[1].astype(np.float16)).all()


def test_the_map_gives_films_the_numbers_that_were_kept(parts):
    folder, corpus, vlm = parts
    representation, shown = representations(corpus, vlm, 6, folder)
    again = representation(as_tensor(corpus.films[:4])).detach().numpy()
    assert np.allclose(again, shown[:4], atol=1e-3)
    assert len(list(folder.glob("features-*.npy"))) == 1


def test_films_that_do_not_train_have_no_part_in_the_map(parts, tmp_path):
    _, corpus, vlm = parts
    before, _ = representations(corpus, vlm, 6, tmp_path / "a")
    films = np.array(corpus.films)
    films[corpus.splits != "train"] = 255 - films[corpus.splits != "train"]
    after, _ = representations(replace(corpus, films=films), vlm, 6, tmp_path / "b")
    assert torch.equal(before.directions, after.directions)


def test_a_prior_learns_and_takes_the_map_along(parts, tmp_path):
    folder, corpus, vlm = parts
    autoencoder = LappedAutoencoder(**TINY.autoencoder_model)
    unet = UNet(**unet_config(autoencoder, vlm.tokenizer, {**TINY.generator_model, "representation": 6}))
    texts = draw_texts(corpus, vlm.tokenizer, unet.config["length"], folder)
    representation, shown = representations(corpus, vlm, 6, folder)
    config = replace(TINY.generator_prior, steps=80, batch=32, rate=1e-3, average=0.9)
    # Numbers that the text tells. Of numbers with a variance of 1 that it does not, no prior knows more than nothing.
    told = np.where(corpus.labels[:, [1]] == 1, 3, -3).repeat(6, 1).astype(np.float32)
    stage = PriorStage(corpus, config, texts, unet, told, representation, {})

    def error(module):
        with torch.no_grad():
            return float(stage.loss(module, 0, np.random.default_rng(0), torch.device("cpu")))

    before = error(stage.module)
    prior = run_stage(stage, config, tmp_path, build=stage.build, say=lambda _: None)
    assert error(prior) < 0.5 * before
    assert set(stage.validate(prior)) == {"validation loss", "with texts of others"}
    unet.load_prior(prior)
    features = vlm.image(as_tensor(corpus.films[:4]))
    assert np.allclose(unet.prior.of_features(features).detach().numpy(), shown[:4], atol=1e-3)


def test_only_a_unet_with_a_prior_takes_one(parts):
    unet = UNet(channels=4, widths=(32, 32), context=16, embedding=32)
    with pytest.raises(RuntimeError, match="no representation"):
        unet.load_prior(UNet(channels=4, widths=(32, 32), context=16, embedding=32, representation=3).prior)
