"""keep: the film as it is. The row every table starts with, and for releases whose films may leave unaltered."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.options import Configured

if TYPE_CHECKING:
    import numpy as np


class Keep(Configured):
    info: ClassVar[MethodInfo] = method_info("keep")

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        return [Deidentified(study.pixels) for study in batch]
