"""riddle: all components of a face are mapped to others, with those of a password (Li et al., CVPR 2023).

The paper trains a transformer over the latents of a person and of a password that encrypts and decrypts. In a linear
space with spread 1 such a map needs no training: reflecting a face in half of the directions, which the password
chooses, gives another face as likely as the first and at a right angle to it, and doing it again gives the first. As in
the paper one map serves both ways, another password gives another face, and everything goes through the latents, so
what they do not hold is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.face_space.base import ReversibleInSpace, normal_numbers

if TYPE_CHECKING:
    from torch import Tensor


class Riddle(ReversibleInSpace):
    info: ClassVar[MethodInfo] = method_info("riddle")

    def changed(self, images: Tensor, parts: Tensor, words: list[bytes], strength: float) -> Tensor:
        mixed = self._reflected(parts, words)
        # A share of two faces of spread 1 that do not agree has a smaller spread than either.
        rest = 1 - strength
        return self.space.decode((rest * parts + strength * mixed) / (rest**2 + strength**2) ** 0.5)

    def turned_back(self, images: Tensor, parts: Tensor, words: list[bytes]) -> Tensor:
        return self.space.decode(self._reflected(parts, words))

    def _reflected(self, parts: Tensor, words: list[bytes]) -> Tensor:
        import torch

        count = self.space.components
        out = []
        for own, word in zip(parts, words, strict=True):
            axes, _ = torch.linalg.qr(normal_numbers([word], "riddle", count * (count // 2)).reshape(count, -1))
            out.append(own - 2 * axes @ (axes.T @ own))
        return torch.stack(out)
