"""An exhibit of invented patients: each has an anatomy of slow waves, each film of it its own grain and exposure."""

from __future__ import annotations

import numpy as np

from updp.attacks.base import Budget
from updp.evaluation.exhibit import Exhibit
from updp.study import FINDINGS

SIZE = 64
#: Small enough for a test, with every attacker in it.
SMALL = Budget(
    steps=4, batch=12, draws=200, pairs=2000, sizes=(0.5, 1.0), galleries=(5, 10), members=30, looks=2, rebuilt=60
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
    grey = 0.15 + 0.6 * anatomy(patient, size) * rng.uniform(0.9, 1.1) + rng.normal(0, 0.03, (size, size))
    return np.clip(np.rint(255 * grey), 0, 255).astype(np.uint8)


def exhibit(patients: int = 60, films: int = 4, size: int = SIZE, scored: float = 0.5) -> Exhibit:
    """Untouched films: released as they are. Half of the patients teach, half are scored; sex shows as a bright band."""
    real, people, splits, ages, sexes, texts = [], [], [], [], [], []
    for patient in range(patients):
        male, old = patient % 2, (patient // 2) % 2
        for visit in range(films):
            picture = film(patient, visit, size)
            if male:
                picture[: size // 6] = np.minimum(255, picture[: size // 6].astype(int) + 70)
            if old:
                picture[:, : size // 6] = picture[:, : size // 6] // 3
            real.append(picture)
            people.append(f"p{patient:03d}")
            splits.append("train" if patient < patients * (1 - scored) else ("val", "test")[patient % 2])
            ages.append(70.0 if old else 30.0)
            sexes.append("M" if male else "F")
            words = ("effusion", "nodule", "opacity", "mass", "clear", "normal")
            texts.append(f"Film {words[patient % 6]} of {words[(patient // 6) % 6]} at level {patient} visit {visit}.")
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


def copies_of_others(like: Exhibit, seed: int = 0) -> Exhibit:
    """Every film released as somebody's film drawn at random: films are real, links are not."""
    rng = np.random.default_rng(seed)
    out = np.empty_like(like.real)
    for splits in (("train",), ("val", "test")):
        rows = like.rows(*splits)
        out[rows] = like.real[rng.choice(rows, len(rows))]
    return like.but(released=out)


def figures(measurements) -> dict[str, tuple]:
    return {m.name: (m.value, m.low, m.high, m.n) for m in measurements if m.measured}


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
