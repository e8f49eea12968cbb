"""Words to choose from, and named streams of random numbers: the same seed gives the same hospital."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@cache
def word_lists() -> dict[str, Any]:
    return tomllib.loads((resources.files("updp.virtual") / "words.toml").read_text("utf-8"))


def stream(seed: int, *parts: object) -> np.random.Generator:
    """A named stream: what one patient is does not depend on how many there are."""
    import hashlib

    import numpy as np

    name = "\0".join(map(str, ("virtual", seed, *parts))).encode()
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(name).digest()[:16], "big")))


def pick(choices: Any, draw: np.random.Generator) -> Any:
    return choices[int(draw.integers(len(choices)))]
