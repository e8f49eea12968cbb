"""Low-rank changes of a network's weights (Hu et al. 2021, arXiv 2106.09685).

A layer keeps its weights and gets a second path of few channels beside it. Only that path is trained and stored: a
second network that differs little from the first costs a tenth of its size. For use, paths are added to weights.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)


class LowRank(nn.Module):
    """A convolution or linear layer with a path of `rank` channels beside it; untrained, the layer itself."""

    def __init__(self, layer: nn.Conv2d | nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer
        if isinstance(layer, nn.Conv2d):
            if layer.groups != 1:
                raise ValueError("a convolution in groups has no low-rank path")
            self.down: nn.Conv2d | nn.Linear = nn.Conv2d(
                layer.in_channels, rank, layer.kernel_size, layer.stride, layer.padding, bias=False  # type: ignore[arg-type]
            )
            self.up: nn.Conv2d | nn.Linear = nn.Conv2d(rank, layer.out_channels, 1, bias=False)
        else:
            self.down = nn.Linear(layer.in_features, rank, bias=False)
            self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.normal_(self.down.weight, std=self.down.weight[0].numel() ** -0.5)
        nn.init.zeros_(self.up.weight)

    @property
    def weight(self) -> Tensor:
        """The weights of the layer itself."""
        return self.layer.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x) + self.up(self.down(x))
        return y


def _layers(
    network: nn.Module, rank: int, skip: tuple[str, ...]
) -> Iterator[tuple[str, nn.Conv2d | nn.Linear, int]]:
    """The layers that get a path, and its rank: half for linear layers and kernels of one pixel, which are smaller."""
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Conv2d | nn.Linear) and name.split(".")[0] not in skip:
            small = isinstance(layer, nn.Linear) or layer.kernel_size == (1, 1)
            yield name, layer, max(1, rank // 2) if small else rank


def with_low_rank(network: Network, rank: int, skip: tuple[str, ...] = ()) -> Network:
    """A copy whose weights are fixed and whose layers, but for those under `skip`, have a path to learn with."""
    out = copy.deepcopy(network).requires_grad_(False)
    for name, layer, width in list(_layers(out, rank, skip)):
        parent, _, child = name.rpartition(".")
        setattr(out.get_submodule(parent), child, LowRank(layer, width))
    return out


def empty_paths(network: nn.Module, rank: int, skip: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """Paths of zeros for a network: the names and shapes of what `paths` gives."""
    out = {}
    for name, layer, width in _layers(network, rank, skip):
        outputs, *inputs = layer.weight.shape
        out[f"{name}.down"] = torch.zeros(width, *inputs)
        out[f"{name}.up"] = torch.zeros(outputs, width, *(1 for _ in inputs[1:]))
    return out


def paths(network: nn.Module) -> dict[str, Tensor]:
    """What `with_low_rank` added to a network, by layer: all that has to be stored."""
    out: dict[str, Tensor] = {}
    for name, part in network.named_modules():
        if isinstance(part, LowRank):
            out |= {f"{name}.down": part.down.weight.detach(), f"{name}.up": part.up.weight.detach()}
    return out


@torch.no_grad()
def load_paths(network: nn.Module, stored: Mapping[str, Tensor]) -> None:
    """Set what `with_low_rank` added to a network to what `paths` gave of another."""
    for name, part in network.named_modules():
        if isinstance(part, LowRank):
            part.down.weight.copy_(stored[f"{name}.down"])
            part.up.weight.copy_(stored[f"{name}.up"])


@torch.no_grad()
def merged(network: Network, stored: Mapping[str, Tensor]) -> Network:
    """A copy of the network with the paths added to its weights."""
    out = copy.deepcopy(network)
    for key in stored:
        name, _, end = key.rpartition(".")
        if end == "down":
            down, up = stored[key], stored[f"{name}.up"]
            weight = out.get_parameter(f"{name}.weight")
            weight.add_((up.flatten(1) @ down.flatten(1)).reshape(weight.shape).to(weight))
    return out
