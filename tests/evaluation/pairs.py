"""Balanced pairs of films with an effect of each patient, for tests of intervals."""

from __future__ import annotations

import numpy as np


def pairs(seed: int, patients: int = 40, effect: float = 1.0, size: int = 400):
    """Balanced pairs; each patient is more or less easily matched, in all the pairs it takes part in."""
    g = np.random.default_rng(seed)
    left = g.integers(0, patients, size)
    same = np.arange(size) % 2
    right = np.where(same == 1, left, (left + g.integers(1, patients, size)) % patients)
    ease = effect * g.normal(size=patients)
    return same, ease[left] + ease[right] + g.normal(size=size), left, right
