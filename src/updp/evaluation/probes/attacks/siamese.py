"""The Siamese net: the upper blocks of the identity network, trained on the pairs that are attacked.

The lower blocks are frozen and their maps cached, so that a step costs a fraction of the network. Released films pass
through a branch of their own (an affine map of the channels) before they share the blocks with real films, and the net
starts from a linear metric of the training patients, since the pack's own may have been learned on them. Supervised
contrast over patients, as in Khosla et al. 2020 (arXiv 2004.11362); the attacker of PriCheXy-Net differs in that it
never trained on the kind of pair it was tested on.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.models.identity import TAPS, Identity

_TEMPERATURE = 0.1
_MEMORY = 512


class Upper(nn.Module):
    """The identity network from its lower maps on; the same weights until it is begun anew."""

    def __init__(self, network: Any, trainable: bool = False) -> None:
        super().__init__()
        if not isinstance(network, Identity):
            raise TypeError("only the identity network of updp has maps to start from")
        part: Callable[[Any], Any] = copy.deepcopy if trainable else (lambda module: module)
        self.pool = network.pool
        self.blocks = part(network.between("lower", "upper"))
        self.project = part(network.project)
        for side in ("real", "released"):
            self.register_buffer(f"centre_{side}", network.centre, persistent=False)
            self.register_buffer(f"spread_{side}", network.spread, persistent=False)
        channels = TAPS["lower"].channels
        self.branch = nn.Conv2d(channels, channels, 1)  # of released films
        with torch.no_grad():
            self.branch.weight.copy_(torch.eye(channels)[:, :, None, None])
            assert self.branch.bias is not None
            self.branch.bias.zero_()

    def begin(self, weights: NDArray[np.float32], standard: Mapping[str, tuple[Any, Any]]) -> None:
        """Start from this linear metric, with a standard (mean, spread) of its own for each side."""
        self.project = nn.Linear(weights.shape[0], weights.shape[1], bias=False)
        with torch.no_grad():
            scale = max(float(np.abs(weights).max()), 1e-9)  # only the direction of a vector counts
            self.project.weight.copy_(torch.from_numpy(np.ascontiguousarray(weights.T / scale)))
        for side, (centre, spread) in standard.items():
            self.register_buffer(f"centre_{side}", torch.from_numpy(np.array(centre, np.float32)), persistent=False)
            self.register_buffer(f"spread_{side}", torch.from_numpy(np.array(spread, np.float32)), persistent=False)

    def features(self, maps: Tensor) -> Tensor:
        """The pooled maps of both taps, flattened, as ``Identity.features`` gives them."""
        high = maps
        for block in self.blocks:
            high = block(high)
        return torch.cat([self.pool(maps, "lower"), self.pool(high, "upper")], 1)

    def embed(self, features: Tensor, side: str = "real") -> Tensor:
        centre, spread = self.get_buffer(f"centre_{side}"), self.get_buffer(f"spread_{side}")
        return functional.normalize(self.project((features - centre) / spread), dim=-1)

    def forward(self, maps: Tensor, released: bool = False) -> Tensor:
        if released:
            return self.embed(self.features(self.branch(maps)), "released")
        return self.embed(self.features(maps))


def train_siamese(
    net: Upper,
    released: NDArray[np.float16],
    real: NDArray[np.float16] | None,
    patient_rows: list[NDArray[np.intp]],
    *,
    steps: int,
    batch: int,
    seed: int,
    watched: NDArray[np.intp],
    judge: Callable[[NDArray[np.float32], NDArray[np.float32]], float],
) -> tuple[NDArray[np.float32], NDArray[np.float32], list[tuple[int, float]]]:
    """Train on the films of ``patient_rows``; gives vectors of all released and all candidate films, and how it went.

    ``real`` maps are the candidates (released–real pairs), or None where released films are compared with each other.
    ``judge`` scores vectors (rows of which only ``watched`` are filled) on held-out training patients; the best state
    seen is the one that is kept.
    """
    rng = np.random.default_rng(seed)
    net.requires_grad_(True).eval()  # statistics of the norms stay as they are
    fast = [p for n, p in net.named_parameters() if n.startswith("branch")]
    slow = [p for n, p in net.named_parameters() if not n.startswith("branch")]
    optimizer = torch.optim.AdamW([{"params": fast, "at": 1e-3}, {"params": slow, "at": 2e-4}], weight_decay=0.02)
    useful = [films for films in patient_rows if real is not None or len(films) > 1]
    weights = np.sqrt([len(films) for films in useful])
    weights = weights / weights.sum()
    count = min(max(2, batch // 2), len(useful))
    memory: list[tuple[Tensor, Tensor]] = []

    def vectors(rows: NDArray[np.intp] | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        left = _embed(net, released, True, rows)
        return left, left if real is None else _embed(net, real, False, rows)

    history = [(0, judge(*vectors(watched)))]
    best = copy.deepcopy(net.state_dict())
    for step in range(steps):
        for group in optimizer.param_groups:
            warm = min(1.0, (step + 1) / 10)
            group["lr"] = group["at"] * warm * 0.5 * (1 + math.cos(math.pi * step / steps))
        chosen = rng.choice(len(useful), count, replace=False, p=weights)
        first, second = [], []
        for place in chosen:
            films = useful[place]
            a = int(rng.choice(films))
            # The film's own counterpart now and then: for a generated film it is the closest there is.
            alone = len(films) == 1 or (real is not None and rng.random() < 0.3)
            b = a if alone else int(rng.choice(films[films != a]))
            first.append(a)
            second.append(b)
        who = torch.from_numpy(chosen)
        left = net(_maps(released, first, rng), True)
        right = net(_maps(released if real is None else real, second, rng), real is None)
        keys = torch.cat([right, *(m for m, _ in memory)])
        names = torch.cat([who, *(w for _, w in memory)])
        loss = _contrast(left, keys, who, names)
        loss = loss + _contrast(right, left, who, who)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if not math.isfinite(float(loss.detach())):
            raise ValueError(f"the Siamese net's loss is {float(loss.detach())} at step {step}")
        memory = [(right.detach(), who), *memory][: max(1, _MEMORY // count)]
        if step + 1 in (steps // 2, steps):
            history.append((step + 1, judge(*vectors(watched))))
            if history[-1][1] >= max(score for _, score in history[:-1]):
                best = copy.deepcopy(net.state_dict())
    net.load_state_dict(best)
    return *vectors(None), history


def _contrast(anchors: Tensor, keys: Tensor, who: Tensor, names: Tensor) -> Tensor:
    same = who[:, None] == names[None]
    share = (anchors @ keys.T / _TEMPERATURE).log_softmax(1)
    loss: Tensor = -((share * same).sum(1) / same.sum(1).clamp_min(1)).mean()
    return loss


def _maps(maps: NDArray[np.float16], rows: list[int], rng: np.random.Generator) -> Tensor:
    x = torch.from_numpy(maps[np.array(rows)].astype(np.float32))
    # Some channels are set to zero, so that no single one is relied on; the maps themselves cannot be augmented.
    silent = torch.from_numpy(rng.random((len(x), x.shape[1], 1, 1)) < 0.05)
    return x.masked_fill(silent, 0.0).contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def _embed(net: Upper, maps: NDArray[np.float16], released: bool, rows: NDArray[np.intp] | None) -> NDArray[np.float32]:
    index = np.arange(len(maps)) if rows is None else rows
    out = np.zeros((len(maps), net.project.out_features), np.float32)
    for i in range(0, len(index), 64):
        part = index[i : i + 64]
        x = torch.from_numpy(maps[part].astype(np.float32)).contiguous(memory_format=torch.channels_last)
        out[part] = net(x, released).numpy()
    if not np.isfinite(out).all():
        raise ValueError("the Siamese net gives NaN or infinity")
    return out
