"""The prior: representations that follow their text, and a U-Net that takes them."""

from __future__ import annotations

import pytest
import torch

from updp.models.generator import Condition, Generator, UNet, join, settled
from updp.models.prior import Prior
from updp.models.samplers import Sampling, alpha, sigma

from .test_generator import generator  # noqa: F401

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def learned():
    """A prior of two numbers: text (1, 0) stands at +1, text (0, 1) at −1, each with a spread of 0.5."""
    torch.manual_seed(0)
    prior = Prior(2, 2, width=32, layers=2)
    optimizer = torch.optim.Adam(prior.parameters(), 5e-3)
    for _ in range(300):
        side = torch.randint(0, 2, (256,))
        text = torch.nn.functional.one_hot(side, 2).float() * (torch.rand(256, 1) > 0.1)
        clean = (1 - 2 * side[:, None]) + 0.5 * torch.randn(256, 2)
        noise, t = torch.randn(256, 2), torch.rand(256)
        a, s = alpha(t)[:, None], sigma(t)[:, None]
        loss = (prior(a * clean + s * noise, t, text) - (a * noise - s * clean)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return prior.eval()


def _drawn(prior, text, guidance=1.0):
    noise = torch.randn(400, 2, generator=torch.Generator().manual_seed(1))
    return prior.sample(noise, torch.tensor([text]).expand(400, 2), guidance)


def test_representations_follow_their_text_and_keep_its_spread(learned):
    first, second = _drawn(learned, (1.0, 0.0)), _drawn(learned, (0.0, 1.0))
    assert first.mean() > 0.6
    assert second.mean() < -0.6
    assert 0.25 < first.std(0).mean() < 0.9


def test_guidance_leads_further_from_what_any_text_has(learned):
    assert _drawn(learned, (1.0, 0.0), 2.0).mean() > _drawn(learned, (1.0, 0.0)).mean() + 0.1


@pytest.fixture(scope="module")
def with_prior(generator):  # noqa: F811
    torch.manual_seed(2)
    unet = UNet(4, (32, 32, 32), context=32, representation=5)
    for p in unet.parameters():
        torch.nn.init.normal_(p, std=0.05)
    unet.eval().requires_grad_(False)
    return Generator(unet, generator.autoencoder, generator.vlm, size=64, sampling=Sampling(steps=3))


def test_a_row_of_zeros_is_no_representation(with_prior):
    condition = with_prior.condition(["heart"])
    x, t = torch.randn(1, *with_prior.latent_shape), torch.tensor([0.5])
    plain = with_prior.unet(x, t, condition)
    assert with_prior.unet(x, t, Condition(*condition[:2], torch.zeros(1, 6))).allclose(plain, atol=1e-6)
    assert not with_prior.unet(x, t, settled(condition, torch.ones(1, 5))).allclose(plain, atol=1e-4)


def test_conditions_with_and_without_representation_join_and_keep_their_own(with_prior):
    open_, fixed = with_prior.condition(["clear lungs"]), settled(with_prior.condition(["heart"]), torch.ones(1, 5))
    both = join(fixed, open_)
    assert both.representation.tolist() == [[1.0] * 6, [0.0] * 6]
    x, t = torch.randn(2, *with_prior.latent_shape), torch.tensor([0.5, 0.5])
    together = with_prior.unet(x, t, both)
    assert together[:1].allclose(with_prior.unet(x[:1], t[:1], fixed), atol=1e-4)
    assert together[1:].allclose(with_prior.unet(x[1:], t[1:], open_), atol=1e-4)
    assert both.rows(slice(1, 2)).representation.tolist() == [[0.0] * 6]


def test_a_film_depends_on_its_prompt_and_seed_alone_with_a_prior_too(with_prior):
    alone = with_prior.generate(["The heart is enlarged."], [5])
    among = with_prior.generate(["Clear lungs.", "The heart is enlarged."], [4, 5])
    assert torch.allclose(alone[0], among[1], atol=1e-4)


def test_the_drawn_representation_reaches_the_film(with_prior):
    before = with_prior.generate(["heart"], [5])
    kept = with_prior.unet.prior.last.bias.clone()
    try:
        with_prior.unet.prior.last.bias.add_(3)
        assert not torch.allclose(with_prior.generate(["heart"], [5]), before, atol=1e-3)
    finally:
        with_prior.unet.prior.last.bias.copy_(kept)


def test_latents_and_representation_of_one_seed_are_not_one_draw(with_prior):
    latents = with_prior.seeded_noise([7]).flatten()[:5]
    drawn = []
    real = with_prior.unet.prior.sample
    with_prior.unet.prior.sample = lambda noise, *rest: drawn.append(noise) or real(noise, *rest)  # type: ignore[method-assign]
    try:
        with_prior.generate(["heart"], [7])
    finally:
        del with_prior.unet.prior.sample
    assert not torch.allclose(drawn[0][0], latents)


def test_a_unet_without_prior_leaves_conditions_as_they_are(generator):  # noqa: F811
    condition = generator.condition(["heart"])
    assert generator.represented(condition, [1]) is condition
    assert generator.settled_by(condition, torch.rand(1, 1, 64, 64)) is condition
    assert not generator.has_prior


def test_methods_take_the_generator_without_its_prior():
    unet = UNet(channels=4, widths=(32, 32), context=16, embedding=32, representation=3)
    bare = UNet(**unet.without_text())
    assert bare.prior is None
    assert set(bare.state_dict()) < set(unet.state_dict())
