"""The finisher: low-rank changes of the generator, trained against a critic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.miniature import SIZE, TINY, studies
from updp.models.generator import Generator, UNet
from updp.models.lapped import LappedAutoencoder
from updp.models.samplers import Sampling
from updp.training.corpus import prepare_corpus
from updp.training.finisher import Critic, FinisherStage, draw_view, own_half_way
from updp.training.generator import Rows, draw_texts, token_batch, unet_config
from updp.training.loop import run_stage
from updp.training.tokenizer import train_tokenizer

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finisher")
    corpus = prepare_corpus(studies(), folder / "corpus", SIZE)
    tokenizer = train_tokenizer([t for row in corpus.sentences for t in row], 300, False)
    torch.manual_seed(0)
    autoencoder = LappedAutoencoder(**TINY.autoencoder_model)
    unet = UNet(**unet_config(autoencoder, tokenizer, TINY.generator_model))
    torch.nn.init.normal_(unet.last.weight, std=0.05)
    texts = draw_texts(corpus, tokenizer, unet.config["length"], folder)
    return folder, corpus, texts, autoencoder, unet


def stage_of(parts, own=None, steps=3):
    folder, corpus, texts, autoencoder, unet = parts
    config = replace(TINY.generator_finisher, steps=steps)
    torch.manual_seed(1)
    return FinisherStage(corpus, config, autoencoder, texts, unet, 4, own, folder, imagenet=False), config


def test_only_finisher_and_critic_learn_and_the_generator_stays(parts, tmp_path):
    stage, config = stage_of(parts)
    unet = parts[-1]
    before = {name: value.clone() for name, value in unet.state_dict().items()}
    module = run_stage(stage, config, tmp_path, build=stage.build, say=lambda _: None)
    joined = stage.finished(module)
    kept = {k: v for k, v in joined.state_dict().items() if not k.startswith("finisher.")}
    assert kept.keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in kept.items())
    changes = [v for k, v in joined.state_dict().items() if k.startswith("finisher.") and k.endswith("/up")]
    assert any(v.abs().max() > 0 for v in changes)


def test_a_killed_training_goes_on_with_the_same_result(parts, tmp_path):
    whole_stage, config = stage_of(parts)
    whole = run_stage(whole_stage, config, tmp_path / "whole", build=whole_stage.build, say=lambda _: None)
    first, _ = stage_of(parts)
    run_stage(first, config, tmp_path / "cut", build=first.build, say=lambda _: None, stop_after=0.0)
    second, _ = stage_of(parts)
    again = run_stage(second, config, tmp_path / "cut", build=second.build, say=lambda _: None)
    for name, value in whole.network.state_dict().items():
        assert torch.allclose(value, again.network.state_dict()[name], atol=1e-5), name


def test_half_way_latents_are_drawn_once_and_carry_their_texts(parts):
    folder, corpus, texts, autoencoder, unet = parts
    sampling = Sampling(**TINY.sampling)
    drawing = Generator(unet, autoencoder, None, SIZE, sampling)
    drawing.condition = lambda prompts: unet.condition(  # no vlm here: the empty text is two tokens
        torch.ones(len(prompts), 2, dtype=torch.long), torch.ones(len(prompts), 2, dtype=torch.bool)
    )
    rows = Rows(corpus, texts, {})
    own = own_half_way(drawing, texts, rows, 6, folder / "own", seed=3)
    again = own_half_way(drawing, texts, rows, 6, folder / "own", seed=3)
    assert own.latents.shape == (6, 8, SIZE // 16, SIZE // 16)
    assert np.isfinite(own.latents.astype(np.float32)).all()
    assert np.array_equal(own.latents, again.latents)
    assert len(list((folder / "own").glob("half-way-*.npz"))) == 1
    stage, _ = stage_of(parts, own)
    loss = stage.loss(stage.module, 100, np.random.default_rng(0), torch.device("cpu"))
    assert torch.isfinite(loss)


def test_the_critic_has_no_opinion_on_texts_that_are_not_known():
    torch.manual_seed(0)
    critic = Critic(width=8).eval()
    maps = [torch.randn(3, c, s, s) for c, s in ((24, 16), (40, 8), (112, 4), (320, 2))]
    said = torch.zeros(3, 30)
    said[1] = -1
    _, fits = critic(maps, said)
    assert fits[1] == 0
    assert fits[0] != 0


def test_one_step_shows_the_critic_the_same_part_of_real_and_made_films():
    torch.manual_seed(0)
    autoencoder, rng = LappedAutoencoder(channels=4, widths=(8, 8, 8, 8, 8), grain=True), np.random.default_rng(0)
    latents = torch.randn(2, 4, 8, 8)
    base = autoencoder.synthesise(latents)
    decoded, seen = autoencoder.refine(latents, base), set()
    for _ in range(12):
        view = draw_view(rng, autoencoder, 8)
        shown = view(latents, base)
        assert shown.shape[-2:] == (96, 96)
        assert torch.equal(shown, view(latents, base))
        # Untrained, the decoder adds nothing but grain, so a crop is a part of the decoded film.
        places = [(i, j) for i in (0, 16, 32) for j in (0, 16, 32)
                  if torch.allclose(shown, decoded[:, :, i : i + 96, j : j + 96], atol=1e-5)]  # fmt: skip
        seen |= set(places)
    assert len(seen) > 2


def test_the_critic_sees_what_the_decoder_makes_of_latents():
    """A decoder that adds something shows it to the critic, and its gradient reaches the latents."""
    torch.manual_seed(0)
    autoencoder = LappedAutoencoder(channels=4, widths=(8, 8, 8, 8, 8))
    torch.nn.init.constant_(autoencoder.refine.out.bias, 0.25)
    latents = torch.randn(1, 4, 4, 4, requires_grad=True)
    for seed in range(6):
        view = draw_view(np.random.default_rng(seed), autoencoder, 4)
        base = autoencoder.synthesise(latents)
        plain = torch.zeros_like(base)
        assert torch.allclose(view(latents, plain).mean(), torch.tensor(0.25), atol=1e-5)
        (gradient,) = torch.autograd.grad(view(latents, base).sum(), latents)
        assert gradient.abs().sum() > 0


def test_a_second_look_is_learned_from_what_the_sampler_shows_it(parts, monkeypatch):
    """With one time to look again at, finishing from the stage's latents is the sampler's second look."""
    _, _, texts, autoencoder, unet = parts
    monkeypatch.setattr("updp.training.finisher.AGAIN_TIMES", (0.5, 0.5))
    stage, _ = stage_of(parts)
    for name, value in stage.module.network.named_parameters():
        if name.endswith("up.weight"):
            torch.nn.init.normal_(value, std=0.02, generator=torch.Generator().manual_seed(4))
    generator = Generator(stage.finished(stage.module), autoencoder, None, SIZE, Sampling(**TINY.sampling))
    latents = torch.randn(3, 8, SIZE // 16, SIZE // 16, generator=torch.Generator().manual_seed(2))
    condition = unet.condition(*token_batch(texts.ids[:3, 0], torch.device("cpu")))
    with torch.no_grad():
        first = torch.full((3,), 0.75)
        shown, times = stage._look_again(stage.module, latents, first, condition, np.random.default_rng(0))
        assert times.tolist() == [0.5] * 3
        ours = stage.module(shown, times, condition)
        assert torch.allclose(ours, generator.finish(latents, condition, [0.75, 0.5]), atol=1e-4)
        assert not torch.allclose(ours, stage.module(latents, first, condition), atol=1e-2)
