import pytest
import torch

from updp.models.autoencoder import Autoencoder
from updp.models.generator import Condition, Generator, UNet, join, noise_level, signal
from updp.models.vlm import VisionLanguage
from updp.training.tokenizer import train_tokenizer


@pytest.fixture(scope="module")
def generator():
    torch.manual_seed(0)
    tokenizer = train_tokenizer(["the heart is enlarged"], size=300, names=False)
    vlm = VisionLanguage(tokenizer.get_vocab_size(), width=32, layers=1, heads=2, context=16, size=32, space=8)
    vlm.tokenizer = tokenizer
    autoencoder = Autoencoder(channels=4, width=16)
    unet = UNet(4, (32, 32, 32), context=32)
    for p in unet.parameters():  # zero-initialised layers would hide what the text does
        torch.nn.init.normal_(p, std=0.05)
    films = torch.rand(8, 1, 64, 64)
    autoencoder.start_from_components(films)
    for module in (vlm, autoencoder, unet):
        module.eval().requires_grad_(False)
    return Generator(unet, autoencoder, vlm, size=64)


def test_a_film_depends_on_its_prompt_and_seed_alone(generator):
    alone = generator.generate(["The heart is enlarged."], [5], steps=3)
    among = generator.generate(["Clear lungs.", "The heart is enlarged."], [4, 5], steps=3)
    assert torch.allclose(alone[0], among[1], atol=1e-4)
    assert not torch.allclose(alone[0], generator.generate(["The heart is enlarged."], [6], steps=3)[0], atol=1e-2)
    assert not torch.equal(alone[0], generator.generate(["Clear lungs."], [5], steps=3)[0])


def test_little_strength_keeps_the_film_and_full_strength_forgets_it(generator):
    films = torch.rand(1, 1, 64, 64)
    kept = generator.autoencoder.decode(generator.autoencoder.encode(films))
    near, far = (
        generator.generate(["x"], [1], steps=8, init_images=films, strength=s).sub(kept).abs().mean()
        for s in (0.05, 0.9)
    )
    assert near < 0.3 * far
    text_only = generator.generate(["x"], [1], steps=8)
    forgotten = generator.generate(["x"], [1], steps=8, init_images=films, strength=1.0)
    assert (text_only - forgotten).abs().mean() < 0.02


def test_a_perfect_prediction_leads_back_to_the_film(generator):
    clean = torch.randn(2, *generator.latent_shape)
    noisy = generator.add_noise(clean, torch.randn_like(clean), torch.full((2,), 0.8))
    condition = generator.condition(["x", "y"])
    out = generator.sample(noisy, condition, 6, 1.0, start=0.8, predict=lambda x, t, c: clean)
    assert torch.allclose(out, clean, atol=1e-5)


def test_noise_and_velocity_tell_the_same_story(generator):
    clean, noise = torch.randn(3, *generator.latent_shape), torch.randn(3, *generator.latent_shape)
    t = torch.tensor([0.1, 0.5, 0.9])
    a, s = signal(t)[:, None, None, None], noise_level(t)[:, None, None, None]
    velocity = a * noise - s * clean
    honest = Generator(lambda x, t, c: velocity, generator.autoencoder, generator.vlm, size=64)
    assert torch.allclose(honest.noise(generator.add_noise(clean, noise, t), t, None), noise, atol=1e-5)


def test_gradients_reach_latents_and_condition(generator):
    condition = generator.condition(["The heart is enlarged."])
    states = condition.states.clone().requires_grad_()
    latents = torch.randn(1, *generator.latent_shape, requires_grad=True)
    generator.noise(latents, torch.tensor([0.5]), Condition(states, condition.mask)).sum().backward()
    assert latents.grad is not None
    assert states.grad is not None
    assert states.grad.abs().sum() > 0


def test_joined_conditions_keep_their_own_words(generator):
    short, long = generator.condition(["x"]), generator.condition(["The heart is enlarged."])
    both = join(short, long)
    assert both.mask[0].sum() == short.mask.sum()
    assert both.mask[1].sum() == long.mask.sum()
    latents, t = torch.randn(1, *generator.latent_shape), torch.tensor([0.4])
    alone = generator.noise(latents, t, short)
    assert torch.allclose(generator.noise(latents.repeat(2, 1, 1, 1), t.repeat(2), both)[:1], alone, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": [1, 2]}, "1 prompts but 2 seeds"),
        ({"strength": 0.5}, "init_images and strength belong together"),
        ({"strength": 1.5, "init_images": torch.rand(1, 1, 64, 64)}, "strength 1.5 is outside"),
    ],
)
def test_wrong_use_is_named(generator, arguments, message):
    with pytest.raises(ValueError, match=message):
        generator.generate(["x"], **{"seeds": [1], **arguments})


def test_no_prompts_give_no_films(generator):
    assert generator.generate([], []).shape == (0, 1, 64, 64)
