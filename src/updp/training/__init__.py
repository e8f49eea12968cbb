"""Recipes that make a model pack from a source.

`train_pack` is looked up late: it needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from updp.core.lazy import lazy_names

__all__ = ["NoUsableFilm", "PackConfig", "TrainingError", "train_pack"]

if TYPE_CHECKING:
    from updp.training.config import PackConfig
    from updp.training.corpus import NoUsableFilm
    from updp.training.loop import TrainingError
    from updp.training.recipe import train_pack

__getattr__ = lazy_names(
    __name__,
    {
        "train_pack": "updp.training.recipe",
        "PackConfig": "updp.training.config",
        "TrainingError": "updp.training.loop",
        "NoUsableFilm": "updp.training.corpus",
    },
)
