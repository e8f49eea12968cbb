"""What films show in numbers: the representation that a generator is conditioned on, and the prior that draws it.

The numbers are the principal components of the vlm's image features, each divided by the square root of its spread, so
that coarse ones stay larger. The vlm learned findings and sentences of the training films, and its features tell what
radiologists name from what they do not. The generator learns to draw a film for its own representation; the finisher is
held to it; the prior learns which representations films of a text have. At use nothing but the prior gives one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from updp.models.backbone import FilmEncoder, settled
from updp.models.generator import UNet
from updp.models.prior import Prior
from updp.models.samplers import alpha, sigma
from updp.models.vlm import VisionLanguage, sentence
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.generator import UNCONDITIONAL, Rows, Texts, token_batch
from updp.training.loop import StageConfig

_EDITION = 1
_LEAST = 1e-4  # of the first spread: a direction in which films hardly differ is not blown up
_FINEST = 1e-3  # least divisor: half precision must hold the directions
DRAWS = 4  # texts of each film that the prior learns from


class Representation(nn.Module):
    """Films N×1×S×S to their representations; differentiable."""

    mean: Tensor
    directions: Tensor

    def __init__(self, encoder: FilmEncoder, mean: Tensor, directions: Tensor) -> None:
        super().__init__()
        self.encoder = settled(encoder)
        self.register_buffer("mean", mean)
        self.register_buffer("directions", directions)

    def forward(self, films: Tensor) -> Tensor:
        shown: Tensor = (self.encoder(films) - self.mean) @ self.directions
        return shown


def image_features(corpus: Corpus, vlm: VisionLanguage, directory: Path) -> NDArray[np.float32]:
    """The vlm's image features of every film, computed once for these weights; kept in `directory`."""
    encoder = settled(vlm.image)
    digest = hashlib.sha256(repr((_EDITION, corpus.ids.tolist())).encode())
    for value in encoder.state_dict().values():
        digest.update(value.numpy().tobytes())
    path = directory / f"features-{digest.hexdigest()[:16]}.npy"
    if not path.exists():
        with torch.no_grad():
            parts = [encoder(as_tensor(corpus.films[i : i + 32])).numpy() for i in range(0, len(corpus.films), 32)]
        directory.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            np.save(file, np.concatenate(parts))
        os.replace(part, path)
    features: NDArray[np.float32] = np.load(path)
    return features


def representations(
    corpus: Corpus, vlm: VisionLanguage, size: int, directory: Path
) -> tuple[Representation, NDArray[np.float32]]:
    """The map from films to `size` numbers, fitted on training films, and those of every film; kept in `directory`."""
    features = image_features(corpus, vlm, directory)
    mean, directions = principal(features[corpus.rows("train")], size)
    found = (features - mean) @ directions
    return Representation(vlm.image, torch.from_numpy(mean), torch.from_numpy(directions)), found.astype(np.float32)


def principal(features: NDArray[np.float32], size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The mean of features and their first `size` principal directions, each divided by the square root of its spread
    and all by one number, so that representations have a mean variance of 1."""
    # Eigenvectors of the covariance: for so many films, faster than of the films themselves.
    spreads, directions = np.linalg.eigh(np.cov(features.T.astype(np.float64)))
    order = np.argsort(-spreads)[:size]
    spreads, directions = spreads[order], directions[:, order]
    # Eigenvectors have no sign of their own.
    directions = directions * np.sign(directions[np.abs(directions).argmax(0), np.arange(len(order))])
    scale = np.maximum(spreads, _LEAST * spreads[0]) ** 0.25
    scale *= np.sqrt((spreads / scale**2).mean())
    return features.mean(0), (directions / np.maximum(scale, _FINEST)).astype(np.float32)


class PriorStage:
    """The prior of a trained generator: which representations the films of a text have."""

    name = "generator-prior"

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        texts: Texts,
        start: UNet,
        shown: NDArray[np.float32],
        representation: Representation,
        weights: Mapping[str, float],
    ) -> None:
        self.corpus, self.config, self.texts, self.shown = corpus, config, texts, shown
        assert start.prior is not None
        self.start = start.eval().requires_grad_(False)
        self.rows = Rows(corpus, texts, weights)
        self.module: nn.Module = self.build()
        self.module.load_state_dict(start.prior.state_dict())
        self.module.mean, self.module.directions = representation.mean.clone(), representation.directions.clone()
        self.pooled = self._pooled()

    def build(self) -> Prior:
        context = self.start.config["context"]
        return Prior(self.start.config["representation"], context)

    @torch.no_grad()
    def _pooled(self) -> Tensor:
        """The pooled states of the first texts of every film, films × draws × width: they stay the same."""
        ids = self.texts.ids[:, :DRAWS].reshape(-1, self.texts.ids.shape[2])
        out = torch.zeros(len(ids), self.start.config["context"])
        order = np.argsort((ids > 0).sum(1))  # batches of one length have little padding
        for i in range(0, len(ids), 128):
            rows = order[i : i + 128]
            condition = self.start.condition(*token_batch(ids[rows], torch.device("cpu")))
            out[rows] = sentence(condition.states, condition.mask)
        return out.reshape(len(self.texts.ids), -1, out.shape[1])

    def _error(self, module: nn.Module, rows: NDArray[np.int64], texts: Tensor, rng: np.random.Generator) -> Tensor:
        clean, n = torch.from_numpy(self.shown[rows]), len(rows)
        t = torch.from_numpy(((np.arange(n) + rng.random()) / n).astype(np.float32))
        noise = torch.from_numpy(rng.standard_normal(tuple(clean.shape), np.float32))
        a, s = alpha(t)[:, None], sigma(t)[:, None]
        device = next(module.parameters()).device
        predicted = module((a * clean + s * noise).to(device), t.to(device), texts.to(device))
        error: Tensor = (predicted - (a * noise - s * clean).to(device)).square().mean()
        return error

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = self.rows.draw(self.config.batch, rng)
        draws = rng.integers(self.pooled.shape[1], size=len(rows))
        texts = self.pooled[rows, draws]
        kept = torch.from_numpy((rng.random(len(rows)) >= UNCONDITIONAL).astype(np.float32))[:, None]
        return self._error(module, rows, texts * kept, rng)

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        """Loss on validation films, with their texts and with texts of others."""
        rows = np.flatnonzero((self.corpus.splits == "val") & self.texts.usable())
        if not len(rows):
            return {}
        texts = self.pooled[rows, 0]
        own = [float(self._error(module, rows, texts, np.random.default_rng([k, 7]))) for k in range(8)]
        other = [float(self._error(module, rows, texts.roll(1, 0), np.random.default_rng([k, 7]))) for k in range(8)]
        return {"validation loss": float(np.mean(own)), "with texts of others": float(np.mean(other))}
