"""keep: the film as it is. The row every table starts with, and for releases whose films may leave unaltered."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.per_image import PerImage

if TYPE_CHECKING:
    import numpy as np


class Keep(PerImage):
    info: ClassVar[MethodInfo] = method_info("keep")

    def make(self, study: Study, strength: float, rng: np.random.Generator) -> Deidentified:
        return Deidentified(study.pixels)
