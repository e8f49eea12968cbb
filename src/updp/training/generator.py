"""Stage `generator`: latent diffusion on cached latents, told by the frozen text tower of the vlm."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from updp.models.autoencoder import Autoencoder
from updp.models.generator import Condition, Generator, UNet
from updp.models.samplers import alpha, sigma
from updp.models.vlm import VisionLanguage
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.loop import StageConfig
from updp.training.prompts import describe

#: Share of films trained without any text, so that guidance has something to push away from.
UNTOLD = 0.1


@torch.no_grad()
def cached_latents(corpus: Corpus, autoencoder: Autoencoder, directory: Path) -> NDArray[np.float16]:
    """Latents of every film, computed once for these autoencoder weights."""
    digest = hashlib.sha256()
    for value in autoencoder.state_dict().values():
        digest.update(value.numpy().tobytes())
    path = directory / f"latents-{digest.hexdigest()[:12]}-{len(corpus.films)}.npy"
    if not path.exists():
        parts = []
        for i in range(0, len(corpus.films), 32):
            parts.append(autoencoder.encode(as_tensor(corpus.films[i : i + 32])).half().numpy())
        directory.mkdir(parents=True, exist_ok=True)
        np.save(path, np.concatenate(parts))
    latents: NDArray[np.float16] = np.load(path)
    return latents


def told(corpus: Corpus, rows: NDArray[np.int64], rng: np.random.Generator) -> list[str]:
    """A text for each row, as `describe` draws it."""
    texts = []
    for row in rows:
        known = not np.isnan(corpus.labels[row, 0])
        findings = corpus.findings(row) if known else None
        texts.append(describe(corpus.sentences[row], findings, str(corpus.views[row]), rng)[0])
    return texts


class GeneratorStage:
    name = "generator"

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        autoencoder: Autoencoder,
        vlm: VisionLanguage,
        model: dict[str, Any],
        directory: Path,
    ) -> None:
        self.corpus, self.config, self.directory = corpus, config, directory
        self.autoencoder = autoencoder.eval().requires_grad_(False)
        self.vlm = vlm.eval().requires_grad_(False)
        self.latents = cached_latents(corpus, autoencoder, directory)
        # Unlabelled films without a report have nothing to be told by.
        usable = corpus.labelled() | np.array([bool(s) for s in corpus.sentences])
        self.rows = np.flatnonzero((corpus.splits == "train") & usable)
        self.model_config = {"channels": autoencoder.channels, "context": vlm.config["width"], **model}
        self.module: nn.Module = self.build().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        # Coarse channels carry the anatomy, fine ones little more than grain: errors count by what the eye sees.
        weight = autoencoder.scale.sqrt()
        self.weight = (weight / weight.mean())[:, None, None]

    def build(self) -> UNet:
        return UNet(**self.model_config)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = rng.choice(self.rows, self.config.batch)
        texts = [text if rng.random() > UNTOLD else "" for text in told(self.corpus, rows, rng)]
        with torch.no_grad():
            condition = Condition(*self.vlm.text_states(texts))
        # Evenly spread times within a batch make its loss far less noisy than independent ones.
        t = torch.from_numpy(((np.arange(len(rows)) + rng.random()) / len(rows)).astype(np.float32))
        return self._loss(module, rows, t, condition, rng, device)

    def _loss(
        self,
        module: nn.Module,
        rows: NDArray[np.int64],
        t: Tensor,
        condition: Condition,
        rng: np.random.Generator,
        device: torch.device,
    ) -> Tensor:
        clean = torch.from_numpy(self.latents[rows].astype(np.float32)).to(device)
        noise = torch.from_numpy(rng.standard_normal(clean.shape, np.float32)).to(device)
        t = t.to(device)
        condition = Condition(condition.states.to(device), condition.mask.to(device))
        a, s = alpha(t)[:, None, None, None], sigma(t)[:, None, None, None]
        v = module(a * clean + s * noise, t, condition)
        error = (v - (a * noise - s * clean)).square()
        loss: Tensor = (error * self.weight.to(device)).mean()
        return loss

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        device = next(module.parameters()).device
        rng = np.random.default_rng(0)
        rows = rng.permutation(self.corpus.rows("val"))[:256]
        losses = []
        for i in range(0, len(rows), 32):
            part = rows[i : i + 32]
            condition = Condition(*self.vlm.text_states(told(self.corpus, part, rng)))
            t = torch.from_numpy(rng.random(len(part)).astype(np.float32))
            losses.append(float(self._loss(module, part, t, condition, rng, device)))
        if device.type == "cpu":
            self.sheet(module)
        return {"validation loss": float(np.mean(losses))}

    def sheet(self, module: nn.Module) -> None:
        """Samples of the moment, for a person to look at."""
        from PIL import Image

        texts = ["No acute cardiopulmonary abnormality. PA view.", "The heart is enlarged. AP view."]
        texts += ["There is a pleural effusion. AP view.", "Hyperinflated lungs consistent with emphysema. PA view."]
        generator = Generator(module, self.autoencoder, self.vlm, self.corpus.films.shape[1])  # type: ignore[arg-type]
        films = generator.generate([t for t in texts for _ in range(4)], list(range(16)), steps=16)
        size = films.shape[-1]
        tiles = films.reshape(4, 4, size, size).permute(0, 2, 1, 3).reshape(4 * size, 4 * size)
        Image.fromarray((tiles * 255).byte().numpy()).save(self.directory / "generator-samples.png")
