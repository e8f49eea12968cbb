import pytest
import torch

from tests.models.linear_start import start_from_components
from updp.models.autoencoder import Autoencoder
from updp.models.generator import Condition, Generator, UNet, join
from updp.models.samplers import alpha, sigma
from updp.models.vlm import VisionLanguage
from updp.training.tokenizer import train_tokenizer

pytestmark = pytest.mark.numeric


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
    start_from_components(autoencoder, films)
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
    a, s = alpha(t)[:, None, None, None], sigma(t)[:, None, None, None]
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


@pytest.fixture(scope="module")
def own_tower(generator):
    """A generator whose U-Net has its own text tower."""
    torch.manual_seed(1)
    words = generator.vlm.tokenizer.get_vocab_size()
    unet = UNet(
        4, (32, 32), context=32, embedding=48, vocabulary=words, layers=1, heads=2, length=8,
        sentence_layers=2, augmentation=6, attributes=5,
    )  # fmt: skip
    for p in unet.parameters():
        torch.nn.init.normal_(p, std=0.05)
    unet.eval().requires_grad_(False)
    return Generator(unet, generator.autoencoder, generator.vlm, size=64)


def test_a_unet_with_its_own_text_tower_does_not_hear_the_vlms(own_tower):
    before = own_tower.generate(["The heart is enlarged."], [5], steps=3)
    kept = {k: v.clone() for k, v in own_tower.vlm.state_dict().items()}
    try:
        own_tower.vlm.text.tokens.weight.add_(1)
        assert own_tower.generate(["The heart is enlarged."], [5], steps=3).equal(before)
    finally:
        own_tower.vlm.load_state_dict(kept)
    assert not own_tower.generate(["Clear lungs."], [5], steps=3).equal(before)


def test_a_long_prompt_is_cut_to_what_the_tower_learned(own_tower):
    condition = own_tower.condition(["the heart is enlarged " * 10, "heart"])
    assert condition.states.shape == (2, 8, 32)
    assert condition.mask.sum(1).tolist()[0] == 8


def test_no_augmentation_is_zero_augmentation(own_tower):
    condition = own_tower.condition(["heart"])
    x, t = torch.randn(1, *own_tower.latent_shape), torch.tensor([0.5])
    plain = own_tower.unet(x, t, condition)
    assert own_tower.unet(x, t, condition, torch.zeros(1, 6)).allclose(plain, atol=1e-6)
    assert not own_tower.unet(x, t, condition, torch.ones(1, 6)).allclose(plain, atol=1e-4)


def test_a_unet_is_built_again_from_its_configuration(own_tower):
    again = UNet(**own_tower.unet.config)
    again.load_state_dict(own_tower.unet.state_dict())
    bare = UNet(**own_tower.unet.without_text())
    assert bare.text is None
    assert set(bare.state_dict()) < set(again.state_dict())


def test_weights_under_the_names_of_the_first_pack_still_load():
    torch.manual_seed(0)
    first, second = UNet(4, (32, 32), context=16), UNet(4, (32, 32), context=16)
    old = {k.replace("self_attn", "among").replace("cross_attn", "across"): v for k, v in first.state_dict().items()}
    assert any(".among." in name for name in old)
    second.load_state_dict(old)
    assert all(a.equal(b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True))


def test_steps_and_guidance_of_the_pack_are_used_unless_given(generator):
    from updp.models.samplers import Sampling

    eased = Generator(generator.unet, generator.autoencoder, generator.vlm, 64, Sampling(3, 2.0, "log_snr"))
    plain = Generator(generator.unet, generator.autoencoder, generator.vlm, 64, Sampling(3, 2.0))
    assert eased.generate(["x"], [1]).equal(eased.generate(["x"], [1], steps=3, guidance=2.0))
    assert plain.generate(["x"], [1]).equal(generator.generate(["x"], [1], steps=3, guidance=2.0))
    assert not eased.generate(["x"], [1]).equal(plain.generate(["x"], [1]))


# -- the finisher ----------------------------------------------------------------------------------------------------


def _with_finisher(unet, size=0.05):
    from updp.models.low_rank import empty_paths

    source = torch.Generator().manual_seed(4)
    empty = empty_paths(unet, 4, UNet.SHARED)
    return unet.with_finisher({k: size * torch.randn(v.shape, generator=source) for k, v in empty.items()}, 4)


def test_a_generator_carries_its_finisher_in_one_set_of_weights():
    torch.manual_seed(0)
    plain = UNet(channels=4, widths=(32, 32), context=16, embedding=32)
    joined = _with_finisher(plain)
    again = UNet(**joined.config)
    again.load_state_dict(joined.state_dict())
    x, t = torch.randn(2, 4, 8, 8), torch.tensor([0.5, 0.7])
    assert torch.equal(again.finished()(x, t), joined.finished()(x, t))
    assert torch.equal(joined(x, t), plain(x, t))
    assert plain.finished() is None


def test_methods_take_the_generator_without_finisher_and_text():
    plain = UNet(channels=4, widths=(32, 32), context=16, embedding=32)
    joined = _with_finisher(plain)
    bare = UNet(**joined.without_text())
    bare.load_state_dict(joined.bare_state())
    assert bare.finisher is None
    assert torch.equal(bare.first.weight, plain.first.weight)


def test_the_finisher_ends_a_film_from_its_time_on_and_leaves_smaller_strengths_to_diffusion(generator):
    from updp.models.samplers import Sampling

    joined = _with_finisher(generator.unet, 0.3).eval()
    plain = Generator(joined, generator.autoencoder, generator.vlm, size=64, sampling=Sampling(steps=4))
    ended = Generator(joined, generator.autoencoder, generator.vlm, 64, Sampling(steps=4, finish=(0.7, 0.5)))
    prompts, seeds, films = ["The heart is enlarged."], [5], torch.rand(1, 1, 64, 64)
    assert not torch.allclose(plain.generate(prompts, seeds), ended.generate(prompts, seeds), atol=1e-3)
    weak = {"init_images": films, "strength": 0.3}
    assert torch.equal(plain.generate(prompts, seeds, **weak), ended.generate(prompts, seeds, **weak))
    middle = {"init_images": films, "strength": 0.5}
    assert not torch.equal(plain.generate(prompts, seeds, **middle), ended.generate(prompts, seeds, **middle))
    among = ended.generate(["Clear lungs.", *prompts], [4, 5])
    assert torch.allclose(ended.generate(prompts, seeds)[0], among[1], atol=1e-4)


def test_times_to_finish_at_must_fall():
    from updp.models.samplers import Sampling

    with pytest.raises(ValueError, match="falling times"):
        Sampling(finish=(0.5, 0.7))
