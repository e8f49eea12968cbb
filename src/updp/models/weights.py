"""Weights on disk: half precision, or eight bits for the large matrices of a network.

In eight bits each row of a matrix has a scale of its own, beside it under the name of the matrix and `SCALE`: errors
are below a hundredth of what weights of a row differ by, and the file is half as large. A network that others learn on
top of is rounded first (`rounded`), so that they learn on what will be read back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from updp.models.errors import PackError

SCALE = "|scale"
_LEAST = 1 << 14  # numbers of a matrix worth the trouble
_LARGEST = 127

Network = TypeVar("Network", bound=nn.Module)


def _is_large(name: str, value: Tensor, apart: Collection[str]) -> bool:
    shaped = value.is_floating_point() and value.dim() > 1 and value.numel() >= _LEAST
    return shaped and not name.startswith(tuple(apart))


def _halved(name: str, value: Tensor) -> Tensor:
    half = value.half()
    if not torch.isfinite(half).all():
        raise PackError(f"{name} has values that half precision cannot hold")
    return half


def _eight_bits(name: str, value: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers and the scale of each row."""
    rows = value.detach().float().flatten(1)
    scale = _halved(name, rows.abs().amax(1) / _LARGEST)
    whole = (rows / scale.float().clamp_min(1e-12)[:, None]).round().clamp(-_LARGEST, _LARGEST)
    return whole.to(torch.int8).reshape(value.shape), scale


def _restored(whole: Tensor, scale: Tensor) -> Tensor:
    return whole.float() * scale.float().reshape(-1, *[1] * (whole.dim() - 1))


def save_weights(
    module: nn.Module, path: Path, left_out: Collection[str] = (), eight_bits: bool = False, apart: Collection[str] = ()
) -> None:
    """Write the weights of a module but those `left_out`; one that does not fit its precision is an error, not an
    infinity. With `eight_bits` large matrices take eight bits, but those whose names begin with one of `apart`."""
    from safetensors.torch import save_file

    state = {}
    for name, held in module.state_dict().items():
        if name in left_out:
            continue
        value = held.detach().cpu().contiguous()
        if eight_bits and _is_large(name, value, apart):
            state[name], state[name + SCALE] = _eight_bits(name, value)
        else:
            state[name] = _halved(name, value) if value.is_floating_point() else value
    save_file(state, path)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Weights as they were written, in single precision."""
    from safetensors.torch import load_file

    return full_precision(load_file(path))


def full_precision(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights read from a file, in single precision. Whole numbers without their scale would load as weights."""
    whole = {name + SCALE for name, value in state.items() if value.dtype == torch.int8}
    if alone := sorted(whole ^ {name for name in state if name.endswith(SCALE)}):
        raise PackError(f"the weights of {alone[0].removesuffix(SCALE)} are not whole: numbers or scale are missing")
    out = {}
    for name, value in state.items():
        if name.endswith(SCALE):
            continue
        if name + SCALE in state:
            out[name] = _restored(value, state[name + SCALE])
        else:
            out[name] = value.float() if value.is_floating_point() else value
    return out


def rounded(module: Network, apart: Collection[str] = ()) -> Network:
    """The module as it will be read back from eight bits."""
    out = deepcopy(module)
    state = out.state_dict()
    for name, value in state.items():
        if _is_large(name, value, apart):
            state[name] = _restored(*_eight_bits(name, value)).to(value)
        elif value.is_floating_point():
            state[name] = _halved(name, value).to(value)
    out.load_state_dict(state)
    return out
