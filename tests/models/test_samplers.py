import pytest
import torch

from updp.models.samplers import Sampling, alpha, ddim, dpm_solver, sigma, time_grid

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("grid", ["even", "cosine", "log_snr"])
@pytest.mark.parametrize("start", [1.0, 0.4])
def test_a_grid_falls_from_its_start_to_zero(grid, start):
    times = time_grid(9, start, grid)
    assert len(times) == 10
    assert times[0] == pytest.approx(start)
    assert times[-1] == 0
    assert (times.diff() < 0).all()


@pytest.mark.parametrize("grid", ["cosine", "log_snr"])
def test_eased_grids_are_denser_at_both_ends(grid):
    steps = -time_grid(20, 1.0, grid).diff()
    assert steps[0] < 0.6 * steps[10]
    assert steps[-1] < 0.6 * steps[10]


def test_the_log_snr_grid_is_even_in_log_snr():
    times = time_grid(12, 0.8, "log_snr")
    steps = torch.log(alpha(times) / sigma(times)).diff()
    assert steps.allclose(steps.mean().expand(12), rtol=1e-3)


@pytest.mark.parametrize("grid", ["even", "cosine", "log_snr"])
def test_every_sampler_follows_a_perfect_prediction_to_the_film(grid):
    rng = torch.Generator().manual_seed(0)
    clean, noise = torch.randn(2, 4, 4, 4, generator=rng), torch.randn(2, 4, 4, 4, generator=rng)
    times = time_grid(5, 0.7, grid)
    noisy = alpha(times[0]) * clean + sigma(times[0]) * noise
    assert dpm_solver(noisy, times, lambda x, t: clean).allclose(clean, atol=1e-5)
    assert ddim(noisy, times, lambda x, t: noise).allclose(clean, atol=1e-4)


@pytest.mark.parametrize("grid", ["even", "log_snr"])
def test_a_second_order_step_is_nearer_to_the_exact_solution_than_a_first_order_one(grid):
    """For data of one Gaussian the prediction is linear and the way from noise to film is known."""

    def predict(x, t):
        a, s = alpha(t)[:, None], sigma(t)[:, None]
        return x * 0.25 * a / (0.25 * a**2 + s**2)

    start = torch.tensor([[2.0]])
    exact = dpm_solver(start, time_grid(4000, 1.0, "even"), predict)
    second = dpm_solver(start, time_grid(12, 1.0, grid), predict)
    first = ddim(start, time_grid(12, 1.0, grid), lambda x, t: (x - alpha(t) * predict(x, t.expand(1))) / sigma(t))
    assert (second - exact).abs() < (first - exact).abs()


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match="grid is one of even, cosine, log_snr, not 'odd'"):
        Sampling(grid="odd")
    with pytest.raises(ValueError, match="steps must be at least 1, not 0"):
        Sampling(steps=0)
