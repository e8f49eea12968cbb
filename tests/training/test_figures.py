import numpy as np
import pytest
import torch

from updp.training.figures import auc, aucs, band_power, powers, psnr, recall_at, relative_power, ssim


def test_auc_counts_pairs_in_order_and_ties_half():
    truth = np.array([True, True, False, False])
    assert auc(truth, np.array([3.0, 2.0, 1.0, 0.0])) == 1
    assert auc(truth, np.array([0.0, 1.0, 2.0, 3.0])) == 0
    assert auc(truth, np.array([1.0, 1.0, 1.0, 1.0])) == 0.5
    assert np.isnan(auc(np.array([True, True]), np.array([1.0, 2.0])))


def test_findings_with_few_positives_or_no_labels_are_not_counted():
    labels = np.array([[1, 1, np.nan]] * 6 + [[0, 0, np.nan]] * 6, np.float32)
    labels[:5, 1] = 0
    scores = np.linspace(1, 0, 12)[:, None].repeat(3, 1)
    each = aucs(labels, scores)
    assert each[0] == 1
    assert np.isnan(each[1:]).all()


def test_psnr_and_ssim_of_known_images():
    a = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    assert psnr(torch.zeros(1, 1, 8, 8), torch.full((1, 1, 8, 8), 0.1)).item() == pytest.approx(20, abs=1e-4)
    assert ssim(a, a).allclose(torch.ones(2), atol=1e-5)
    assert (ssim(a, a.flip(-1)) < 0.5).all()


def test_recall_counts_rows_whose_own_column_is_near_enough():
    similarity = np.array([[0.9, 0.1, 0.2], [0.8, 0.5, 0.7], [0.1, 0.2, 0.9]])
    assert recall_at(similarity, 1) == pytest.approx(2 / 3)
    assert recall_at(similarity, 3) == 1


def test_power_stands_in_the_band_of_its_frequency():
    across = torch.arange(256) / 256
    for cycles, band in ((5, "4-8"), (20, "8-32"), (40, "32-64"), (100, "64-128")):
        wave = torch.cos(2 * torch.pi * cycles * across).expand(1, 1, 256, 256)
        power = band_power(wave)
        assert max(power, key=power.get) == band
        assert relative_power(wave / 2, wave)[f"power {band}"] == pytest.approx(0.25, rel=1e-3)
    assert list(band_power(torch.rand(1, 1, 64, 64))) == ["4-8", "8-32"]


def test_power_tells_how_to_change_a_film():
    films = torch.rand(2, 1, 64, 64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    powers(films).sum().backward()
    more = (films + 1e-2 * films.grad / films.grad.abs().max()).detach()
    assert (powers(more) > powers(films)).all()
