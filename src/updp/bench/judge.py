"""A second vision-language model, for benchmarks only: nothing is ever optimised against it.

A prompt search that raises the score of the model it climbs may have found that model's blind spots. This one shares
nothing with the pack's vlm but the films: its image tower is a small convolutional network on the autoencoder's
latents, trained from nothing, and its text tower a bag of words and word pairs. If both say that prompts came nearer
to their films, they did.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.models.images import batched
from updp.study import FINDINGS
from updp.training.figures import mean_auc, recall_at
from updp.training.generator import cached_latents
from updp.training.loop import StageConfig, run_stage
from updp.training.vlm import contrastive, draw_texts, masked_bce

if TYPE_CHECKING:
    from updp.models.autoencoder import Autoencoder
    from updp.training.corpus import Corpus

_WORD = re.compile(r"[a-z]+|\d+")
JUDGE = StageConfig(steps=1200, batch=128, rate=1e-3, warmup=50, average=0.99, seed=77)


class JudgeError(ValueError):
    """The judge cannot be read; the message says why."""


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, channels), nn.GroupNorm(8, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv1(functional.silu(self.norm1(x)))
        out: Tensor = x + self.conv2(functional.silu(self.norm2(h)))
        return out


class Judge(nn.Module):
    """Films and texts to unit vectors, with the two calls a vlm is scored by."""

    buckets = 1 << 15

    def __init__(self, channels: int = 32, width: int = 64, space: int = 128) -> None:
        super().__init__()
        self.config = {"channels": channels, "width": width, "space": space}
        self.autoencoder: Autoencoder | None = None
        self.image = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            _Residual(width),
            nn.Conv2d(width, 2 * width, 3, 2, 1),
            _Residual(2 * width),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1),
            _Residual(4 * width),
            nn.GroupNorm(8, 4 * width),
            nn.SiLU(),
        )
        self.image_head = nn.Linear(4 * width, space)
        self.findings = nn.Linear(4 * width, len(FINDINGS))
        self.bag = nn.EmbeddingBag(self.buckets, 2 * space, mode="mean")
        self.text_head = nn.Sequential(nn.LayerNorm(2 * space), nn.Linear(2 * space, space))
        self.logit_scale = nn.Parameter(torch.tensor(2.66))

    def latent_features(self, latents: Tensor) -> Tensor:
        features: Tensor = self.image(latents).mean((2, 3))
        return features

    def embed_latents(self, latents: Tensor) -> Tensor:
        return functional.normalize(self.image_head(self.latent_features(latents)), dim=-1)

    @batched
    def embed_images(self, images: Tensor) -> Tensor:
        assert self.autoencoder is not None
        return self.embed_latents(self.autoencoder.encode(images))

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        ids: list[int] = []
        starts: list[int] = []
        for text in texts:
            starts.append(len(ids))
            words = _WORD.findall(text.lower())
            pairs = [f"{a} {b}" for a, b in pairwise(words)]
            # crc32, not hash(): the same word must fall into the same bucket in every process.
            ids += [zlib.crc32(token.encode()) % self.buckets for token in [*words, *pairs]] or [0]
        device = self.bag.weight.device
        summed = self.bag(torch.tensor(ids, device=device), torch.tensor(starts, device=device))
        return functional.normalize(self.text_head(summed), dim=-1)

    def forward(self, latents: Tensor, texts: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        features = functional.dropout(self.latent_features(latents), 0.2, self.training)
        image = functional.normalize(self.image_head(features), dim=-1)
        return self.findings(features), image, self.embed_texts(texts)


class JudgeStage:
    """Contrastive on the same films and texts the pack's vlm saw, with the findings as a second task."""

    name = "judge"

    def __init__(self, corpus: Corpus, config: StageConfig, autoencoder: Autoencoder, directory: Path) -> None:
        self.corpus, self.config, self.autoencoder = corpus, config, autoencoder
        self.rows = corpus.rows("train")
        self.latents = cached_latents(corpus, autoencoder, directory)
        torch.manual_seed(config.seed)
        self.module: nn.Module = self.build()

    def build(self) -> Judge:
        return Judge(self.autoencoder.channels)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = rng.choice(self.rows, min(self.config.batch, len(self.rows)), replace=False)
        texts, same = draw_texts(self.corpus, rows, rng)
        latents = self._latents(rows, rng).to(device)
        logits, image, text = module(latents, texts)
        found = masked_bce(logits, torch.from_numpy(self.corpus.labels[rows]).to(device))
        scale: Any = getattr(module, "module", module).logit_scale
        return 2 * found + contrastive(image, text, scale, same.to(device))

    def _latents(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """Latents shifted by up to a patch and dimmed a little, so that few films teach more."""
        latents = torch.from_numpy(self.latents[rows].astype(np.float32))
        latents = torch.roll(latents, tuple(int(s) for s in rng.integers(-1, 2, 2)), (2, 3))
        return latents + 0.1 * torch.from_numpy(rng.standard_normal(latents.shape, np.float32))

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        judge: Any = getattr(module, "module", module)
        rows = self.corpus.rows("val")
        latents = torch.from_numpy(self.latents[rows].astype(np.float32))
        scores = judge.findings(judge.latent_features(latents)).numpy()
        figures = {"auc": mean_auc(self.corpus.labels[rows], scores)}
        told = [i for i, row in enumerate(rows) if self.corpus.sentences[row]]
        if told:
            texts = judge.embed_texts([" ".join(self.corpus.sentences[rows[i]]) for i in told])
            figures["recall@10"] = recall_at((texts @ judge.embed_latents(latents[told]).T).numpy(), 10)
            figures["recall@10 chance"] = min(1.0, 10 / len(told))
        return figures


def train_judge(
    corpus: Corpus, autoencoder: Autoencoder, out: Path, config: StageConfig = JUDGE, say: Any = print
) -> Judge:
    """Train a judge on a corpus and write it to ``out`` (a safetensors file); checkpoints lie beside it."""
    from safetensors.torch import save_file

    stage = JudgeStage(corpus, config, autoencoder, out.with_suffix(".run"))
    judge: Any = run_stage(stage, config, out.with_suffix(".run"), build=stage.build, say=say)
    save_file({name: value.contiguous() for name, value in judge.state_dict().items()}, out)
    judge.autoencoder = autoencoder
    trained: Judge = judge
    return trained


def load_judge(path: Path, autoencoder: Autoencoder) -> Judge:
    """A judge from its file, over the autoencoder whose latents it was trained on."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    judge = Judge(autoencoder.channels)
    try:
        judge.load_state_dict(load_file(path))
    except FileNotFoundError:
        raise JudgeError(f"there is no judge at {path}; `updp train judge` makes one") from None
    except (SafetensorError, RuntimeError):
        raise JudgeError(f"{path} is not a judge for this pack's autoencoder") from None
    judge.autoencoder = autoencoder
    return judge.eval()
