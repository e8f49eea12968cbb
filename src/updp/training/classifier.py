"""Stage `classifier`: the findings, from the vlm's image tower or from ImageNet.

It scores generated films, which come out of the autoencoder, so half of its training films are encoded and decoded too:
else it takes the decoder's smoothness for a finding.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from updp.domains.chest.labels import FINDINGS
from updp.models.autoencoder import Autoencoder
from updp.models.backbone import EfficientNetLite0
from updp.models.classifier import Classifier
from updp.models.lapped import LappedAutoencoder
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.figures import mean_auc
from updp.training.looks import Looks
from updp.training.loop import StageConfig, TrainingError
from updp.training.vlm import masked_bce


class ClassifierStage:
    name = "classifier"

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        size: int,
        start: EfficientNetLite0 | None,
        frozen: int = 8,
        share: float = 1.0,
        directory: Path | None = None,
        looks: int = 2,
        head: nn.Linear | None = None,
        through: Autoencoder | LappedAutoencoder | None = None,
    ) -> None:
        """`start` is the backbone to begin with (None: random weights) and `head` its findings, where it knows some;
        `share` of the patients, for learning curves; `directory` keeps the maps of the frozen blocks; `through` is the
        autoencoder that half of the films have passed."""
        self.corpus, self.config, self.size = corpus, config, size
        rows = np.flatnonzero((corpus.splits == "train") & corpus.labelled())
        if share < 1:
            patients = np.unique(corpus.patients[rows])
            kept = np.random.default_rng(config.seed).permutation(patients)[: max(1, int(share * len(patients)))]
            rows = rows[np.isin(corpus.patients[rows], kept)]
        self.rows = rows
        positive = np.nansum(corpus.labels[self.rows], 0)
        if len(self.rows) == 0:
            raise TrainingError("no film of the training patients is labelled: a classifier cannot be trained")
        if not ((positive > 0) & (positive < len(self.rows))).any():
            raise TrainingError("every training film has the same labels: with one class there is nothing to learn")
        self.module: nn.Module = self.build()
        if start is not None:
            self.module.encoder.backbone.load_state_dict(start.state_dict())
            self.module.encoder.backbone.freeze(frozen)
        if head is not None:
            self.module.head.load_state_dict(head.state_dict())
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.looks = [
            Looks(corpus, self.module.encoder.backbone, size, looks, directory, config.seed, passed)
            for passed in ([None] if through is None else [None, through])
        ]

    def build(self) -> Classifier:
        return Classifier(FINDINGS, self.size)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = rng.choice(self.rows, self.config.batch)
        parts = np.array_split(rows, len(self.looks))
        maps = torch.cat([looks(part, rng, device) for looks, part in zip(self.looks, parts, strict=True)])
        logits = module(maps, begun=True)
        return masked_bce(logits, torch.from_numpy(self.corpus.labels[rows]).to(device))

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        rows = np.flatnonzero((self.corpus.splits == "val") & self.corpus.labelled())
        if len(rows) == 0:
            return {}
        device = next(module.parameters()).device
        parts = [module(as_tensor(self.corpus.films[rows[i : i + 32]]).to(device)) for i in range(0, len(rows), 32)]
        scores = torch.cat(parts).cpu().numpy()
        return {"auc": mean_auc(self.corpus.labels[rows], scores)}
