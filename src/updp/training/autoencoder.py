"""Stages `code` and `decoder` of the lapped autoencoder.

`code`: the linear code starts from the principal components of blocks, learns kernels that overlap, and is turned to
principal axes, each divided by the square root of its spread. `decoder`: what the linear synthesis lacks, learned on
crops. Fidelity comes first where the code determines the film: absolute and squared error up to 64 cycles per film,
block means, LPIPS. The grain above has no phase that a code could keep, only an energy that varies over the film; the
decoder must match that energy block by block and in all, and an adversary shapes the rest. A radiograph's texture is
a hundredth of its range, so the adversary sees films high-passed and amplified. Latents are noised and shrunk, as a
generator's are, and in a later phase are the generator's own.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from updp.models.lapped import STRIDE, LappedAutoencoder, grain
from updp.training.corpus import Corpus
from updp.training.figures import psnr, relative_power, ssim
from updp.training.loop import StageConfig
from updp.training.sheet import write_sheet

if TYPE_CHECKING:
    from updp.models.lpips import Lpips

#: Weights of the decoder's losses beside the absolute error.
SQUARED, MEANS, PERCEPTUAL, ENERGY, POWER, ADVERSARY = 4.0, 2.0, 0.15, 0.01, 0.01, 0.002
_NOISE, _SHRINK = 0.25, 0.3  # how far latents are disturbed; fine channels shrink most
_R1_EVERY, _R1 = 8, 0.1  # gradient penalty of the adversary, at its own amplified input
_BLOCK, _FLOOR = 16, 2e-3  # pixels of a block whose energy is matched, and the contrast below which none is asked for


def as_tensor(films: NDArray[np.uint8]) -> Tensor:
    """uint8 films to N×1×S×S in [0, 1]."""
    return torch.from_numpy(np.array(films)).unsqueeze(1).float().div_(255)


# -- the code --------------------------------------------------------------------------------------------------------


@torch.no_grad()
def start_from_blocks(module: LappedAutoencoder, films: Tensor) -> None:
    """Kernels of the best code without overlap: principal components of 16×16 blocks, nothing around them."""
    films = functional.avg_pool2d(films, module.enlarged)
    blocks = functional.unfold(films, STRIDE, stride=STRIDE).transpose(1, 2).reshape(-1, STRIDE**2).double()
    blocks = blocks - blocks.mean(0)
    _, vectors = torch.linalg.eigh(blocks.T @ blocks / len(blocks))
    basis = vectors.flip(1)[:, : module.channels].T.float()
    basis = basis * torch.sign(basis.sum(1, keepdim=True) + 1e-12)  # eigenvectors have no sign of their own
    margin = STRIDE // 2
    for kernel in module.linear:
        kernel.zero_()
        kernel[:, :, margin:-margin, margin:-margin] = basis.reshape(-1, 1, STRIDE, STRIDE)
    module.mean.fill_(float(films.mean()))


@torch.no_grad()
def principal_axes(module: LappedAutoencoder, films: Tensor) -> None:
    """Turn a code to the axes its films vary along, largest first, and divide each by the square root of its spread."""
    module.shift.zero_()
    module.scale.fill_(1)
    raw = module.encode(films)
    flat = raw.permute(0, 2, 3, 1).reshape(-1, module.channels).double()
    kernels = module.synthesis.weight.reshape(module.channels, -1).double()
    # Lengths are measured where they are seen, in pixels: the metric is that of the synthesis kernels.
    root = torch.linalg.cholesky(kernels @ kernels.T)
    seen = (flat - flat.mean(0)) @ root
    values, vectors = torch.linalg.eigh(seen.T @ seen / len(seen))
    turn = root @ vectors.flip(1)
    analysis = module.analysis.weight.reshape(module.channels, -1).double()
    module.analysis.weight.copy_((turn.T @ analysis).reshape_as(module.analysis.weight))
    module.synthesis.weight.copy_((torch.linalg.inv(turn) @ kernels).reshape_as(module.synthesis.weight))
    module.shift.copy_(module.encode(films).mean((0, 2, 3)))
    module.scale.copy_(values.flip(0).clamp_min(1e-12).sqrt().sqrt())
    # One factor for all, so that a latent is of unit size on the whole, as the noise it is mixed with.
    module.scale.mul_(module.encode(films).square().mean().sqrt())


class CodeStage:
    name = "code"

    def __init__(self, corpus: Corpus, config: StageConfig, model: dict[str, Any]) -> None:
        self.corpus, self.config, self.model_config = corpus, config, model
        self.rows = corpus.rows("train")
        self.module: nn.Module = self.build()
        self.module.refine.requires_grad_(False)
        start_from_blocks(self.module, self.some())

    def build(self) -> LappedAutoencoder:
        return LappedAutoencoder(**self.model_config)

    def some(self, count: int = 2000) -> Tensor:
        """Training films that means and spreads are taken over."""
        rng = np.random.default_rng([self.config.seed, *b"code"])
        rows = np.sort(rng.choice(self.rows, min(count, len(self.rows)), replace=False))
        return as_tensor(self.corpus.films[rows])

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        bare: Any = _bare(module)
        films = as_tensor(self.corpus.films[np.sort(rng.choice(self.rows, self.config.batch))]).to(device)
        error: Tensor = bare.synthesise(bare.encode(films)) - functional.avg_pool2d(films, bare.enlarged)
        return 1000 * error.square().mean()

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        if not len(films := validation_films(self.corpus)):
            return {}
        bare: Any = module.to("cpu")
        pairs = [(bare.synthesise(bare.encode(part)), part) for part in _in_parts(films)]
        each = [psnr(y, functional.avg_pool2d(x, bare.enlarged)) for y, x in pairs]
        return {"psnr": float(torch.cat(each).mean())}

    def finished(self, module: LappedAutoencoder) -> LappedAutoencoder:
        """The trained code on its principal axes."""
        principal_axes(module, self.some())
        return module


# -- the decoder -----------------------------------------------------------------------------------------------------


def high_passed(films: Tensor) -> Tensor:
    """Films N×1×H×W as their differences from local means, two widths, amplified: N×2×H×W."""
    parts = []
    for width, gain in ((9, 25.0), (3, 60.0)):
        padded = functional.pad(films, (width // 2,) * 4, mode="reflect")
        parts.append((films - functional.avg_pool2d(padded, width, 1)) * gain)
    return torch.cat(parts, 1).clamp(-4, 4)


class Discriminator(nn.Module):
    """Real or decoded, for each patch of a film (Isola et al. 2017, arXiv 1611.07004)."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        w = width
        self.layers = nn.Sequential(
            nn.Conv2d(2, w, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(w, w, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(w, 2 * w, 4, 2, 1),
            nn.GroupNorm(8, 2 * w),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * w, 4 * w, 4, 2, 1),
            nn.GroupNorm(8, 4 * w),
            nn.LeakyReLU(0.2),
            nn.Conv2d(4 * w, 1, 3, padding=1),
        )

    def forward(self, textures: Tensor) -> Tensor:
        """One score per patch of `high_passed` films."""
        scores: Tensor = self.layers(textures)
        return scores


def upper_bands(films: Tensor) -> list[Tensor]:
    """What films hold between 64 and 128 and between 32 and 64 cycles per film of 256 pixels."""
    out = []
    for _ in range(2):
        smaller = functional.avg_pool2d(films, 2)
        out.append(films - functional.interpolate(smaller, scale_factor=2.0, mode="bilinear", align_corners=False))
        films = smaller
    return out


def block_energies(band: Tensor) -> Tensor:
    """Logarithm of the energy in each block."""
    block = min(_BLOCK, band.shape[-1])
    return (functional.avg_pool2d(band.square(), block) + _FLOOR**2).log()


def power_error(ours: Tensor, theirs: Tensor) -> Tensor:
    """How far two batches are apart in the power of a band. Blocks with edges and vessels hold most of it, and count
    little among all blocks."""
    error: Tensor = (ours.square().mean().clamp_min(1e-12) / theirs.square().mean().clamp_min(1e-12)).log().square()
    return error


class WithAdversary(nn.Module):
    """The autoencoder and, while training only, the network that tells its films from real ones."""

    def __init__(self, autoencoder: LappedAutoencoder, width: int = 48) -> None:
        super().__init__()
        self.autoencoder = autoencoder
        self.discriminator = Discriminator(width)
        for kernel in autoencoder.linear:
            kernel.requires_grad_(False)

    def forward(self, latents: Tensor, base: Tensor, field: Tensor | None = None) -> Tensor:
        film: Tensor = self.autoencoder.refine(latents, base, field)
        return film


class DecoderStage:
    name = "decoder"

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        start: LappedAutoencoder | WithAdversary,
        *,
        lpips: Lpips | None = None,
        own: Tensor | None = None,
        crop: int = 128,
        width: int = 48,
        directory: Path | None = None,
    ) -> None:
        """`lpips` is the perceptual loss, if any; `own` are latents of a generator, for the later phase, which
        `start`s from what this one gave; `directory` keeps the sheets."""
        self.corpus, self.config, self.lpips, self.own, self.directory = corpus, config, lpips, own, directory
        self.rows, self.width, self.step = corpus.rows("train"), width, 0
        if own is not None:
            self.name = "decoder-own"
        begun = start.autoencoder if isinstance(start, WithAdversary) else start
        self.model_config: dict[str, Any] = begun.config
        self.module: nn.Module = self.build()
        if isinstance(start, WithAdversary):
            self.module.load_state_dict(start.state_dict())
        else:
            self.module.autoencoder.load_state_dict(start.state_dict())
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.patch = begun.patch
        self.cells = min(crop, corpus.films.shape[1]) // self.patch
        # The adversary begins when the plain losses have done their work, and learns a little before it counts.
        self.begin = min(400, config.steps // 4) if own is None else 0

    def build(self) -> WithAdversary:
        return WithAdversary(LappedAutoencoder(**self.model_config), self.width)

    def parts(self, module: WithAdversary) -> list[nn.Module]:
        return [module.autoencoder, module.discriminator]

    def disturbed(self, latents: Tensor, rng: np.random.Generator) -> Tensor:
        """Latents with the small errors a generator makes: noise, and fine channels of too little contrast."""
        n, channels = latents.shape[:2]
        noise = torch.from_numpy((_NOISE * rng.random((n, 1, 1, 1)) ** 2).astype(np.float32))
        drawn = torch.from_numpy(rng.standard_normal(tuple(latents.shape), np.float32))
        amount = rng.random((n, channels)) * np.linspace(0, _SHRINK, channels) * (rng.random((n, 1)) < 0.5)
        shrunk = torch.from_numpy((1 - amount).astype(np.float32))[:, :, None, None]
        return (latents + noise.to(latents.device) * drawn.to(latents.device)) * shrunk.to(latents.device)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        self.step = step + 1
        bare: Any = _bare(module)
        coder: LappedAutoencoder = bare.autoencoder
        films = as_tensor(self.corpus.films[np.sort(rng.choice(self.rows, self.config.batch))]).to(device)
        n = len(films)
        with torch.no_grad():
            latents = self.disturbed(coder.encode(films), rng)
            if self.own is not None and step % 2:
                chosen = rng.choice(len(self.own), n)
                latents = torch.cat([latents, self.own[torch.from_numpy(chosen)].to(device)])
            base = coder.synthesise(latents)
        side = latents.shape[-1]
        top, left = (int(v) for v in rng.integers(0, side - self.cells + 1, 2))

        def cut(x: Tensor, cell: int) -> Tensor:
            return x[:, :, cell * top : cell * (top + self.cells), cell * left : cell * (left + self.cells)]

        def inside(x: Tensor) -> Tensor:  # the rim of a crop lacks what lies beyond it
            rim = x.shape[-1] // (2 * self.cells)
            return x[:, :, rim:-rim, rim:-rim]

        # Other noise for every crop: the decoder must not memorise one noise field.
        noise = [
            rng.standard_normal((len(latents), 1, STRIDE * self.cells // c, STRIDE * self.cells // c)) for c in (1, 2)
        ]
        field = grain(*(torch.from_numpy(n.astype(np.float32)).to(device) for n in noise))
        made, real = inside(module(cut(latents, 1), cut(base, STRIDE), field)), inside(cut(films, self.patch))
        truth = made[:n]
        # The phase of the grain is not in the code: above its band, errors are not counted pixel by pixel.
        error = functional.avg_pool2d(truth - real, 2)
        loss = error.abs().mean() + SQUARED * error.square().mean() + MEANS * _means(error, 4).abs().mean()
        # Not of generated latents: a decoder that owes them power crackles where they show nothing.
        for ours, theirs in zip(upper_bands(truth), upper_bands(real), strict=True):
            loss = loss + ENERGY * (block_energies(ours) - block_energies(theirs)).abs().mean()
            loss = loss + POWER * power_error(ours, theirs)
        if self.lpips is not None:
            loss = loss + PERCEPTUAL * self.lpips.distance(truth, real).mean()
        if len(made) > n:  # generated latents have no real film; only coarse grey values are compared
            linear = functional.interpolate(inside(cut(base, STRIDE))[n:], scale_factor=float(coder.enlarged))
            loss = loss + MEANS * _means(made[n:] - linear).abs().mean()
        if step >= self.begin // 2:
            loss = loss + self._opposed(bare.discriminator, made, real, step)
        return loss

    def _opposed(self, discriminator: nn.Module, made: Tensor, real: Tensor, step: int) -> Tensor:
        """Losses of decoder and discriminator in one sum: each takes the other as fixed."""
        textures = high_passed(real).detach().requires_grad_(step % _R1_EVERY == 0)
        on_real, on_made = discriminator(textures), discriminator(high_passed(made.detach()))
        loss = functional.softplus(-on_real).mean() + functional.softplus(on_made).mean()
        if textures.requires_grad:
            (gradient,) = torch.autograd.grad(on_real.mean((1, 2, 3)).sum(), textures, create_graph=True)
            loss = loss + _R1_EVERY * _R1 / 2 * gradient.square().sum((1, 2, 3)).mean()
        if step >= self.begin:
            fixed = {name: value.detach() for name, value in discriminator.named_parameters()}
            opposed = functional_call(discriminator, fixed, (high_passed(made),))
            loss = loss + ADVERSARY * functional.softplus(-opposed).mean()
        return loss

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        if not len(films := validation_films(self.corpus)):
            return {}
        bare: Any = module.to("cpu")
        coder: LappedAutoencoder = bare.autoencoder
        latents = coder.encode(films)
        again = coder.decode(latents)
        figures = {"psnr": float(psnr(films, again).mean()), "ssim": float(ssim(films, again).mean())}
        figures |= relative_power(again, films)
        if self.lpips is not None:
            pairs = zip(_in_parts(films), _in_parts(again), strict=True)
            figures["lpips"] = float(torch.cat([self.lpips(a, b) for a, b in pairs]).mean())
        if self.own is not None:
            drawn = coder.decode(self.own[:16])
            figures |= {f"own {name}": value for name, value in relative_power(drawn, films).items()}
        if self.directory is not None:
            rows = [films[:6], again[:6]] + ([drawn[:6]] if self.own is not None else [])
            write_sheet(torch.cat(rows), self.directory / f"{self.name}-sheet-{self.step:06d}.png", columns=6)
        return figures


def validation_films(corpus: Corpus) -> Tensor:
    """The films that a stage is judged on."""
    return as_tensor(corpus.films[corpus.rows("val")[:96]])


def _in_parts(films: Tensor) -> list[Tensor]:
    return [films[i : i + 16] for i in range(0, len(films), 16)]


def _means(films: Tensor, side: int = 8) -> Tensor:
    return functional.avg_pool2d(films, math.gcd(side, films.shape[-1]))


def _bare(module: nn.Module) -> nn.Module:
    bare: nn.Module = getattr(module, "module", module)
    return bare
