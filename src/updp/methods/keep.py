"""keep: the film as it is. The row every table starts with, and for releases whose films may leave unaltered."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from updp.core.record import Study
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.options import Configured

if TYPE_CHECKING:
    import numpy as np


class Keep(Configured):
    info: ClassVar[MethodInfo] = MethodInfo(
        name="keep",
        summary="the film as it is (header, report and burned-in text are still cleaned)",
        knob="none",
        default_strength=None,
        guarantee="none: ribs, heart and spine still identify the patient",
        learned_from_images=False,
    )

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        return [Deidentified(study.pixels) for study in batch]
