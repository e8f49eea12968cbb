"""Networks of a pack of faces. Photographs are N×3×S×S in [0, 1], in the frame of ``domains.face.frame``.

Disease shows at the eyes, so segmenter and medical encoder look at a strip around them alone, half of the frame's
height, and the classifier at a square around each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.domains.face.frame import GOAL
from updp.models.images import batched
from updp.models.layers import zeroed

BLOCK = 8
#: Top and bottom of the strip around the eyes, as shares of the frame.
STRIP = (0.25, 0.75)


def strip(images: Tensor) -> Tensor:
    """The rows around the eyes."""
    side = images.shape[-2]
    return images[..., round(STRIP[0] * side) : round(STRIP[1] * side), :]


class ColourBlocks(nn.Module):
    """Photographs to the principal components of their 8×8 blocks, N×C×S/8×S/8, and back; with all 192 components
    nothing is lost. The components are those of the training people; the map is orthonormal, so an error in the code
    is an error of the same size in the photograph."""

    basis: Tensor
    mean: Tensor

    def __init__(self, channels: int = 3 * BLOCK**2) -> None:
        super().__init__()
        self.config = {"channels": channels}
        self.channels = channels
        self.register_buffer("basis", torch.eye(3 * BLOCK**2)[:channels].reshape(channels, 3, BLOCK, BLOCK))
        self.register_buffer("mean", torch.full((3,), 0.5))

    @torch.no_grad()
    def fit(self, images: Tensor) -> None:
        """Principal components of the blocks of these photographs, the largest first."""
        self.mean.copy_(images.mean((0, 2, 3)))
        blocks = functional.unfold(images - self.mean[:, None, None], BLOCK, stride=BLOCK)
        rows = blocks.transpose(1, 2).reshape(-1, 3 * BLOCK**2).double()
        _, vectors = torch.linalg.eigh(rows.T @ rows / len(rows))
        basis = vectors.flip(1)[:, : self.channels].T
        basis = basis * torch.sign(basis.sum(1, keepdim=True) + 1e-12)
        self.basis.copy_(basis.reshape(self.channels, 3, BLOCK, BLOCK))

    def encode(self, images: Tensor) -> Tensor:
        return functional.conv2d(images - self.mean[:, None, None], self.basis, stride=BLOCK)

    def decode(self, latents: Tensor) -> Tensor:
        return functional.conv_transpose2d(latents, self.basis, stride=BLOCK) + self.mean[:, None, None]


class _Block(nn.Module):
    """Norm, rectifier, convolution, twice, added to the input; what is known of the noise is added between."""

    def __init__(self, inputs: int, outputs: int, known: int = 0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = zeroed(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.known = nn.Linear(known, outputs) if known else None
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, known: Tensor | None = None) -> Tensor:
        y = self.first(functional.silu(self.norm1(x)))
        if self.known is not None and known is not None:
            y = y + self.known(known)[:, :, None, None]
        out: Tensor = self.skip(x) + self.second(functional.silu(self.norm2(y)))
        return out


class EyeUNet(nn.Module):
    """A U-Net on the strip: N×3×S/2×S to N×outputs×S/2×S."""

    def __init__(self, outputs: int, widths: Sequence[int] = (32, 64, 96), known: int = 0) -> None:
        super().__init__()
        self.enter = nn.Conv2d(12, widths[0], 3, padding=1)
        pairs = zip([widths[0], *widths], widths, strict=False)
        self.down = nn.ModuleList(_Block(a, b, known) for a, b in pairs)
        self.up = nn.ModuleList(_Block(a + b, b, known) for a, b in zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.out = zeroed(nn.Conv2d(widths[0], 4 * outputs, 3, padding=1))

    def first_maps(self, eyes: Tensor, known: Tensor | None = None) -> list[Tensor]:
        """The maps of the way down, the largest first."""
        x = self.enter(functional.pixel_unshuffle(2 * eyes - 1, 2).contiguous(memory_format=torch.channels_last))
        maps: list[Tensor] = []
        for i, block in enumerate(self.down):
            x = block(functional.avg_pool2d(x, 2) if i else x, known)
            maps.append(x)
        return maps

    def forward(self, eyes: Tensor, known: Tensor | None = None) -> Tensor:
        maps = self.first_maps(eyes, known)
        x = maps.pop()
        for block in self.up:
            x = block(torch.cat([functional.interpolate(x, scale_factor=2.0), maps.pop()], 1), known)
        return functional.pixel_shuffle(self.out(functional.silu(x)), 2)


def each_eye(images: Tensor) -> tuple[Tensor, Tensor]:
    """A square around either eye, the right one mirrored: N×3×S/4×S/4 each."""
    side = images.shape[-1]
    reach = side // 8
    out = []
    for x, y in GOAL[:2]:
        # A little lower than the eye: tumours grow on the lower lid.
        column, row = round(float(x) * side), round((float(y) + 0.015) * side)
        out.append(images[..., row - reach : row + reach, column - reach : column + reach])
    return out[0], out[1].flip(-1)


class EyeClassifier(nn.Module):
    """Photographs to one probability per disease. Both eyes pass the first three layers of AlexNet (Krizhevsky et al.
    2012), which keep what they learned from ImageNet, and are compared by a head: eyes are too few to learn to see."""

    #: Pixels of an eye as the trunk sees it, and the mean and spread of the colours that it was trained with.
    SEEN = 112
    COLOUR, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def __init__(
        self, labels: Sequence[str], widths: Sequence[int] = (64, 192, 384), narrow: int = 48, hidden: int = 128
    ) -> None:
        super().__init__()
        self.config = {"labels": list(labels), "widths": list(widths), "narrow": narrow, "hidden": hidden}
        self.labels = tuple(labels)
        one, two, three = widths
        self.trunk = nn.ModuleList(
            [nn.Conv2d(3, one, 11, 4, 2), nn.Conv2d(one, two, 5, padding=2), nn.Conv2d(two, three, 3, padding=1)]
        ).requires_grad_(False)
        self.narrow = nn.Conv2d(two + three, narrow, 1)
        self.compare = nn.Linear(2 * narrow * 6**2, hidden)
        self.head = nn.Linear(hidden, len(self.labels))

    def maps(self, images: Tensor) -> Tensor:
        """What the trunk sees of both eyes, of unit length at every place; differentiable."""
        eyes = functional.interpolate(torch.cat(each_eye(images)), (self.SEEN, self.SEEN), mode="bicubic")
        x = (eyes - eyes.new_tensor(self.COLOUR)[:, None, None]) / eyes.new_tensor(self.SPREAD)[:, None, None]
        x = functional.max_pool2d(functional.relu(self.trunk[0](x)), 3, 2)
        x = functional.max_pool2d(functional.relu(self.trunk[1](x)), 3, 2)
        return torch.cat([functional.normalize(y, dim=1) for y in (x, functional.relu(self.trunk[2](x)))], 1)

    def forward(self, images: Tensor) -> Tensor:
        """Logits; differentiable."""
        seen = functional.relu(self.narrow(6 * self.maps(images))).flatten(1)
        both = functional.dropout(torch.cat(seen.chunk(2), 1), 0.3, self.training)
        logits: Tensor = self.head(functional.relu(self.compare(both)))
        return logits

    @batched
    def probabilities(self, images: Tensor) -> Tensor:
        return torch.sigmoid(self(images))


class EyeSegmenter(nn.Module):
    """Photographs N×3×S×S to logits N×1×S×S of where a disease shows; outside the strip there is none."""

    def __init__(self, widths: Sequence[int] = (32, 64, 96)) -> None:
        super().__init__()
        self.config = {"widths": list(widths)}
        self.unet = EyeUNet(1, widths)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the strip, N×1×S/2×S."""
        logits: Tensor = self.unet(strip(images))
        return logits

    @batched
    def masks(self, images: Tensor) -> Tensor:
        """Probabilities N×1×S×S."""
        side = images.shape[-1]
        top = round(STRIP[0] * side)
        found = torch.sigmoid(self(images))
        return functional.pad(found, (0, 0, top, side - top - found.shape[-2]))


def angles(times: Tensor, count: int) -> Tensor:
    """Times in [0, 1] as sines and cosines, N×count."""
    speeds = torch.exp(torch.linspace(0, math.log(200.0), count // 2, device=times.device))
    turned = times[:, None] * speeds
    return torch.cat([turned.sin(), turned.cos()], 1)


class EyeDenoiser(nn.Module):
    """The medical encoder: the first blocks of a diffusion model of diseased eyes (MedSem-DeID, Tian et al. 2025).

    The model predicts the noise in a strip that was mixed with it, given the disease. ``features`` are the maps of its
    way down for a strip without noise.
    """

    KNOWN = 64

    def __init__(self, labels: Sequence[str], widths: Sequence[int] = (32, 64, 96)) -> None:
        super().__init__()
        self.config = {"labels": list(labels), "widths": list(widths)}
        self.labels, self.widths = tuple(labels), tuple(widths)
        self.disease = nn.Linear(len(self.labels), self.KNOWN)
        self.unet = EyeUNet(3, widths, self.KNOWN)

    def forward(self, noisy: Tensor, times: Tensor, labels: Tensor) -> Tensor:
        """The noise in strips."""
        noise: Tensor = self.unet(noisy, angles(times, self.KNOWN) + self.disease(labels))
        return noise

    def features(self, images: Tensor) -> list[Tensor]:
        """The maps of the way down, the largest first; differentiable. The disease is not given."""
        times = torch.zeros(len(images), device=images.device)
        labels = torch.zeros(len(images), len(self.labels), device=images.device)
        return self.unet.first_maps(strip(images), angles(times, self.KNOWN) + self.disease(labels))


class FaceIdentity(nn.Module):
    """Whose face it is, as one recogniser says it: unit vectors that were learned from that recogniser's own."""

    def __init__(self, space: int = 512, widths: Sequence[int] = (48, 96, 160, 256)) -> None:
        super().__init__()
        self.config = {"space": space, "widths": list(widths)}
        self.enter = nn.Conv2d(12, widths[0], 3, padding=1)
        self.blocks = nn.ModuleList(_Block(a, b) for a, b in zip([widths[0], *widths], widths, strict=False))
        self.norm = nn.GroupNorm(8, widths[-1])
        self.project = nn.Linear(16 * widths[-1], space)

    def forward(self, images: Tensor) -> Tensor:
        small = functional.interpolate(images, (64, 64), mode="bilinear", antialias=True)
        x = functional.pixel_unshuffle(2 * small - 1, 2)
        x = self.enter(x.contiguous(memory_format=torch.channels_last))
        for i, block in enumerate(self.blocks):
            x = block(functional.avg_pool2d(x, 2) if i else x)
        flat = functional.adaptive_avg_pool2d(functional.silu(self.norm(x)), 4).flatten(1)
        return functional.normalize(self.project(flat), dim=-1)

    @batched
    def embed(self, images: Tensor) -> Tensor:
        embedded: Tensor = self(images)
        return embedded
