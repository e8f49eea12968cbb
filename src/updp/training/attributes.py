"""Stage `attributes`: a network that reads off a film what a text can say of it: findings, view, side, zone, size.

It takes part in training only. The finisher is held to its text by it: a critic that looks through features of an
ImageNet network hardly sees findings.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from updp.models.backbone import EfficientNetLite0
from updp.models.classifier import Classifier
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.figures import mean_auc
from updp.training.generator import Texts
from updp.training.looks import Looks
from updp.training.loop import StageConfig
from updp.training.prompts import ATTRIBUTES

_WATCHED = 1500  # training films that the usual scores are taken from
FOUND = 3.0  # how much more often a film with findings is drawn than one without


class Reader(nn.Module):
    """What films show, and the usual scores of real films that show an attribute and of those that do not."""

    present: Tensor
    absent: Tensor

    def __init__(self, network: Classifier, present: Tensor, absent: Tensor) -> None:
        super().__init__()
        self.network = network.eval().requires_grad_(False)
        # An attribute that the network cannot see asks for nothing.
        self.register_buffer("present", torch.maximum(present, absent))
        self.register_buffer("absent", absent)

    def misses(self, films: Tensor, said: Tensor) -> Tensor:
        """How far films fall short of what was said of them; no film gains by exceeding what real films score."""
        scores = self.network(films)
        known = (said[:, :1] >= 0).to(scores)
        asked, other = (said > 0).to(scores) * known, (said == 0).to(scores) * known
        lacking = (asked * (self.present - scores).relu()).sum() / asked.sum().clamp_min(1)
        added = (other * (scores - self.absent).relu()).sum() / other.sum().clamp_min(1)
        misses: Tensor = lacking + 2 * added
        return misses


class AttributesStage:
    name = "attributes"

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        texts: Texts,
        size: int,
        start: EfficientNetLite0 | None,
        frozen: int = 8,
        directory: Path | None = None,
        looks: int = 2,
    ) -> None:
        """`start` is the backbone to begin with (None: random weights); `directory` keeps maps of its frozen blocks."""
        self.corpus, self.config, self.texts, self.size = corpus, config, texts, size
        known = texts.usable() & (texts.said[:, :, 0] >= 0).any(1)
        self.rows = np.flatnonzero((corpus.splits == "train") & known)
        self.watched = np.flatnonzero((corpus.splits == "val") & known)
        weights = np.where(np.nansum(corpus.labels[self.rows], 1) > 0, FOUND, 1.0)
        self.shares = weights / weights.sum() if len(weights) else weights
        self.module: nn.Module = self.build()
        if start is not None:
            self.module.encoder.backbone.load_state_dict(start.state_dict())
            self.module.encoder.backbone.freeze(frozen)
        share = self._said(self.rows, np.zeros(len(self.rows), np.int64)).clamp_min(0).mean(0)
        with torch.no_grad():
            self.module.head.bias.copy_(torch.logit(share.clamp(1e-3, 1 - 1e-3)))
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.looks = Looks(corpus, self.module.encoder.backbone, size, looks, directory, config.seed)

    def build(self) -> Classifier:
        return Classifier(ATTRIBUTES, self.size)

    def _said(self, rows: NDArray[np.int64], draws: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self.texts.said[rows, draws].astype(np.float32))

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = rng.choice(self.rows, self.config.batch, p=self.shares)
        said = self._said(rows, rng.integers(self.texts.said.shape[1], size=len(rows))).to(device)
        scores = module(self.looks(rows, rng, device), begun=True)
        each = nn.functional.binary_cross_entropy_with_logits(scores, said.clamp_min(0), reduction="none")
        loss: Tensor = (each * (said >= 0)).mean()
        return loss

    @torch.no_grad()
    def _scores(self, module: nn.Module, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        device = next(module.parameters()).device
        parts = [module(as_tensor(self.corpus.films[rows[i : i + 32]]).to(device)) for i in range(0, len(rows), 32)]
        scores: NDArray[np.float32] = torch.cat(parts).cpu().numpy()
        return scores

    def validate(self, module: nn.Module) -> dict[str, float]:
        if not len(self.watched):
            return {}
        said = self.texts.said[self.watched].astype(np.float32)
        first = np.argmax(said[:, :, 0] >= 0, axis=1)  # a text of which it is known what it says
        return {"auc": mean_auc(said[np.arange(len(said)), first], self._scores(module, self.watched))}

    def reader(self, module: Classifier) -> Reader:
        """The trained network with its usual scores, those of training films."""
        module = module.cpu().eval()
        rows = np.random.default_rng(self.config.seed).permutation(self.rows)[:_WATCHED]
        said, scores = self.texts.said[rows], self._scores(module, rows)
        first = np.argmax(said[:, :, 0] >= 0, axis=1)
        shown = said[np.arange(len(said)), first] > 0

        def usual(chosen: NDArray[np.bool_], otherwise: NDArray[np.float32]) -> NDArray[np.float32]:
            count = chosen.sum(0)
            means: NDArray[np.float32] = np.where(count, (scores * chosen).sum(0) / np.maximum(count, 1), otherwise)
            return means

        absent = usual(~shown, scores.mean(0))
        present = usual(shown, absent)
        return Reader(module, torch.from_numpy(present).float(), torch.from_numpy(absent).float())
