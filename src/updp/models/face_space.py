"""A linear space of faces: what small versions of published methods change a face in.

A framed photograph is described by its largest principal components over training people (eigenfaces, Turk & Pentland
1991, of the first components of its 8×8 blocks), each divided by its spread; what the components do not say of it is
its detail. In this space the directions in which photographs of one person differ least, and those of different people
most, hold the identity (linear discriminants, Belhumeur et al. 1997); a linear map gives the landmarks. A second set of
components describes the detail of the strip around the eyes, where diseases show. Everything is fitted in closed form.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.models.faces import BLOCK, STRIP
from updp.models.images import batched


class FaceSpace(nn.Module):
    """Photographs N×3×S×S in [0, 1] to components N×C with mean 0 and spread 1, and back."""

    blocks: Tensor
    colour: Tensor
    mean: Tensor
    basis: Tensor
    spread: Tensor
    eye_mean: Tensor
    eye_basis: Tensor
    eye_spread: Tensor
    identity: Tensor
    marks: Tensor
    mark_mean: Tensor

    def __init__(
        self,
        side: int,
        channels: int = 24,
        components: int = 256,
        eye_channels: int = 48,
        eyes: int = 192,
        persons: int = 64,
        points: int = 106,
    ) -> None:
        super().__init__()
        self.config = {
            "side": side, "channels": channels, "components": components, "eye_channels": eye_channels, "eyes": eyes,
            "persons": persons, "points": points,
        }  # fmt: skip
        self.side, self.channels, self.components, self.eyes = side, channels, components, eyes
        self.eye_channels, self.persons = eye_channels, persons
        cells = side // BLOCK
        self.cells, self.top, self.bottom = cells, round(STRIP[0] * cells), round(STRIP[1] * cells)
        whole, strip = channels * cells**2, eye_channels * (self.bottom - self.top) * cells
        size = 3 * BLOCK**2
        for name, shape in (
            ("blocks", (max(channels, eye_channels), 3, BLOCK, BLOCK)), ("colour", (3,)), ("mean", (whole,)),
            ("basis", (components, whole)), ("spread", (components,)), ("eye_mean", (strip,)),
            ("eye_basis", (eyes, strip)), ("eye_spread", (eyes,)), ("identity", (persons, components)),
            ("marks", (components, 2 * points)), ("mark_mean", (2 * points,)),
        ):  # fmt: skip
            self.register_buffer(name, torch.zeros(shape))
        assert max(channels, eye_channels) <= size

    def _code(self, images: Tensor, channels: int) -> Tensor:
        return functional.conv2d(images - self.colour[:, None, None], self.blocks[:channels], stride=BLOCK)

    @batched
    def encode(self, images: Tensor) -> Tensor:
        code = self._code(images, self.channels).flatten(1)
        out: Tensor = (code - self.mean) @ self.basis.T / self.spread
        return out

    def decode(self, parts: Tensor) -> Tensor:
        """Faces without detail; not clamped."""
        code = (parts * self.spread) @ self.basis + self.mean
        maps = code.reshape(-1, self.channels, self.cells, self.cells)
        out: Tensor = functional.conv_transpose2d(maps, self.blocks[: self.channels], stride=BLOCK)
        return out + self.colour[:, None, None]

    def encode_eyes(self, images: Tensor) -> Tensor:
        """The detail of the strip around the eyes, N×eyes."""
        rest = images - self.decode(self.encode(images)) + self.colour[:, None, None]
        code = self._code(rest, self.eye_channels)[:, :, self.top : self.bottom].flatten(1)
        return (code - self.eye_mean) @ self.eye_basis.T / self.eye_spread

    def decode_eyes(self, parts: Tensor) -> Tensor:
        """What the detail of the eyes adds to a photograph, N×3×S×S."""
        code = (parts * self.eye_spread) @ self.eye_basis + self.eye_mean
        maps = code.reshape(-1, self.eye_channels, self.bottom - self.top, self.cells)
        maps = functional.pad(maps, (0, 0, self.top, self.cells - self.bottom))
        return functional.conv_transpose2d(maps, self.blocks[: self.eye_channels], stride=BLOCK)

    def who(self, parts: Tensor) -> Tensor:
        """Coordinates of the identity, N×persons."""
        return parts @ self.identity.T

    def as_other(self, parts: Tensor, who: Tensor) -> Tensor:
        """The same face with these coordinates of identity."""
        return parts + (who - self.who(parts)) @ self.identity

    def landmarks(self, parts: Tensor) -> Tensor:
        """Landmarks N×2P in shares of the side."""
        return parts @ self.marks + self.mark_mean


@torch.no_grad()
def fit_space(
    space: FaceSpace, code: nn.Module, images: Tensor, people: Tensor, points: Tensor, eyes: Tensor | None = None
) -> None:
    """Fit on photographs of training people; ``people`` numbers them, ``points`` are landmarks N×2P in shares of the
    side, ``eyes`` further photographs that the detail of the eyes is learned from. Draws from torch's generator."""
    space.blocks.copy_(code.basis[: len(space.blocks)])  # type: ignore[index]
    space.colour.copy_(code.mean)  # type: ignore[arg-type]
    both = torch.cat([_codes(space, images, space.channels), _codes(space, images.flip(-1), space.channels)])
    space.mean.copy_(both.mean(0))
    basis, spread = _components(both - space.mean, space.components)
    space.basis.copy_(basis)
    space.spread.copy_(spread)
    parts = space.encode(images)
    # Within a person: small where it is the identity that differs.
    names, counts = torch.unique(people, return_counts=True)
    several = [parts[people == name] for name in names[counts > 1]]
    if several:
        within = torch.cat([own - own.mean(0) for own in several])
        degrees = max(1, len(within) - len(several))
        _, vectors = torch.linalg.eigh((within.T @ within / degrees + 1e-3 * torch.eye(space.components)).double())
        space.identity.copy_(vectors[:, : space.persons].T)
    else:
        space.identity.copy_(torch.eye(space.components)[: space.persons])
    space.mark_mean.copy_(points.mean(0))
    ridge = parts.T @ parts + 0.05 * len(parts) * torch.eye(space.components)
    space.marks.copy_(torch.linalg.solve(ridge, parts.T @ (points - space.mark_mean)))
    shown = images if eyes is None else eyes
    detail = torch.cat([_eye_codes(space, part) for part in torch.split(shown, 64)])
    space.eye_mean.copy_(detail.mean(0))
    basis, spread = _components(detail - space.eye_mean, space.eyes)
    space.eye_basis.copy_(basis)
    space.eye_spread.copy_(spread)


def _codes(space: FaceSpace, images: Tensor, channels: int) -> Tensor:
    return torch.cat([space._code(part, channels).flatten(1) for part in torch.split(images, 64)])


def _eye_codes(space: FaceSpace, images: Tensor) -> Tensor:
    rest = images - space.decode(space.encode(images)) + space.colour[:, None, None]
    return space._code(rest, space.eye_channels)[:, :, space.top : space.bottom].flatten(1)


def _components(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest principal components, as orthonormal rows, and their spreads; zero spreads are not."""
    have = min(count, *rows.shape)
    _, size, vectors = torch.svd_lowrank(rows, min(have + 10, *rows.shape), niter=2)
    basis, spread = torch.zeros(count, rows.shape[1]), torch.full((count,), 1e-3)
    basis[:have] = vectors[:, :have].T
    spread[:have] = (size[:have] / len(rows) ** 0.5).clamp_min(1e-3)
    return basis, spread
