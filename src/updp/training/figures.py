"""Plain measures the stages and the bench share: PSNR, SSIM, power by band, AUC, retrieval."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

Array = NDArray[np.floating]
#: Bands of spatial frequency, in cycles per film: organs, ribs and vessels, edges, texture.
BANDS = ((4, 8), (8, 32), (32, 64), (64, 128))


def psnr(a: Tensor, b: Tensor) -> Tensor:
    """Per film, for images in [0, 1]."""
    return -10 * torch.log10((a - b).square().mean((1, 2, 3)).clamp_min(1e-10))


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Per film, Gaussian window 11, sigma 1.5 (Wang et al. 2004), for images in [0, 1]."""
    taps = torch.exp(-((torch.arange(11, dtype=a.dtype) - 5) ** 2) / (2 * 1.5**2))
    window = (taps / taps.sum()).outer(taps / taps.sum())[None, None]

    def blur(x: Tensor) -> Tensor:
        return functional.conv2d(x, window)

    ma, mb = blur(a), blur(b)
    va, vb, cov = blur(a * a) - ma**2, blur(b * b) - mb**2, blur(a * b) - ma * mb
    c1, c2 = 0.01**2, 0.03**2
    value = (2 * ma * mb + c1) * (2 * cov + c2) / ((ma**2 + mb**2 + c1) * (va + vb + c2))
    return value.mean((1, 2, 3))


def band_power(films: Tensor) -> dict[str, float]:
    """Mean power of films N×1×S×S in each band that their size can hold."""
    held = [band for band in BANDS if band[1] <= films.shape[-1] // 2]
    return {f"{low}-{high}": float(power) for (low, high), power in zip(held, powers(films), strict=True)}


def powers(films: Tensor) -> Tensor:
    """Mean power of films N×1×S×S in each band that their size can hold; differentiable.

    Under a Hann window: without one, the jump from one edge of a film to the other fills the upper bands.
    """
    size = films.shape[-1]
    window = torch.hann_window(size, periodic=False, device=films.device)
    weight = window.outer(window)
    mean = (films[:, 0] * weight).sum((1, 2), keepdim=True) / weight.sum()
    power = torch.fft.rfft2((films[:, 0] - mean) * weight).abs().square().mean(0)
    down, along = torch.fft.fftfreq(size) * size, torch.arange(size // 2 + 1.0)
    radius = (down[:, None] ** 2 + along[None] ** 2).sqrt().to(films.device)
    held = [(radius >= low) & (radius < high) for low, high in BANDS if high <= size // 2]
    return torch.stack([power[band].mean() for band in held])


def relative_power(films: Tensor, real: Tensor) -> dict[str, float]:
    """Power by band, relative to that of real films; 1 is as much as they have."""
    ours, theirs = band_power(films), band_power(real)
    return {f"power {band}": ours[band] / theirs[band] for band in ours}


def auc(truth: NDArray[np.bool_], scores: Array) -> float:
    """Area under the ROC curve by ranks; NaN if one class is missing."""
    from scipy.stats import rankdata

    positives = int(truth.sum())
    negatives = len(truth) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    ranks = rankdata(scores)
    return float((ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def aucs(labels: NDArray[np.float32], scores: Array, least: int = 5) -> NDArray[np.float64]:
    """One AUC per finding, over films labelled for it; NaN where fewer than `least` positives or negatives."""
    out = np.full(labels.shape[1], np.nan)
    for j in range(labels.shape[1]):
        known = ~np.isnan(labels[:, j])
        truth = labels[known, j] == 1
        if min(truth.sum(), (~truth).sum()) >= least:
            out[j] = auc(truth, scores[known, j])
    return out


def mean_auc(labels: NDArray[np.float32], scores: Array) -> float:
    """Mean over the findings that can be counted; NaN if there is none."""
    each = aucs(labels, scores)
    return float(each[~np.isnan(each)].mean()) if (~np.isnan(each)).any() else float("nan")


def recall_at(similarity: Array, k: int) -> float:
    """Share of rows whose own column is among the k most similar."""
    own = np.diag(similarity)[:, None]
    return float(((similarity > own).sum(1) < k).mean())
