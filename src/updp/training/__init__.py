"""Recipes that make a model pack from a source, and the bench that measures one.

`train_pack` and `bench_pack` are looked up late: they need torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from updp.core.lazy import lazy_names

__all__ = ["NoUsableFilm", "PackConfig", "TrainingError", "bench_pack", "train_pack"]

if TYPE_CHECKING:
    from updp.training.bench import bench_pack
    from updp.training.config import PackConfig
    from updp.training.corpus import NoUsableFilm
    from updp.training.loop import TrainingError
    from updp.training.recipe import train_pack

__getattr__ = lazy_names(
    __name__,
    {
        "train_pack": "updp.training.recipe",
        "bench_pack": "updp.training.bench",
        "PackConfig": "updp.training.config",
        "TrainingError": "updp.training.loop",
        "NoUsableFilm": "updp.training.corpus",
    },
)
