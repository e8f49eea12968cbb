"""Statistics and image measures of updp beside those of libraries: time, and the largest difference.

``python performance/measures.py``. AUC and kappa are resampled 1 000 times over 600 rows, as an interval needs them;
scikit-learn has no resamples at once. SSIM and MS-SSIM are of 16 pairs of 256-pixel films, beside torchmetrics where it
is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from updp.core.memory import keep_freed_memory
from updp.evaluation.agreement import cohen_kappa
from updp.evaluation.probes.utility.image_metrics import ms_ssim, ssim
from updp.evaluation.statistics import auc


def timed(run: Callable[[], Any], rounds: int = 3) -> tuple[float, np.ndarray]:
    """The shortest of some runs in seconds, and what they gave."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        found = run()
        seconds.append(time.perf_counter() - start)
    return min(seconds), np.asarray(found)


def compare(name: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    """Print one line."""
    (mine, found), (library, expected) = timed(ours), timed(theirs)
    print(f"{name}: updp {mine:.3f} s, library {library:.3f} s, difference {np.abs(found - expected).max():.1e}")


def main() -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 600)
    scores, other = rng.random(600) + 0.3 * labels, np.where(rng.random(600) < 0.8, labels, 1 - labels)
    draws = rng.integers(0, 4, (1000, 600)).astype(float)
    compare(
        "AUC, 1 000 draws",
        lambda: auc(labels, scores, draws),
        lambda: [roc_auc_score(labels, scores, sample_weight=w) for w in draws],
    )
    compare(
        "kappa, 1 000 draws",
        lambda: cohen_kappa(labels, other, draws),
        lambda: [cohen_kappa_score(labels, other, sample_weight=w) for w in draws],
    )
    try:
        from torchmetrics.functional import image
    except ImportError:
        print("SSIM: torchmetrics is not installed")
        return
    films = torch.from_numpy(rng.random((16, 1, 256, 256), np.float32))
    changed = (films + 0.1 * torch.from_numpy(rng.standard_normal(films.shape, np.float32))).clamp(0, 1)
    how = {"data_range": 1.0, "reduction": "none"}
    for name, mine, library in (
        ("SSIM", ssim, image.structural_similarity_index_measure),
        ("MS-SSIM", ms_ssim, image.multiscale_structural_similarity_index_measure),
    ):
        for kind, a, b in (("single", films, changed), ("double", films.double(), changed.double())):
            compare(
                f"{name}, theirs in {kind} precision",
                lambda mine=mine: mine(films, changed),
                lambda library=library, a=a, b=b: library(a, b, **how),
            )


if __name__ == "__main__":
    main()
