"""Training of Privacy-Net: encoder and classifier together, against a Siamese discriminator of encoded pairs.

Both films of a pair are encoded, as published, at one strength drawn from the whole range: the encoder learns at the
scale of change that it applies. A segmentation of the lungs is trained along with the classifier. The encoder's loss is
the cross entropy of the discriminator to one half, weighted by the strength; the published reward for a wrong
discriminator has no bound.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.methods.adversaries import Game, GameStage
from updp.methods.privacy_net.method import Encoder, EncoderAndTask
from updp.methods.privacy_net.segmentation import Segmenter, dice, lungs
from updp.training.autoencoder import as_tensor
from updp.training.figures import mean_auc
from updp.training.loop import StageConfig
from updp.training.vlm import masked_bce

#: Two of three steps are the encoder's: 20 480 pairs.
CONFIG = StageConfig(steps=3840, batch=8, rate=1e-3, warmup=50, average=0.995)
#: Weight of the discriminator's uncertainty at strength 1.
LARGEST = 4.0


class PrivacyNetStage(GameStage):
    name = "privacy-net"

    def build(self) -> Game:
        return Game(Encoder(**self.model), self.pack, self.frozen, also=Segmenter())

    def trained(self, module: Game) -> EncoderAndTask:
        encoder: Any = module.method
        segmenter: Any = module.also
        made = EncoderAndTask(encoder.config, module.ally.config, segmenter.config)
        assert made.segmenter is not None
        made.segmenter.load_state_dict(segmenter.state_dict())
        made.encoder.load_state_dict(encoder.state_dict())
        made.classifier.load_state_dict(module.ally.state_dict())
        return made

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        turn = self.draw_turn(module, step, rng, device)
        game, films = turn.game, turn.films
        strength = torch.from_numpy(rng.random(len(films)).astype(np.float32)).to(device)
        with torch.set_grad_enabled(not turn.opponents):
            made, other = game.method(films, strength), game.method(turn.partners, strength)
        logits = game.opponent(made, other)
        findings = masked_bce(game.ally(made), turn.labels)
        overlap = dice(game.also(made), lungs(films).to(device))
        if len(overlap):
            findings = findings + 1 - overlap.mean()
        if turn.opponents:
            return findings + functional.binary_cross_entropy_with_logits(logits, turn.same)
        half = torch.full_like(logits, 0.5)
        uncertain = functional.binary_cross_entropy_with_logits(logits, half, reduction="none") - np.log(2)
        total: Tensor = findings + LARGEST * (strength * uncertain).mean()
        return total

    def release(self, module: nn.Module, rows: NDArray[np.int64]) -> tuple[Tensor, dict[str, float]]:
        game: Any = module
        films = as_tensor(self.corpus.films[rows])
        made = torch.cat([game.method(part, torch.full((len(part),), 0.5)) for part in torch.split(films, 32)])
        findings = mean_auc(self.corpus.labels[rows], game.ally.probabilities(made).numpy())
        overlap = dice(game.also(made), lungs(films))
        return made, {
            "findings co-trained": findings,
            "lungs, Dice": float(overlap.mean()) if len(overlap) else math.nan,
        }
