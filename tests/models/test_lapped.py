import pytest
import torch

from updp.models.lapped import LappedAutoencoder, grain

pytestmark = pytest.mark.numeric

WIDTHS = (16, 16, 8, 8, 8)


def model(**options):
    """Kernels that average and repeat, so that what comes back can be foretold."""
    made = LappedAutoencoder(channels=1, widths=WIDTHS, **options).eval()
    with torch.no_grad():
        made.mean.fill_(0.5)
        made.analysis.weight.zero_()
        made.analysis.weight[:, :, 8:24, 8:24] = 1 / 256
        made.synthesis.weight.zero_()
        made.synthesis.weight[:, :, 8:24, 8:24] = 1
        made.scale.fill_(0.2)
        made.shift.fill_(0.01)
    return made


def test_before_training_it_is_the_linear_code():
    films = torch.rand(3, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    latents = model().encode(films)
    means = torch.nn.functional.avg_pool2d(films, 16)
    assert latents.shape == (3, 1, 4, 4)
    assert latents.allclose((means - 0.5 - 0.01) / 0.2, atol=1e-4)
    assert model().decode(latents).allclose(means.repeat_interleave(16, 2).repeat_interleave(16, 3), atol=1e-4)


def test_a_latent_sees_past_its_own_block():
    films = torch.full((1, 1, 64, 64), 0.5)
    changed = films.clone()
    changed[:, :, 16:24, 16:32] = 1.0  # inside the second block, and in the margin of the first
    made = LappedAutoencoder(channels=2, widths=WIDTHS).eval()
    moved = (made.encode(changed) - made.encode(films)).abs().amax(1)[0] > 1e-6
    assert moved[1, 1]
    assert moved[0, 1]
    assert not moved[3, 3]


def test_films_come_back_in_range_and_gradients_pass_unclamped():
    made = model()
    torch.nn.init.normal_(made.refine.out.weight, std=1.0)
    wild = (torch.randn(2, 1, 4, 4) * 20).requires_grad_()
    films = made.decode(wild)
    assert films.min() >= 0
    assert films.max() <= 1
    free = made.decode(wild, clamp=False)
    assert free.max() > 1
    free.sum().backward()
    assert wild.grad.abs().min() > 0


@pytest.mark.parametrize("further", [(8,), (8, 8)])
def test_a_further_stage_draws_larger_films_from_the_same_latents(further):
    small, large = model(), model(further=further)
    factor = 2 ** len(further)
    films = torch.rand(2, 1, 64, 64).repeat_interleave(factor, 2).repeat_interleave(factor, 3)
    latents = large.encode(films)
    assert large.patch == 16 * factor
    assert latents.allclose(small.encode(films[:, :, ::factor, ::factor]), atol=1e-5)
    drawn = large.decode(latents)
    assert drawn.shape == films.shape
    assert torch.nn.functional.avg_pool2d(drawn, factor).sub(small.decode(latents)).abs().mean() < 0.1


def test_grain_is_the_same_in_every_film_and_every_call():
    made, latents = model(grain=True), torch.zeros(3, 1, 4, 4)
    films = made.decode(latents)
    assert films.equal(made.decode(latents))
    assert films[0].allclose(films[2], atol=1e-6)  # whatever else is in the batch


def test_grain_varies_from_pixel_to_pixel_at_the_amplitude_the_decoder_predicts():
    made, flat = model(grain=True), torch.zeros(1, 1, 4, 4)
    quiet = made.decode(flat).std()
    assert quiet > 1e-3
    torch.nn.init.constant_(made.refine.amplitude.bias, 3.0)
    assert made.decode(flat).std() > 3 * quiet
    torch.nn.init.constant_(made.refine.amplitude.bias, -30.0)
    assert made.decode(flat).allclose(model().decode(flat), atol=1e-6)


def test_both_bands_of_grain_are_free_of_greys():
    noise = torch.Generator().manual_seed(0)
    bands = grain(torch.randn(4, 1, 64, 64, generator=noise), torch.randn(4, 1, 32, 32, generator=noise))
    assert bands.shape == (4, 2, 64, 64)
    assert torch.nn.functional.avg_pool2d(bands[:, :1], 2).abs().max() < 1e-6
    assert torch.nn.functional.avg_pool2d(bands[:, 1:], 16).abs().mean() < 0.2


def test_other_grain_gives_another_film():
    made, latents = model(grain=True), torch.zeros(1, 1, 4, 4)
    other = grain(torch.randn(1, 1, 64, 64), torch.randn(1, 1, 32, 32))
    base = made.synthesise(latents)
    assert not made.refine(latents, base, other).allclose(made.refine(latents, base), atol=1e-3)


def test_it_is_built_again_from_its_configuration():
    made = model(further=(8,), grain=True)
    again = LappedAutoencoder(**made.config)
    again.load_state_dict(made.state_dict())
    latents = torch.randn(1, 1, 2, 2)
    assert again.eval().decode(latents).equal(made.decode(latents))


def test_a_decoder_of_another_depth_is_refused():
    with pytest.raises(ValueError, match="five widths, from the latents' maps to the film's, not 3"):
        LappedAutoencoder(widths=(8, 8, 8))
