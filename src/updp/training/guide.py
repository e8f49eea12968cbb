"""Stage `generator-guide`: the small network without text that guidance leads away from.

It sees the same films as the generator and makes the same mistakes, only larger (Karras et al. 2024, arXiv 2406.02507).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from updp.models.generator import UNet
from updp.models.lapped import LappedAutoencoder
from updp.training.augment import NUMBERS, change
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.generator import Rows, Texts, v_errors
from updp.training.loop import StageConfig


class GuideStage:
    name = "generator-guide"

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        autoencoder: LappedAutoencoder,
        texts: Texts,
        model: Mapping[str, Any],
        weights: Mapping[str, float],
    ) -> None:
        """`model` is what the guide differs in from a U-Net's defaults; `texts` only say which films are drawn."""
        self.corpus, self.config, self.model = corpus, config, dict(model)
        self.autoencoder = autoencoder.eval().requires_grad_(False)
        self.rows = Rows(corpus, texts, weights)
        self.module: nn.Module = self.build()
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def build(self) -> UNet:
        return UNet(channels=self.autoencoder.channels, context=0, augmentation=NUMBERS, **self.model)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        count = self.config.batch
        films, numbers = change(as_tensor(self.corpus.films[self.rows.draw(count, rng)]), rng)
        with torch.no_grad():
            clean = self.autoencoder.encode(films).to(device)
        t = torch.from_numpy(((np.arange(count) + rng.random()) / count).astype(np.float32)).to(device)
        return v_errors(lambda x, times: module(x, times, None, numbers.to(device)), clean, t, rng).mean()

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        rows = self.corpus.rows("val")[:96]
        if not len(rows):
            return {}
        device = next(module.parameters()).device
        clean = self.autoencoder.encode(as_tensor(self.corpus.films[rows])).to(device)
        times = torch.linspace(0.02, 0.98, len(rows)).to(device)
        return {"validation loss": float(v_errors(module, clean, times, np.random.default_rng(5)).mean())}


def with_guide(unet: UNet, guide: UNet | None, model: Mapping[str, Any]) -> UNet:
    """The generator with its guide, as a pack holds it."""
    if guide is None:
        return unet
    joined = UNet(**unet.config, guide=dict(model))
    joined.load_state_dict({**unet.state_dict(), **{f"guide.{k}": v for k, v in guide.state_dict().items()}})
    return joined
