import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.miniature import SIZE, studies
from updp.models.lapped import LappedAutoencoder
from updp.training.autoencoder import (
    CodeStage,
    DecoderStage,
    WithAdversary,
    as_tensor,
    block_energies,
    high_passed,
    power_error,
    principal_axes,
    start_from_blocks,
    upper_bands,
)
from updp.training.corpus import prepare_corpus
from updp.training.loop import StageConfig, run_stage

pytestmark = pytest.mark.numeric

MODEL = {"channels": 6, "widths": [16, 16, 8, 8, 8]}
STEPS = StageConfig(steps=8, batch=4, rate=1e-3, warmup=1, momentum=0.7)


def quiet(_: str) -> None:
    pass


def discs(count, size):
    """Films of sharp edges, which a few linear components cannot say."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:size, 0:size] / size
    out = np.full((count, size, size), 0.2)
    for film in out:
        for _ in range(3):
            cy, cx, r = *rng.uniform(0.1, 0.9, 2), rng.uniform(0.08, 0.3)
            film[(y - cy) ** 2 + (x - cx) ** 2 < r**2] = rng.uniform(0.3, 0.9)
    return (out * 255).astype(np.uint8)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    made = prepare_corpus(studies(), tmp_path_factory.mktemp("corpus"), SIZE)
    return replace(made, films=discs(len(made.films), SIZE))


def linear_error(module, films):
    return float((module.synthesise(module.encode(films)) - films).detach().square().mean())


@pytest.fixture(scope="module")
def code(corpus):
    torch.manual_seed(0)
    module = LappedAutoencoder(**MODEL).eval()
    films = as_tensor(corpus.films)
    start_from_blocks(module, films)
    principal_axes(module, films)
    return module.requires_grad_(False)


def test_a_turned_code_gives_back_the_same_films(corpus):
    films = as_tensor(corpus.films)
    module = LappedAutoencoder(**MODEL)
    start_from_blocks(module, films)
    before = module.synthesise(module.encode(films)).detach()
    principal_axes(module, films)
    after = module.synthesise(module.encode(films)).detach()
    assert torch.allclose(before, after, atol=1e-3)


def test_latents_are_of_unit_size_and_coarse_channels_larger(code, corpus):
    latents = code.encode(as_tensor(corpus.films))
    spread = latents.std((0, 2, 3))
    assert latents.square().mean().sqrt() == pytest.approx(1, abs=1e-2)
    assert latents.mean((0, 2, 3)).abs().max() < 1e-3
    assert (spread[:-1] >= spread[1:] * 0.98).all()
    # Divided by the root of the spread, not by the spread: the root is what is left.
    whole = spread * code.scale
    assert (spread / whole.sqrt()).std() < 0.02 * (spread / whole.sqrt()).mean()


def test_overlap_makes_the_code_better(corpus, tmp_path):
    config = StageConfig(steps=40, batch=16, rate=3e-3, warmup=1, decay=0, average=0.5, clip=1e9)
    stage = CodeStage(corpus, config, MODEL)
    films = as_tensor(corpus.films)
    before = linear_error(stage.module, films)
    module = stage.finished(run_stage(stage, config, tmp_path, build=stage.build, say=quiet))
    assert linear_error(module, films) < 0.95 * before


def test_the_adversary_sees_texture_and_no_grey():
    films = torch.rand(2, 1, 32, 32)
    assert torch.allclose(high_passed(films * 0.01), high_passed(films * 0.01 + 0.5), atol=1e-4)
    assert high_passed(films * 0.01).std() > 0.05


def test_block_energies_grow_with_grain_and_not_with_grey_or_its_phase():
    rng = torch.Generator().manual_seed(0)
    smooth = torch.full((2, 1, 64, 64), 0.3)
    grain, other = (torch.randn(2, 1, 64, 64, generator=rng) * 0.02 for _ in range(2))
    for plain, bright, noisy, twice, another in zip(
        *(
            [block_energies(band) for band in upper_bands(x)]
            for x in (smooth, smooth + 0.4, smooth + grain, smooth + 2 * grain, smooth + other)
        ),
        strict=True,
    ):
        assert plain.allclose(bright, atol=1e-4)
        assert (noisy > plain + 1).all()
        # Twice the contrast is four times the energy, less what the floor hides.
        assert (twice - noisy).mean() == pytest.approx(np.log(4), abs=0.15)
        assert abs(float((another - noisy).mean())) < 0.25


def test_power_is_compared_by_its_ratio_whatever_the_phase():
    rng = torch.Generator().manual_seed(0)
    real, other = (torch.randn(2, 1, 64, 64, generator=rng) for _ in range(2))
    for ours, theirs in zip(upper_bands(other), upper_bands(real), strict=True):
        assert float(power_error(theirs, theirs)) == 0
        assert float(power_error(2 * theirs, theirs)) == pytest.approx(np.log(4) ** 2, rel=1e-4)
        assert float(power_error(theirs / 2, theirs)) == pytest.approx(np.log(4) ** 2, rel=1e-4)
        assert float(power_error(ours, theirs)) < 0.1
    assert torch.isfinite(power_error(torch.zeros(2, 1, 8, 8), real[:, :, :8, :8]))


def test_each_side_of_the_game_moves_its_own_weights(code, corpus):
    stage = DecoderStage(corpus, STEPS, code, crop=SIZE, width=8)
    module = stage.module
    made, real = torch.rand(2, 1, 48, 48), torch.rand(2, 1, 48, 48)
    made.requires_grad_()
    stage._opposed(module.discriminator, made, real, step=stage.begin).backward()
    first = {name: p.grad.clone() for name, p in module.discriminator.named_parameters()}
    assert made.grad.abs().sum() > 0
    module.zero_grad()
    stage._opposed(module.discriminator, made.detach(), real, step=stage.begin).backward()
    # What the decoder wants of the discriminator never reaches the discriminator's weights.
    assert all(torch.allclose(first[name], p.grad, atol=1e-6) for name, p in module.discriminator.named_parameters())


def with_grain(code):
    made = LappedAutoencoder(**{**code.config, "grain": True})
    made.load_state_dict(code.state_dict(), strict=False)
    return made.requires_grad_(False)


def test_the_decoder_learns_and_leaves_the_code_alone(code, corpus, tmp_path):
    torch.manual_seed(0)
    code = copy.deepcopy(code)
    code.synthesis.weight.mul_(0.5)  # a synthesis of too little contrast leaves something to learn
    code = with_grain(code)
    config = StageConfig(steps=30, batch=8, rate=1e-2, warmup=1, momentum=0.7, average=0.5, clip=0.5)
    stage = DecoderStage(corpus, config, code, crop=SIZE, width=8, directory=tmp_path / "sheets")
    made = run_stage(stage, config, tmp_path, build=stage.build, say=quiet)
    films = as_tensor(corpus.films[corpus.rows("train")])
    assert all(a.equal(b) for a, b in zip(made.autoencoder.linear, code.linear, strict=True))
    better = (made.autoencoder(films) - films).square().mean()
    assert better < 0.8 * linear_error(code, films)
    assert (tmp_path / "sheets" / "decoder-sheet-000030.png").is_file()
    assert {"psnr", "ssim", "power 4-8", "power 8-32"} <= set(stage.validate(made))


def test_a_killed_decoder_goes_on_where_it_stopped(code, corpus, tmp_path):
    torch.manual_seed(0)
    begin = WithAdversary(LappedAutoencoder(**MODEL), 8)
    begin.autoencoder.load_state_dict(code.state_dict())
    ends = []
    for folder, stop in (("whole", None), ("parts", 0)):
        for _ in range(8 if stop == 0 else 1):
            stage = DecoderStage(corpus, STEPS, begin, crop=SIZE, width=8)
            made = run_stage(stage, STEPS, tmp_path / folder, build=stage.build, say=quiet, stop_after=stop)
        ends.append(torch.cat([p.flatten() for p in made.state_dict().values()]))
    assert torch.equal(*ends)


def test_the_last_phase_holds_the_greys_of_the_generators_own_latents(code, corpus, tmp_path):
    torch.manual_seed(0)
    begin = WithAdversary(LappedAutoencoder(**MODEL), 8)
    begin.autoencoder.load_state_dict(code.state_dict())
    own = torch.randn(6, 6, 4, 4, generator=torch.Generator().manual_seed(0))
    stage = DecoderStage(corpus, STEPS, begin, own=own, crop=SIZE, width=8)
    assert stage.name == "decoder-own"
    made = run_stage(stage, STEPS, tmp_path, build=stage.build, say=quiet)
    figures = stage.validate(made)
    assert "own power 4-8" in figures


def test_latents_are_disturbed_within_bounds(code, corpus):
    stage = DecoderStage(corpus, STEPS, code, crop=SIZE, width=8)
    latents = torch.ones(64, 6, 4, 4)
    away = (stage.disturbed(latents, np.random.default_rng(0)) - latents).flatten(2)
    assert away.mean(-1)[:, 0].abs().max() < 0.3
    assert away.mean(-1)[:, -1].min() < -0.15
    assert (away.std(-1).amax(1) < 0.5).all()


def test_a_further_stage_learns_films_of_twice_the_size(tmp_path):
    """What `size = 512` adds, at 128 pixels: the same latents, one more decoder stage."""

    torch.manual_seed(0)
    corpus = prepare_corpus(studies(8), tmp_path / "corpus", 2 * SIZE)
    corpus = replace(corpus, films=discs(len(corpus.films), 2 * SIZE))
    films = as_tensor(corpus.films)
    module = LappedAutoencoder(**MODEL, further=[8])
    start_from_blocks(module, films)
    principal_axes(module, films)
    module.requires_grad_(False).synthesis.weight.mul_(0.5)
    config = StageConfig(steps=12, batch=4, rate=1e-2, warmup=1, momentum=0.7, average=0.5)
    stage = DecoderStage(corpus, config, module, crop=2 * SIZE, width=8)
    before = (module(films) - films).square().mean().item()
    made = run_stage(stage, config, tmp_path / "run", build=stage.build, say=quiet).autoencoder
    assert made.encode(films).shape[-2:] == (4, 4)
    assert made(films).shape == films.shape
    assert (made(films) - films).square().mean().item() < 0.9 * before
