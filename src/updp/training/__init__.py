"""Recipes that make a model pack from a source, and the bench that measures one.

`train_pack` and `bench_pack` are looked up late: they need torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "train_pack": "updp.training.recipe",
    "bench_pack": "updp.training.bench",
    "PackConfig": "updp.training.config",
    "TrainingError": "updp.training.loop",
    "NoUsableFilm": "updp.training.corpus",
}

__all__ = ["NoUsableFilm", "PackConfig", "TrainingError", "bench_pack", "train_pack"]

if TYPE_CHECKING:
    from updp.training.bench import bench_pack
    from updp.training.config import PackConfig
    from updp.training.corpus import NoUsableFilm
    from updp.training.loop import TrainingError
    from updp.training.recipe import train_pack


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'updp.training' has no attribute {name!r}")
