"""Reading a film of a test: its values are checked, or the reason it was refused for is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.sources.exports import CANARY
from updp.core.reasons import Reason, Refused
from updp.imaging.read import read_film

LIMITS = {"max_pixels": 1_000_000, "min_side": 64}


def read(path: Path) -> np.ndarray:
    pixels = read_film(path, **LIMITS)
    assert pixels.dtype == np.float32
    assert pixels.ndim == 2
    assert 0 <= pixels.min() < pixels.max() <= 1
    return pixels


def reason(path: Path, **limits: int) -> Reason:
    with pytest.raises(Refused) as refused:
        read_film(path, **{**LIMITS, **limits})
    assert CANARY not in str(refused.value)
    return refused.value.reason


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])
