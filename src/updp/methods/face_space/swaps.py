"""disguise, deepprivacy and ciagan: a synthetic identity instead of the person's own. Nothing comes back.

**disguise** (Cai et al., Disguise without Disruption: Utility-Preserving Face De-identification, AAAI 2024): a drawn
identity with no part of the person's own, in the person's photograph; experts for landmarks and gaze hold the face in
its place. Here the experts are the linear map to landmarks: of the change, what would move eyes, nose or mouth is left
out.

**deepprivacy** (Hukkelås et al., DeepPrivacy: A Generative Adversarial Network for Face Anonymization, ISVC 2019): the
face is cut out before anything sees it and painted in anew from the surroundings and five points. Here the painter is
the normal distribution of faces, given what surrounds them.

**ciagan** (Maximov et al., CIAGAN: Conditional Identity Anonymization GANs, CVPR 2020): the face is cut out; the
surroundings, all landmarks and the identity of somebody else make a new one. Here the others are the invented people.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.face_space.base import InSpace, normal_numbers

if TYPE_CHECKING:
    from torch import Tensor

#: Grey values that a face of the space is uncertain by, as a share, and shares of the side that a landmark is.
NOISE, PLACE = 0.06, 0.01
#: Landmarks of eyes, nose and mouth that an expert of disguise holds, and the points that deepprivacy sees.
HELD = tuple(range(33, 97))


class Disguise(InSpace):
    info: ClassVar[MethodInfo] = method_info("disguise")

    def changed(self, images: Tensor, parts: Tensor, words: list[bytes], strength: float) -> Tensor:
        space = self.space
        own, drawn = space.who(parts), normal_numbers(words, "disguise", space.persons)
        along = own / own.norm(dim=1, keepdim=True).clamp_min(1e-6)
        drawn = drawn - (drawn * along).sum(1, keepdim=True) * along
        change = strength * (space.as_other(parts, drawn) - parts)
        return space.decode(parts + change @ self._held)

    @cached_property
    def _held(self) -> Tensor:
        """Takes out of a change what moves eyes, nose and mouth."""
        import torch

        marks = self.space.marks.reshape(self.space.components, -1, 2)
        rows = [n for n in HELD if n < marks.shape[1]]
        moves = marks[:, rows].flatten(1)
        inner = moves.T @ moves
        keep = torch.linalg.solve(inner + 1e-3 * inner.diagonal().mean() * torch.eye(len(inner)), moves.T)
        rest: Tensor = torch.eye(self.space.components) - moves @ keep
        return rest


class _Painted(InSpace):
    """The face is cut out and painted from what surrounds it."""

    def changed(self, images: Tensor, parts: Tensor, words: list[bytes], strength: float) -> Tensor:
        region = face_region(images.shape[-1], strength)
        hidden = images * (1 - region)
        seen = [(self._around(region), self._surroundings(hidden, region), NOISE)]
        seen += self.known(parts, words)
        face = _drawn(seen, normal_numbers(words, self.info.name, self.space.components))
        return hidden + region * self.space.decode(face)

    def known(self, parts: Tensor, words: list[bytes]) -> list[tuple[Tensor, Tensor, float]]:
        """What else is known of the new face: maps of components, values, and how uncertain they are."""
        raise NotImplementedError

    def _around(self, region: Tensor) -> Tensor:
        """Components to mean colours of the cells around the face."""
        import torch

        faces = self.space.decode(torch.eye(self.space.components)) - self.space.decode(
            torch.zeros(1, self.space.components)
        )
        return self._cells(faces * (1 - region), region)

    def _surroundings(self, hidden: Tensor, region: Tensor) -> Tensor:
        import torch

        mean = self.space.decode(torch.zeros(1, self.space.components))
        return self._cells(hidden - mean * (1 - region), region)

    def _cells(self, images: Tensor, region: Tensor) -> Tensor:
        from torch.nn import functional

        side = images.shape[-1] // 8
        free = functional.avg_pool2d(1 - region, side)[0, 0] > 0.99
        return functional.avg_pool2d(images, side)[:, :, free].flatten(1)

    def _points(self, parts: Tensor, rows: Any) -> tuple[Tensor, Tensor, float]:
        """Landmarks, as the linear map says them."""
        marks = self.space.marks.reshape(self.space.components, -1, 2)
        chosen = marks[:, [n for n in rows if n < marks.shape[1]]].flatten(1)
        return chosen, parts @ chosen, PLACE


class DeepPrivacy(_Painted):
    info: ClassVar[MethodInfo] = method_info("deepprivacy")

    def known(self, parts: Tensor, words: list[bytes]) -> list[tuple[Tensor, Tensor, float]]:
        from updp.domains.face.landmarks import MOUTH_CORNERS, NOSE_TIP

        return [self._points(parts, (38, 88, NOSE_TIP, *MOUTH_CORNERS))]


class Ciagan(_Painted):
    info: ClassVar[MethodInfo] = method_info("ciagan")

    def known(self, parts: Tensor, words: list[bytes]) -> list[tuple[Tensor, Tensor, float]]:
        from updp.methods.invented_face.method import as_tensor
        from updp.methods.invented_face.passwords import faces_of

        others = self.space.who(self.space.encode(as_tensor(faces_of(words, self.space.side))))
        return [self._points(parts, range(106)), (self.space.identity.T, others, 0.1)]


def face_region(side: int, strength: float) -> Tensor:
    """1 on the face, 0 around it, with a soft edge: an ellipse from brow to chin that grows with the strength."""
    import torch

    y, x = torch.meshgrid(torch.arange(side) + 0.5, torch.arange(side) + 0.5, indexing="ij")
    across, down = 0.36 * strength, 0.46 * strength
    far = torch.sqrt(((x / side - 0.5) / across) ** 2 + ((y / side - 0.56) / down) ** 2)
    return torch.clamp((1 - far) / 0.15 + 0.5, 0, 1)[None, None]


def _drawn(seen: list[tuple[Tensor, Tensor, float]], chance: Tensor) -> Tensor:
    """Components of a face drawn from the normal distribution, given what linear maps of them are known to be."""
    import torch

    count = seen[0][0].shape[0]
    precision, toward = torch.eye(count, dtype=torch.float64), torch.zeros(len(chance), count, dtype=torch.float64)
    for maps, values, noise in seen:
        scaled = maps.double() / noise
        precision = precision + scaled @ scaled.T
        toward = toward + (values.double() / noise) @ scaled.T
    root = torch.linalg.cholesky(precision)
    mean = torch.cholesky_solve(toward.T, root).T
    spread = torch.linalg.solve_triangular(root.T, chance.double().T, upper=True).T
    drawn: Tensor = (mean + spread).float()
    return drawn
