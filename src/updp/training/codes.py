"""Films as points: who they show (identity embeddings) and what they look like (pixel codes), and the nearest of a set.

A generated film that lies nearer to a training film than unseen films do may be a copy of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus

if TYPE_CHECKING:
    from updp.models.pack import Pack

#: Identity embeddings and pixel codes, one row per film.
Codes = tuple[NDArray[np.float32], NDArray[np.float32]]


@torch.no_grad()
def in_parts(function: Callable[[Tensor], Tensor], films: Tensor) -> NDArray[np.float32]:
    """What `function` gives for films, 32 at a time."""
    parts = [function(films[i : i + 32]).numpy() for i in range(0, len(films), 32)]
    joined: NDArray[np.float32] = np.concatenate(parts)
    return joined


def films_of(corpus: Corpus, rows: NDArray[np.int64]) -> Tensor:
    return as_tensor(corpus.films[rows])


def nearest(queries: NDArray[np.float32], references: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine to the nearest reference, for each query."""
    best: NDArray[np.float32] = np.concatenate(
        [(queries[i : i + 256] @ references.T).max(1) for i in range(0, len(queries), 256)]
    )
    return best


def pixel_codes(films: Tensor) -> NDArray[np.float32]:
    """Films at 32 pixels, centred and of unit length, so that a product of two is their correlation."""
    small = functional.interpolate(films, 32, mode="area").flatten(1)
    small = small - small.mean(1, keepdim=True)
    codes: NDArray[np.float32] = functional.normalize(small, dim=1).numpy()
    return codes


def codes_of(pack: Pack, corpus: Corpus, rows: NDArray[np.int64]) -> Codes:
    """Both codes of the films in `rows`."""
    identities, pictures = [], []
    for i in range(0, len(rows), 256):
        part = films_of(corpus, rows[i : i + 256])
        identities.append(in_parts(pack.identity.embed, part))
        pictures.append(pixel_codes(part))
    return np.concatenate(identities), np.concatenate(pictures)
