"""Medical-Semantics-Compensation of DCM-DeID by features: a code of whole numbers that the generator is conditioned on.

Features of the pack's findings network and of its vlm, side by side, become a code of ``channels`` whole numbers. Its
length is counted in bits under a learned prior (minimum description length). Tokens made of the code, not sentences,
condition the generator that fills blocked cells. Channels are nested: training cuts the code after a random channel, so
its first channels hold what matters most, and one network serves every rate. ``kept`` says how many are used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from updp.models.backbone import FEATURES
from updp.models.classifier import Classifier
from updp.models.generator import Condition


class NestedCode(nn.Module):
    """Features to whole numbers N×channels, the first of which count most, and their length in bits."""

    def __init__(self, inputs: int, channels: int, hidden: int) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.LayerNorm(inputs), nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, channels)
        )
        self.centre = nn.Parameter(torch.zeros(channels))
        self.width = nn.Parameter(torch.zeros(channels))  # logarithm of the prior's scale

    def forward(self, features: Tensor, kept: int | None = None, noise: Tensor | None = None) -> Tensor:
        """The code, zero from channel ``kept`` on; in training, noise in (-1/2, 1/2) stands in for rounding."""
        z: Tensor = self.encode(features)
        z = z.round() if noise is None else z + noise
        return z if kept is None else z * (torch.arange(z.shape[1], device=z.device) < kept)

    def bits(self, code: Tensor, kept: int | None = None) -> Tensor:
        """Length of each film's code under the prior, one logistic per channel that is kept."""
        width = self.width.exp()
        upper, lower = ((code + side - self.centre) / width for side in (0.5, -0.5))
        each = -(torch.sigmoid(upper) - torch.sigmoid(lower)).clamp_min(1e-9).log2()
        return each[:, : code.shape[1] if kept is None else kept].sum(1)


class FeatureCompensator(nn.Module):
    """What is kept of the training: the findings network (fixed), the code, its tokens, and what is read from it."""

    def __init__(
        self,
        classifier: dict[str, Any],
        space: int,
        context: int,
        channels: int = 24,
        hidden: int = 128,
        tokens: int = 8,
    ) -> None:
        """``space`` is the width of the vlm's embedding, ``context`` that of the generator's token states."""
        super().__init__()
        self.config: dict[str, Any] = {
            "classifier": classifier,
            "space": space,
            "context": context,
            "channels": channels,
            "hidden": hidden,
            "tokens": tokens,
        }
        self.medical = Classifier(**classifier)
        self.code = NestedCode(FEATURES + space, channels, hidden)
        self.write = nn.Sequential(nn.Linear(channels, hidden), nn.SiLU(), nn.Linear(hidden, tokens * context))
        self.reader = nn.Linear(channels, len(self.medical.labels))
        self.semantics = nn.Linear(channels, space)

    @property
    def channels(self) -> int:
        return int(self.config["channels"])

    def features(self, films: Tensor, vlm: Any) -> Tensor:
        """Features of the findings network and the vlm's embedding, N×F."""
        embedded: Tensor = vlm.embed_images(films)
        return torch.cat([self.medical.features(films), embedded], 1)

    def condition(self, code: Tensor) -> Condition:
        """Tokens that stand where the words of a prompt would."""
        states = self.write(code).reshape(len(code), self.config["tokens"], self.config["context"])
        return Condition(states, torch.ones(states.shape[:2], dtype=torch.bool, device=states.device))
