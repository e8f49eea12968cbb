"""A judge of findings that learns in seconds: a small convolutional head on fixed maps of the pack's network.

Which films it learns from (real, released, both) is the experiment; how it learns is the same for all: one number of
steps, one schedule, a few seeds whose scores are averaged, so that random variation in training hardly changes a ratio
of two judges. A trained judge is kept by the content of what it learned from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, key_of
from updp.core.global_state import seeded

if TYPE_CHECKING:
    from torch import nn

EDITION = "judge 1"


@dataclass(frozen=True)
class JudgeConfig:
    """How a judge learns. ``steps`` does not depend on the regime, so that none of them learns for longer."""

    steps: int
    width: int = 64
    batch: int = 32
    rate: float = 2e-3
    decay: float = 0.05
    dropout: float = 0.5


class NothingToLearn(ValueError):
    """No finding can be learned from the films; the message says why."""


def teachable(labels: NDArray[np.float32], least: int = 1) -> NDArray[np.bool_]:
    """Findings that are there on some labelled films and absent from others."""
    positive, negative = np.sum(labels == 1, axis=0), np.sum(labels == 0, axis=0)
    found: NDArray[np.bool_] = (positive >= least) & (negative >= least)
    return found


def _head(channels: int, findings: int, config: JudgeConfig) -> nn.Module:
    from torch import nn

    class Ends(nn.Module):
        """The mean and the largest value of each map: how much there is, and whether there is any."""

        def forward(self, x: Any) -> Any:
            import torch

            return torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1)

    width = config.width
    return nn.Sequential(
        nn.BatchNorm2d(channels),
        nn.Conv2d(channels, width, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Ends(),
        nn.Dropout(config.dropout),
        nn.Linear(2 * width, findings),
    )


class Judge:
    """Maps of films to one score per finding; higher means more likely there."""

    def __init__(self, head: nn.Module) -> None:
        self.head = head.eval()

    def scores(self, maps: NDArray[Any]) -> NDArray[np.float32]:
        import torch

        with torch.no_grad():
            parts = [
                self.head(torch.from_numpy(maps[start : start + 256]).float()).numpy()
                for start in range(0, len(maps), 256)
            ]
        return np.concatenate(parts)


def train_judge(
    maps: Sequence[NDArray[Any]],
    labels: Sequence[NDArray[np.float32]],
    config: JudgeConfig,
    seed: int,
    cache: Cache | None = None,
) -> Judge:
    """A judge that learned from these sets of films together (real and released are two sets, drawn from equally)."""
    import torch

    from updp.training.vlm import masked_bce

    labelled = [np.flatnonzero(~np.isnan(y).all(axis=1)) for y in labels]
    if not any(len(rows) for rows in labelled):
        raise NothingToLearn("no training film is labelled")
    if not teachable(np.concatenate(list(labels))).any():
        raise NothingToLearn("every training film has the same labels")
    findings = labels[0].shape[1]
    key = key_of(EDITION, asdict(config), seed, *maps, *labels)
    with seeded(seed):
        head = _head(maps[0].shape[1], findings, config)
        if cache is not None and (held := cache.get(key)) is not None:
            head.load_state_dict({name: torch.from_numpy(value) for name, value in held.items()})
            return Judge(head)
        optimizer = torch.optim.AdamW(head.parameters(), lr=config.rate, weight_decay=config.decay)
        rng = np.random.default_rng(seed)
        orders: list[list[int]] = [[] for _ in maps]
        head.train()
        for step in range(config.steps):
            for group in optimizer.param_groups:
                group["lr"] = config.rate * _schedule(step / config.steps)
            xs, ys = [], []
            for i, rows in enumerate(labelled):
                if not len(rows):
                    continue
                # Each set in an order of its own, started again at its end.
                count = max(2, config.batch // len(maps))
                while len(orders[i]) < count:
                    orders[i] += rng.permutation(rows).tolist()
                drawn, orders[i] = orders[i][:count], orders[i][count:]
                xs.append(maps[i][drawn])
                ys.append(labels[i][drawn])
            loss = masked_bce(head(torch.from_numpy(np.concatenate(xs)).float()), torch.from_numpy(np.concatenate(ys)))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    if cache is not None:
        cache.put(key, {name: value.numpy() for name, value in head.state_dict().items()})
    return Judge(head)


def _schedule(done: float) -> float:
    """The learning rate rises over a tenth of the steps and falls by a half cosine over the rest."""
    return done / 0.1 + 0.05 if done < 0.1 else 0.5 * (1 + math.cos(math.pi * (done - 0.1) / 0.9))
