"""fit and personal: the identity is turned by an angle, and a password says how.

**fit** (Gu et al., Password-conditioned Anonymization and Deanonymization with Face Identity Transformers, ECCV 2020):
a password of 16 bits; the complement of a password undoes it. Here each bit turns the identity in planes of its own, by
the same angle one way or the other. The detail of the photograph stays, as in the paper's U-Net. 65 536 passwords are
tried in a moment, and one that is wrong in a few bits is nearly right.

**personal** (Cao et al., Personalized and Invertible Face De-identification by Disentangled Identity Information
Manipulation, ICCV 2021): identity and attributes apart; the password chooses the planes in which the identity is
turned, ``strength`` the angle. The face is made anew, so its detail is gone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.face_space.base import ReversibleInSpace, normal_numbers

if TYPE_CHECKING:
    from torch import Tensor

#: The angle at strength 1: a right angle, at which what was is no part of what is.
ANGLE = math.pi / 2
BITS = 16


def turned(who: Tensor, angles: Tensor) -> Tensor:
    """Pairs of coordinates N×2P turned by angles N×P."""
    import torch

    first, second = who[:, 0::2], who[:, 1::2]
    cosine, sine = angles.cos(), angles.sin()
    return torch.stack([cosine * first - sine * second, sine * first + cosine * second], 2).flatten(1)


def bits_of(words: list[bytes]) -> Tensor:
    """The 16 bits of passwords, as ±1."""
    import numpy as np
    import torch

    from updp.methods.invented_face.passwords import key_of

    raw = np.stack([np.unpackbits(np.frombuffer(key_of(word, "fit", BITS // 8), np.uint8)) for word in words])
    return torch.from_numpy(raw.astype(np.float32)) * 2 - 1


class FaceTransformer(ReversibleInSpace):
    info: ClassVar[MethodInfo] = method_info("fit")
    password_bits: ClassVar[int] = BITS

    def changed(self, images: Tensor, parts: Tensor, words: list[bytes], strength: float) -> Tensor:
        return images + self._change(parts, strength * bits_of(words))

    def turned_back(self, images: Tensor, parts: Tensor, words: list[bytes]) -> Tensor:
        return images + self._change(parts, -bits_of(words))

    def _change(self, parts: Tensor, bits: Tensor) -> Tensor:
        """What a photograph changes by, if each bit turns its planes."""
        planes = self.space.persons // 2
        angles = ANGLE * bits.repeat_interleave(-(-planes // BITS), 1)[:, :planes]
        other = self.space.as_other(parts, turned(self.space.who(parts), angles))
        return self.space.decode(other) - self.space.decode(parts)


class Personal(ReversibleInSpace):
    info: ClassVar[MethodInfo] = method_info("personal")

    def changed(self, images: Tensor, parts: Tensor, words: list[bytes], strength: float) -> Tensor:
        return self._turned(parts, words, strength * ANGLE)

    def turned_back(self, images: Tensor, parts: Tensor, words: list[bytes]) -> Tensor:
        return self._turned(parts, words, -ANGLE)

    def _turned(self, parts: Tensor, words: list[bytes], angle: float) -> Tensor:
        import torch

        count = self.space.persons
        axes, _ = torch.linalg.qr(normal_numbers(words, "personal", count * count).reshape(-1, count, count))
        who = torch.einsum("nij,nj->ni", axes.transpose(1, 2), self.space.who(parts))
        who = turned(who, torch.full((len(who), count // 2), angle))
        return self.space.decode(self.space.as_other(parts, torch.einsum("nij,nj->ni", axes, who)))
