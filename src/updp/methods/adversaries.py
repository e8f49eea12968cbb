"""What a method is trained against: pairs of films and a network that links them.

The linking network starts from the pack's identity and is trained further; the attackers that judge a method later are
others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from updp.methods.stage import MethodStage
from updp.models.classifier import Classifier
from updp.models.identity import Identity
from updp.models.pack import Pack
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.loop import TrainingError


class Pairs:
    """Pairs of training films, half of them of one patient."""

    def __init__(self, corpus: Corpus, split: str = "train") -> None:
        self.corpus = corpus
        groups: dict[str, list[int]] = {}
        for row in corpus.rows(split):
            groups.setdefault(str(corpus.patients[row]), []).append(int(row))
        self.people = [np.array(groups[name]) for name in sorted(groups)]
        self.many = [films for films in self.people if len(films) > 1]
        if not self.many:
            raise TrainingError(
                f"no {split} patient has two films: there is no pair of one patient to learn from; add follow-up films"
            )
        if len(self.people) < 2:
            raise TrainingError(f"there is only one {split} patient: there is no pair of two patients")

    def draw(self, count: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64], Tensor]:
        """Rows, partner rows, and whether both are of one patient."""
        first, second = [], []
        same = np.arange(count) % 2 == 0
        weight = np.sqrt([len(films) for films in self.many])
        for one in same:
            if one:
                films = self.many[int(rng.choice(len(self.many), p=weight / weight.sum()))]
                a, b = rng.choice(films, 2, replace=False)
            else:
                left, right = rng.choice(len(self.people), 2, replace=False)
                a, b = rng.choice(self.people[left]), rng.choice(self.people[right])
            first.append(int(a))
            second.append(int(b))
        return np.array(first), np.array(second), torch.from_numpy(same.astype(np.float32))


class Siamese(nn.Module):
    """Are two films of one patient: a logit from one shared encoder, both orders alike."""

    def __init__(self, identity: dict[str, Any]) -> None:
        super().__init__()
        self.identity = Identity(**identity)
        space = self.identity.project.out_features
        self.compare = nn.Sequential(nn.Linear(2 * space, 128), nn.ReLU(), nn.Linear(128, 1))
        nn.init.zeros_(self.compare[2].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.compare[2].bias)  # type: ignore[arg-type]
        # It begins as the pack's own verification, by cosine, and learns what that misses.
        self.scale, self.shift = nn.Parameter(torch.tensor(10.0)), nn.Parameter(torch.tensor(-4.0))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        a, b = self.identity(first), self.identity(second)
        both = torch.cat([a * b, (a - b).abs()], 1)
        logit: Tensor = self.scale * (a * b).sum(1) + self.shift + self.compare(both)[:, 0]
        return logit


class Game(nn.Module):
    """A method's network, the linking network (``opponent``) and the findings network (``ally``) in one checkpoint.

    Both learn whole, as published. ``frozen`` leaves the first blocks of their backbones as the pack has them: with all
    sixteen frozen a step costs a third, and the linking network is weak.
    """

    def __init__(self, method: nn.Module, pack: Pack, frozen: int = 0, also: nn.Module | None = None) -> None:
        """``also`` is a further network that learns with these two."""
        super().__init__()
        roles = pack.info["roles"]
        self.method = method
        self.opponent = Siamese(roles["identity"]["config"])
        self.ally = Classifier(**roles["classifier"]["config"])
        self.opponent.identity.load_state_dict(_state(pack.identity))
        self.ally.load_state_dict(_state(pack.classifier))
        for backbone in (self.opponent.identity.backbone, self.ally.encoder.backbone):
            blocks = backbone._blocks
            late = () if frozen >= len(blocks) else (*blocks[frozen:], backbone._conv_head, backbone._bn1)
            backbone.requires_grad_(frozen == 0)
            for part in late:
                part.requires_grad_(True)
        self.also = also or nn.Identity()
        others = (self.opponent, self.ally, self.also)
        self._others = [p for part in others for p in part.parameters() if p.requires_grad]
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def train(self, mode: bool = True) -> Game:
        super().train(mode)
        # Statistics of the backbones are those of real films; a batch of a few pairs would give worse ones.
        self.opponent.eval()
        self.ally.eval()
        return self

    def turn(self, opponents: bool) -> None:
        """Which networks learn: the linking and the findings network, or the method's."""
        self.method.requires_grad_(not opponents)
        for parameter in self._others:
            parameter.requires_grad_(opponents)


class Turn(NamedTuple):
    """A step of the training: which networks learn, and a batch of pairs."""

    game: Any
    opponents: bool  # the linking and the findings network learn, else the method's
    films: Tensor
    partners: Tensor
    labels: Tensor  # findings of ``films``
    same: Tensor  # whether film and partner are of one patient


class GameStage(MethodStage):
    """The training of a method against a linking network; it and the findings network learn in every third step."""

    # The pack's classifier is where the ally begins, and is not asked again.
    uses = ("identity",)
    watched = 48

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.frozen = int(self.model.pop("frozen", 0))
        self.pairs = Pairs(self.corpus)
        self.module: nn.Module = self.build()

    def build(self) -> Game:
        """The untrained networks."""
        raise NotImplementedError

    def draw_turn(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Turn:
        game: Any = getattr(module, "module", module)
        opponents = step % 3 == 2
        game.turn(opponents)
        first, second, same = self.pairs.draw(self.config.batch, rng)
        films, partners = (as_tensor(self.corpus.films[rows]).to(device) for rows in (first, second))
        labels = torch.from_numpy(self.corpus.labels[first]).to(device)
        return Turn(game, opponents, films, partners, labels, same.to(device))


def _state(module: Any) -> dict[str, Tensor]:
    state: dict[str, Tensor] = module.state_dict()
    return state
