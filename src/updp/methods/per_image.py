"""Methods that make each image by itself: the base goes through the batch, a subclass makes one image."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from updp.core.reasons import Reason
from updp.core.record import Study
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.options import Configured
from updp.methods.strength import resolve_strength

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class PerImage(Configured):
    """A subclass writes ``make``."""

    info: ClassVar[MethodInfo]

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        amount = resolve_strength(self.info, strength)
        return [self.make(study, amount, stream) for study, stream in zip(batch, rng, strict=True)]

    @abstractmethod
    def make(self, study: Study, strength: float, rng: np.random.Generator) -> Deidentified:
        """The new image of one study, from its own stream of random numbers."""


class PerFace(PerImage):
    """Photographs without a face are kept back. A subclass writes ``draw``."""

    def make(self, study: Study, strength: float, rng: np.random.Generator) -> Deidentified:
        from updp.domains.face.landmarks import points_of

        points = points_of(study)
        if study.pixels is None or points is None:
            return Deidentified(None, refused=Reason.FACE_NONE)
        return Deidentified(self.draw(study.pixels, points, strength))

    @abstractmethod
    def draw(self, pixels: NDArray[np.float32], points: NDArray[np.float64], strength: float) -> NDArray[np.float32]:
        """The new photograph from the old one and the landmarks of its face."""
