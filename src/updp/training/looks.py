"""Looks: the maps of a backbone's frozen first blocks for augmented views of each training film, computed once.

Those blocks have the largest maps and cost as much as the rest of a step; a few augmented views per film, kept, make
training more than twice as fast.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from updp.models.autoencoder import Autoencoder
from updp.models.backbone import EfficientNetLite0
from updp.models.lapped import LappedAutoencoder
from updp.training.augment import augment
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus


class Looks:
    """`count` augmented views of every training film, as maps of the frozen blocks; kept in `directory` if given.

    With an autoencoder, the views are of the film after encoding and decoding. With nothing frozen, nothing is kept:
    each call computes the maps again.
    """

    def __init__(
        self,
        corpus: Corpus,
        backbone: EfficientNetLite0,
        size: int,
        count: int = 2,
        directory: Path | None = None,
        seed: int = 0,
        through: Autoencoder | LappedAutoencoder | None = None,
    ) -> None:
        self.corpus, self.backbone, self.size, self.through = corpus, backbone, size, through
        self._maps: NDArray[np.float16] | None = None
        if not backbone.frozen:
            return
        rows = corpus.rows("train")
        self._place = {int(row): i for i, row in enumerate(rows)}
        digest = hashlib.sha256(repr((size, count, seed, corpus.ids[rows].tolist())).encode())
        for value in (*backbone.prefix(), *(through.state_dict().values() if through is not None else ())):
            digest.update(value.numpy().tobytes())
        path = None if directory is None else directory / f"looks-{digest.hexdigest()[:16]}.npy"
        if path is not None and path.exists():
            self._maps = np.load(path, mmap_mode="r")
            return
        rng = np.random.default_rng([seed, *b"looks"])
        backbone.eval()
        self._maps = np.stack([self._seen(rows, rng) for _ in range(count)])
        if path is not None:
            part = path.with_suffix(".part")
            with open(part, "wb") as file:
                np.save(file, self._maps)
            os.replace(part, path)

    @torch.no_grad()
    def _seen(self, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float16]:
        parts = []
        for i in range(0, len(rows), 32):
            films = augment(self._films(rows[i : i + 32]), self.size, rng)
            parts.append(self.backbone.begin(films).half().numpy())
        return np.concatenate(parts)

    @torch.no_grad()
    def _films(self, rows: NDArray[np.int64]) -> Tensor:
        films = as_tensor(self.corpus.films[rows])
        return films if self.through is None else self.through.decode(self.through.encode(films))

    def __call__(self, rows: NDArray[np.int64], rng: np.random.Generator, device: torch.device) -> Tensor:
        """The maps `finish` continues from, for each film those of a random view."""
        if self._maps is None:
            return self.backbone.begin(augment(self._films(rows).to(device), self.size, rng))
        places = np.array([self._place[int(row)] for row in rows])
        maps = self._maps[rng.integers(0, len(self._maps), len(rows)), places]
        return torch.from_numpy(maps.astype(np.float32)).to(device).contiguous(memory_format=torch.channels_last)
