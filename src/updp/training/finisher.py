"""Stage `generator-finisher`: from half-way latents to a film in one call, against a critic.

The mean squared error that diffusion learns by asks for the mean of all films that fit noisy latents. In few steps, and
early in training, ribs and vessels average out. The finisher starts from the generator's own weights and learns low-
rank changes of them with another aim: its films must not be told from real ones (denoising diffusion GAN, Xiao et al.
2022, arXiv 2112.07804). The critic looks at features of ImageNet networks that stay as they are (Sauer et al. 2021,
arXiv 2111.01007), at four depths each, and at whether a film fits what its text says. Two networks of different kinds
(EfficientNet-Lite0, AlexNet) leave fewer faults unseen than one. What a film shows, as the representation that the
generator takes, must come back in it, and a batch has the power by band of the real films. Half of the latents are
noised real films, whose coarse grey values must come back; half are the generator's own, as it leaves them after some
steps, or the finisher's film of them, noised back for a second look as the sampler does it. A generator that has a
finisher already goes on with it.
Both sides are compared through the linear synthesis of the code: the decoder adds grain later.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from updp.models.backbone import EfficientNetLite0, settled
from updp.models.generator import Condition, Generator, UNet
from updp.models.generator import settled as settled_to
from updp.models.low_rank import load_paths, paths, with_low_rank
from updp.models.lpips import trunk_features
from updp.models.samplers import alpha, sigma
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.figures import powers, relative_power
from updp.training.generator import Rows, Texts, token_batch
from updp.training.loop import StageConfig
from updp.training.prompts import ATTRIBUTES
from updp.training.representation import Representation
from updp.training.sheet import write_sheet

if TYPE_CHECKING:
    from updp.models.lapped import LappedAutoencoder

#: Kernels and biases of AlexNet.
Trunk = list[tuple[Tensor, Tensor]]

#: Times of noised real latents, and of the generator's own.
TIMES, OWN_TIMES = (0.35, 0.88), (0.55, 0.8)
#: Of the generator's own latents at `AGAIN_FROM` or later, the share that gets a second look, and times of it.
AGAIN, AGAIN_FROM, AGAIN_TIMES = 0.5, 0.69, (0.42, 0.6)
#: Weights of the losses beside the critic's: coarse grey values of the film, and squared error of the latents.
MEANS, LATENTS, FITS = 10.0, 0.1, 0.5
SHOW = 1.0  # weight of how far a film's representation is from that of the real film
POWER = 1.0  # weight of how far a batch is from real films in power by band: shadows as deep, ribs as sharp
#: Weight of guidance in the generator's own latents: it varies, so that the finisher does not depend on one.
GUIDANCE, LESS_GUIDANCE = (1.5, 4.0), (1.0, 2.5)
_EDITION = 2  # of how they are drawn
_LITTLE = 1e-6  # of power: a film without any has a logarithm still
_BEGIN, _RAMP = 30, 60  # steps before the critic counts, and until it counts in full
FOUND = 2.0  # how much more often a film with findings is drawn than one without
#: What the critic sees: blocks of EfficientNet-Lite0 and taps of AlexNet, their channels, and halvings of their maps.
_BLOCKS = {2: (24, 2), 4: (40, 1), 10: (112, 0), 15: (320, 0)}
_TAPS = {0: (64, 2), 1: (192, 1), 2: (384, 0), 4: (256, 0)}
_VIEW = 0.75  # side of what the critic sees, of the film's: a crop, or the whole film made smaller


@dataclass(frozen=True)
class HalfWay:
    """Latents as the generator leaves them, their times, and the texts they were drawn for."""

    latents: NDArray[np.float16]
    times: NDArray[np.float32]
    ids: NDArray[np.int32]
    said: NDArray[np.int8]
    rows: NDArray[np.int64]  # the films whose texts and representations they were drawn for


@torch.no_grad()
def own_half_way(
    generator: Generator,
    texts: Texts,
    rows: Rows,
    count: int,
    directory: Path,
    seed: int = 0,
    shown: NDArray[np.float32] | None = None,
) -> HalfWay:
    """`count` half-way latents for texts of training films and what these show, drawn once for these weights."""
    digest = hashlib.sha256(repr((_EDITION, count, seed, generator.sampling, shown is None)).encode())
    for value in generator.unet.state_dict().values():
        digest.update(value.numpy().tobytes())
    path = directory / f"half-way-{digest.hexdigest()[:16]}.npz"
    if not path.exists():
        rng = np.random.default_rng([seed, *b"half-way"])
        latents, times, ids, said, films = [], [], [], [], []
        for i in range(0, count, 16):
            n = min(16, count - i)
            chosen, draws = rows.draw(n, rng), rng.integers(texts.ids.shape[1], size=n)
            condition = generator.unet.condition(*token_batch(texts.ids[chosen, draws], torch.device("cpu")))
            if shown is not None:
                condition = settled_to(condition, torch.from_numpy(shown[chosen]))
            noise = generator.seeded_noise(rng.integers(2**31, size=n).tolist())
            guidance = float(rng.uniform(*(GUIDANCE if shown is None else LESS_GUIDANCE)))
            end = float(rng.uniform(*OWN_TIMES))
            steps = max(1, round(generator.sampling.steps * (1 - end) / (1 - min(OWN_TIMES))))
            latents.append(generator.half_way(noise, condition, steps, guidance, 1.0, end).half().numpy())
            times += [end] * n
            ids.append(texts.ids[chosen, draws])
            said.append(texts.said[chosen, draws])
            films.append(chosen)
        directory.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            np.savez(
                file,
                latents=np.concatenate(latents),
                times=np.array(times, np.float32),
                ids=np.concatenate(ids),
                said=np.concatenate(said),
                rows=np.concatenate(films),
            )
        os.replace(part, path)
    held = np.load(path)
    return HalfWay(held["latents"], held["times"], held["ids"], held["said"], held["rows"])


class Critic(nn.Module):
    """Real or made, for each place of each map; and whether a film fits what its text says."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, width: int = 64, attributes: int = len(ATTRIBUTES), alexnet: bool = False) -> None:
        """`alexnet`: four maps of AlexNet follow those of EfficientNet-Lite0."""
        super().__init__()
        seen = [*_BLOCKS.values(), *(_TAPS.values() if alexnet else ())]
        widest = max(channels for channels, _ in seen)
        source = torch.Generator().manual_seed(0)
        for i, (channels, _) in enumerate(seen):  # mixed at random, so that no single feature decides
            mix = torch.randn(width, channels, 1, 1, generator=source) * channels**-0.5
            self.register_buffer(f"mix{i}", mix)
        self.register_buffer("mean", torch.zeros(len(seen), widest))
        self.register_buffer("deviation", torch.ones(len(seen), widest))
        self.heads = nn.ModuleList(
            nn.Sequential(
                spectral_norm(nn.Conv2d(width, width, 3, 2 if halvings > 0 else 1, 1)),
                nn.LeakyReLU(0.2),
                spectral_norm(nn.Conv2d(width, width, 3, 2 if halvings > 1 else 1, 1)),
                nn.LeakyReLU(0.2),
                spectral_norm(nn.Conv2d(width, 1, 3, padding=1)),
            )
            for _, halvings in seen
        )
        deepest = sum(channels for channels, _ in list(_BLOCKS.values())[-2:])
        self.film = nn.Sequential(
            spectral_norm(nn.Linear(deepest, 256)), nn.LeakyReLU(0.2), spectral_norm(nn.Linear(256, 128))
        )
        self.said = spectral_norm(nn.Linear(attributes, 128, bias=False))

    def adjust(self, maps: list[Tensor]) -> None:
        """Take mean and deviation of each channel from the maps of real films."""
        for i, m in enumerate(maps):
            self.mean[i, : m.shape[1]] = m.mean((0, 2, 3))
            self.deviation[i, : m.shape[1]] = m.std((0, 2, 3)) + 1e-3

    def forward(self, maps: list[Tensor], said: Tensor) -> tuple[list[Tensor], Tensor]:
        """Scores by map, and one per film of how it fits `said` N×attributes (zero where that is not known)."""
        maps = [
            (m - self.mean[i, : m.shape[1], None, None]) / self.deviation[i, : m.shape[1], None, None]
            for i, m in enumerate(maps)
        ]
        scores = [
            head(functional.conv2d(m, self.get_buffer(f"mix{i}")))
            for i, (head, m) in enumerate(zip(self.heads, maps, strict=True))
        ]
        film = self.film(torch.cat([m.mean((2, 3)) for m in maps[len(_BLOCKS) - 2 : len(_BLOCKS)]], 1))
        fits = (film * self.said(3 * (said.clamp_min(0) - 0.1) * (said >= 0))).sum(1) * _known(said)
        return scores, fits


def _known(said: Tensor) -> Tensor:
    """Texts that say anything of which it is known what it says."""
    return (said >= 0).any(1)


class WithCritic(nn.Module):
    """The finisher and, while training only, its critic."""

    def __init__(self, network: UNet, critic: Critic) -> None:
        super().__init__()
        self.network, self.critic = network, critic

    def forward(self, latents: Tensor, times: Tensor, condition: Condition) -> Tensor:
        """The clean latents."""
        a, s = (f(times).to(latents)[:, None, None, None] for f in (alpha, sigma))
        clean: Tensor = a * latents - s * self.network(latents, times, condition)
        return clean


def draw_view(rng: np.random.Generator, size: int) -> Callable[[Tensor], Tensor]:
    """What the critic sees of films of one step: the whole at a smaller size, or a crop."""
    side = round(_VIEW * size)
    if rng.random() < 0.4:
        return lambda films: functional.interpolate(films, side, mode="bilinear", antialias=True)
    top, left = (int(v) for v in rng.integers(0, size - side + 1, 2))
    return lambda films: films[:, :, top : top + side, left : left + side]


def draw_shift(rng: np.random.Generator, size: int) -> Callable[[Tensor], Tensor]:
    """What a representation is taken of: nearly the whole film, never twice at the same place."""
    side = int(rng.integers(size * 7 // 8, size + 1))
    top, left = (int(v) for v in rng.integers(0, size - side + 1, 2))
    return lambda films: films[:, :, top : top + side, left : left + side]


class FinisherStage:
    name = "generator-finisher"

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        autoencoder: LappedAutoencoder,
        texts: Texts,
        start: UNet,
        rank: int,
        own: HalfWay | None = None,
        directory: Path | None = None,
        imagenet: bool = True,
        trunk: Trunk | None = None,
        weights: Mapping[str, float] | None = None,
        shown: NDArray[np.float32] | None = None,
        representation: Representation | None = None,
    ) -> None:
        """`start` is the generator; `own` latents of it; `imagenet` false leaves the critic's network untrained;
        `trunk` is AlexNet, if the critic looks through it too; `weights` of sources; `shown` are the representations
        of all films, for a generator that takes one; `representation` gives those of made films."""
        self.trunk, self.shown, self.representation = trunk, shown, representation
        self.corpus, self.config, self.texts, self.own = corpus, config, texts, own
        self.autoencoder = autoencoder.eval().requires_grad_(False)
        self.start, self.rank, self.directory, self.step = start, rank, directory, 0
        features = EfficientNetLite0()
        if imagenet:
            features.load_imagenet()
        self.features = settled(features)
        self.rows = Rows(corpus, texts, weights or {}, FOUND)
        self.module: nn.Module = self.build()
        with torch.no_grad():
            rows = np.flatnonzero((corpus.splits == "train") & texts.usable())
            films = as_tensor(corpus.films[rows[:: max(1, len(rows) // 64)][:64]])
            self.module.critic.adjust(self._maps(self._film(self.autoencoder.encode(films))))

    def build(self) -> WithCritic:
        plain = UNet(**self.start.bare())
        plain.load_state_dict(self.start.bare_state())
        network = with_low_rank(plain, self.rank, UNet.SHARED)
        if self.start.config.get("finisher") == self.rank:
            load_paths(network, self.start.changes())
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return WithCritic(network, Critic(alexnet=self.trunk is not None))

    def parts(self, module: WithCritic) -> list[nn.Module]:
        return [module.network, module.critic]

    def finished(self, module: WithCritic) -> UNet:
        """The generator with what the finisher learned."""
        return self.start.with_finisher(paths(module.network), self.rank)

    def _film(self, latents: Tensor) -> Tensor:
        film: Tensor = self.autoencoder.synthesise(latents)
        return film

    def _maps(self, films: Tensor) -> list[Tensor]:
        maps = self.features.maps_at(films, tuple(_BLOCKS))
        if self.trunk is not None:
            taps = trunk_features(films, [(w.to(films), b.to(films)) for w, b in self.trunk])
            maps += [taps[i] for i in _TAPS]
        return maps

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        self.step = step + 1
        bare: Any = getattr(module, "module", module)
        count = self.config.batch if self.own is None else (self.config.batch + 1) // 2
        rows, draws = self.rows.draw(count, rng), rng.integers(self.texts.ids.shape[1], size=count)
        ids, said = self.texts.ids[rows, draws], self.texts.said[rows, draws]
        told = torch.from_numpy(said.astype(np.float32)).to(device)
        self.autoencoder.to(device)
        self.features.to(device)
        view = draw_view(rng, self.corpus.films.shape[1])
        with torch.no_grad():
            clean = self.autoencoder.encode(as_tensor(self.corpus.films[rows]).to(device))
            low, high = TIMES
            places = (rng.permutation(count) + rng.random()) / count
            t = torch.from_numpy((low + (high - low) * places).astype(np.float32)).to(device)
            noise = torch.from_numpy(rng.standard_normal(tuple(clean.shape), np.float32)).to(device)
            latents = alpha(t)[:, None, None, None] * clean + sigma(t)[:, None, None, None] * noise
            real = self._film(clean)
            maps = self._maps(view(real))
        asked, drawn_for = told, rows
        if self.own is not None:
            chosen = rng.choice(len(self.own.times), self.config.batch - count)
            drawn_for = np.concatenate([rows, self.own.rows[chosen]])
            latents = torch.cat([latents, torch.from_numpy(self.own.latents[chosen]).float().to(device)])
            t = torch.cat([t, torch.from_numpy(self.own.times[chosen]).to(device)])
            ids = np.concatenate([ids, self.own.ids[chosen]])
            asked = torch.cat([told, torch.from_numpy(self.own.said[chosen].astype(np.float32)).to(device)])
        with torch.no_grad():
            condition = bare.network.condition(*token_batch(ids, device))
            if self.shown is not None:
                condition = settled_to(condition, torch.from_numpy(self.shown[drawn_for]).to(device))
            late = np.flatnonzero((t.cpu().numpy() >= AGAIN_FROM) & (rng.random(len(t)) < AGAIN))
            again = torch.from_numpy(late[late >= count]).to(device)
            if len(again):
                latents[again], t[again] = self._look_again(bare, latents[again], t[again], condition.rows(again), rng)
        made = module(latents, t, condition)
        film = self._film(made)
        means = (functional.avg_pool2d(film[:count], 8) - functional.avg_pool2d(real, 8)).abs().mean()
        loss: Tensor = MEANS * means + LATENTS * (made[:count] - clean).square().mean()
        with torch.no_grad():
            paired = real
            if count < len(drawn_for):
                others = as_tensor(self.corpus.films[drawn_for[count:]]).to(device)
                paired = torch.cat([real, self._film(self.autoencoder.encode(others))])
        # Apart for films from real latents and from the generator's own: too much in one would hide too little in the
        # other.
        for part in (slice(count), slice(count, None)):
            if len(film[part]):
                ratio = (powers(film[part]) + _LITTLE) / (powers(paired[part]) + _LITTLE)
                loss = loss + POWER * ratio.log().square().mean()
        if self.representation is not None:
            loss = loss + SHOW * self._shows_otherwise(film, paired, draw_shift(rng, film.shape[-1]))
        weight = min(1.0, max(0.0, (step - _BEGIN) / _RAMP))
        opposed = self._opposed(bare.critic, maps, told, self._maps(view(film)), asked, weight)
        return opposed + loss

    def _shows_otherwise(self, made: Tensor, real: Tensor, seen: Callable[[Tensor], Tensor]) -> Tensor:
        """How far the representations of made films are from those of the real films they were drawn for."""
        assert self.representation is not None
        self.representation.to(made.device)
        with torch.no_grad():
            wanted = self.representation(seen(real))
        apart: Tensor = (self.representation(seen(made)) - wanted).square().mean()
        return apart

    def _look_again(
        self, finisher: WithCritic, latents: Tensor, times: Tensor, condition: Condition, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Latents and times of a second look: the finisher's film with the noise that it took out of it."""
        low, high = AGAIN_TIMES
        later = torch.from_numpy((low + (high - low) * rng.random(len(times))).astype(np.float32)).to(times.device)
        (a, s), (b, r) = ((alpha(t)[:, None, None, None], sigma(t)[:, None, None, None]) for t in (times, later))
        clean = finisher(latents, times, condition)
        noise = (latents - a * clean) / s
        return b * clean + r * noise, later

    def _opposed(
        self, critic: Critic, real: list[Tensor], told: Tensor, made: list[Tensor], asked: Tensor, weight: float
    ) -> Tensor:
        """Losses of finisher and critic in one sum: each takes the other as fixed."""
        on_real, fits_real = critic(real, told)
        on_made, fits_made = critic([m.detach() for m in made], asked)
        hinge = functional.relu
        each = [hinge(1 - a).mean() + hinge(1 + b).mean() for a, b in zip(on_real, on_made, strict=True)]
        # A real film with the text of another one fits as badly as a made film may.
        other = told.roll(1, 0)
        # It says otherwise: what one states the other excludes.
        differs = ((other * told == 0) & (other + told == 1)).any(1).to(told.dtype)
        _, misfits = critic(real, other)
        fits = (hinge(1 - fits_real) * _known(told)).mean() + (hinge(1 + fits_made) * _known(asked)).mean()
        fits = fits + (hinge(1 + misfits) * differs).mean()
        fixed = {name: value.detach() for name, value in critic.named_parameters()}
        opposed, fitting = functional_call(critic, fixed, (made, asked))
        against = -torch.stack([score.mean() for score in opposed]).mean() - FITS * fitting.mean()
        loss: Tensor = torch.stack(each).mean() + FITS * fits + weight * against
        return loss

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        """Power by band of films finished from the noised latents of validation films, and how far they moved."""
        bare: Any = module.to("cpu")
        self.autoencoder.to("cpu")
        rows = np.flatnonzero((self.corpus.splits == "val") & self.texts.usable())[:48]
        if not len(rows):
            return {}
        films = as_tensor(self.corpus.films[rows])
        clean = self.autoencoder.encode(films)
        noise = torch.from_numpy(np.random.default_rng(5).standard_normal(tuple(clean.shape), np.float32))
        condition = bare.network.condition(*token_batch(self.texts.ids[rows, 0], torch.device("cpu")))
        if self.shown is not None:
            condition = settled_to(condition, torch.from_numpy(self.shown[rows]))
        sheet, figures = [films[:6]], dict[str, float]()
        for time in (0.5, 0.7):
            t = torch.full((len(rows),), time)
            latents = alpha(t)[:, None, None, None] * clean + sigma(t)[:, None, None, None] * noise
            made = self.autoencoder.decode(bare(latents, t, condition))
            figures |= {f"{name} from {time:g}": value for name, value in relative_power(made, films).items()}
            error = functional.avg_pool2d(made, 8) - functional.avg_pool2d(films, 8)
            figures[f"coarse error from {time:g}"] = float(error.abs().mean())
            sheet.append(made[:6])
        if self.directory is not None:
            write_sheet(torch.cat(sheet), self.directory / f"finisher-sheet-{self.step:06d}.png", columns=6)
        return figures
