"""Training of PriCheXy-Net: the deformation against a linking network, findings kept for a classifier.

As published: L = BCE(C(x1'), y1) - log(1 - V(x1', x2)) over all pairs, and then a step of V and C on its films; here
after every second step of the deformation, which learns more slowly. The field starts at zero, which is what the
published first stage trains towards. One field, at the film's own size, serves all mu: each pair draws its own, from
the smallest published to three times the largest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.methods.adversaries import Game, GameStage
from updp.methods.prichexy.method import Deformer, warp
from updp.training.autoencoder import as_tensor
from updp.training.loop import StageConfig
from updp.training.vlm import masked_bce

#: Two of three steps are the deformation's: 20 480 pairs.
CONFIG = StageConfig(steps=3840, batch=8, rate=1e-3, warmup=50, average=0.995)
MU = (0.001, 0.03)
#: Sizes of the deforming network.
SIZES = {"width": 16, "pools": 3, "places": 4}


class PriCheXyStage(GameStage):
    name = "prichexy"

    def build(self) -> Game:
        side = int(self.pack.info.get("size", 256))
        return Game(Deformer(**{"side": side, **SIZES, **self.model}), self.pack, self.frozen)

    def trained(self, module: Game) -> nn.Module:
        return module.method

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        turn = self.draw_turn(module, step, rng, device)
        game, films = turn.game, turn.films
        # Geometric between the bounds: half the pairs learn at what the paper calls a large deformation.
        mu = MU[0] * (MU[1] / MU[0]) ** torch.from_numpy(rng.random((len(films), 1, 1, 1)).astype(np.float32))
        with torch.set_grad_enabled(not turn.opponents):
            made = warp(films, game.method(films), mu.to(device))
        logits = game.opponent(made, turn.partners)
        findings = masked_bce(game.ally(made), turn.labels)
        if turn.opponents:
            return findings + functional.binary_cross_entropy_with_logits(logits, turn.same)
        return findings + functional.softplus(logits).mean()

    def release(self, module: nn.Module, rows: NDArray[np.int64]) -> tuple[Tensor, dict[str, float]]:
        deformer: Any = module.method
        films = as_tensor(self.corpus.films[rows])
        return torch.cat([warp(part, deformer(part), 0.01) for part in torch.split(films, 32)]), {}
