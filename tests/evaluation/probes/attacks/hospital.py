"""An exhibit of invented patients: each has an anatomy of slow waves, each film of it its own grain and exposure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch.nn import functional

from updp.domains.chest.labels import FINDINGS
from updp.evaluation.cohort.exhibit import Exhibit
from updp.evaluation.probes.base import Budget

SIZE = 64
#: Small enough for a test, with every attacker in it but the net, which the simple pack has no maps for.
SMALL = Budget(
    steps=4,
    batch=12,
    draws=100,
    pairs=2000,
    sizes=(0.5, 1.0),
    galleries=(5, 10),
    networks=(),
    members=40,
    noise_levels=2,
    rebuilt=80,
    threads=1,
)


def anatomy(seed: int, size: int = SIZE) -> np.ndarray:
    """Waves that no other seed has, in [0, 1]."""
    rng = np.random.default_rng([11, seed])
    y, x = np.mgrid[0:size, 0:size] / size
    out = np.zeros((size, size))
    for _ in range(6):
        fy, fx = rng.uniform(0.5, 3, 2)
        out += rng.normal() * np.sin(2 * np.pi * (fy * y + rng.random())) * np.sin(2 * np.pi * (fx * x + rng.random()))
    return (out - out.min()) / (out.max() - out.min())


def film(patient: int, visit: int, size: int = SIZE) -> np.ndarray:
    rng = np.random.default_rng([patient, visit])
    grey = 0.15 + 0.6 * anatomy(patient, size) * rng.uniform(0.9, 1.1) + rng.normal(0, 0.05, (size, size))
    return np.clip(np.rint(255 * grey), 0, 255).astype(np.uint8)


def exhibit(patients: int = 60, films: int = 3, size: int = SIZE) -> Exhibit:
    """Untouched films, released as they are; half of the patients teach, half are scored.

    A man's films have a bright band at the top, an old patient's a dark one at the side.
    """
    real, people, splits, ages, sexes, texts = [], [], [], [], [], []
    words = ("effusion", "nodule", "opacity", "mass", "clear", "normal")
    for patient in range(patients):
        male, old = patient % 2, (patient // 2) % 2
        for visit in range(films):
            picture = film(patient, visit, size).astype(int)
            if male:
                picture[: size // 4] += 60
            if old:
                picture[:, : size // 4] //= 3
            real.append(np.clip(picture, 0, 255).astype(np.uint8))
            people.append(f"p{patient:03d}")
            splits.append("train" if patient < patients // 2 else ("val", "test")[patient % 2])
            ages.append(70.0 if old else 30.0)
            sexes.append("M" if male else "F")
            texts.append(f"Film {words[patient % 6]} of {words[(patient // 6) % 6]} at level {patient}, visit {visit}.")
    count = len(real)
    pixels = np.stack(real)
    return Exhibit(
        real=pixels,
        released=pixels.copy(),
        patients=np.array(people),
        splits=np.array(splits),
        views=np.full(count, "PA"),
        labels=np.full((count, len(FINDINGS)), np.nan, np.float32),
        ages=np.array(ages, np.float32),
        sexes=np.array(sexes),
        real_texts=list(texts),
        released_texts=list(texts),
    )


def noise(like: Exhibit, seed: int = 0) -> Exhibit:
    """The same patients, released as i.i.d. noise."""
    rng = np.random.default_rng(seed)
    return like.but(released=rng.integers(0, 256, like.real.shape, dtype=np.uint8))


def strangers(like: Exhibit, seed: int = 0) -> Exhibit:
    """Every film released as one of a patient outside the exhibit: films as they should be, links to nobody."""
    rng = np.random.default_rng(seed)
    out = [
        film(10_000 + int(rng.integers(10_000)), int(rng.integers(100)), like.real.shape[1]) for _ in range(len(like))
    ]
    return like.but(released=np.stack(out))


class Eye:
    """An identity network without maps: a fixed random projection of the small film."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.weights = torch.randn(256, 48, generator=torch.Generator().manual_seed(0))

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        small = functional.adaptive_avg_pool2d(images, 16).flatten(1)
        seen = functional.normalize((small - small.mean(1, keepdim=True)) @ self.weights, dim=1)
        return seen * float("nan") if self.broken else seen


class Code:
    """An autoencoder that keeps 16×16 pixels."""

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        return functional.pixel_unshuffle(functional.adaptive_avg_pool2d(images, 16), 4)

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(functional.pixel_shuffle(latents, 4), SIZE, mode="bilinear").clamp(0, 1)


class Learned:
    """A generator that knows some latents by heart, or none."""

    def __init__(self, latents: torch.Tensor | None = None) -> None:
        self.latents = latents

    def condition(self, prompts):
        return list(prompts)

    def add_noise(self, latents, noise, t):
        return (1 - t)[:, None, None, None] * latents + t[:, None, None, None] * noise

    def noise(self, latents, t, condition):
        if self.latents is None:
            return torch.zeros_like(latents)
        clean = (1 - t)[:, None, None, None]
        away = ((latents[:, None] - clean[:, None] * self.latents[None]) ** 2).flatten(2).sum(2)
        return (latents - clean * self.latents[away.argmin(1)]) / t[:, None, None, None]


def simple_pack(path: Path, *, broken: bool = False, knows: torch.Tensor | None = None, generator: bool = True):
    """A pack of simple parts: attackers without the cost of networks."""
    roles = {"identity": {}, "autoencoder": {}, "vlm": {}} | ({"generator": {}} if generator else {})
    return SimpleNamespace(
        name=f"simple{broken}{knows is not None}",
        path=path,
        info={"roles": roles, "thresholds": {}},
        identity=Eye(broken),
        autoencoder=Code(),
        generator=Learned(knows),
    )


def figures(measurements) -> dict[str, tuple]:
    return {m.name: (m.value, m.low, m.high, m.n) for m in measurements if m.measured}


class Found(dict):
    """Measurements by name; what is named by its metric alone is found too, where there is one of it."""

    def __missing__(self, metric):
        (only,) = [m for m in self.values() if m.metric == metric]
        return only


def by_name(measurements) -> Found:
    assert len({m.name for m in measurements}) == len(measurements), "two measurements of one name"
    return Found({m.name: m for m in measurements})


class Counting:
    """A cache that knows how often it was asked in vain."""

    def __init__(self) -> None:
        self.held: dict[str, dict] = {}
        self.missed = 0

    def get(self, key):
        found = self.held.get(key)
        self.missed += found is None
        return None if found is None else dict(found)

    def put(self, key, arrays):
        self.held[key] = dict(arrays)
