"""Where a model computes: its device and number format, and the border between it and everybody else.

Methods, attacks and measures hold their tensors on the CPU in float32. A model that computes elsewhere takes what it is
given there and brings its results back; gradients pass. So a graphics processor speeds up what networks do, and nothing
else of the package has to know about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from updp.models.errors import PackError

#: Number formats that a model may compute in.
DTYPES = ("float32", "float16", "bfloat16", "float64")

#: What compiles networks, and shapes beyond which torch would compute without it.
BACKEND, _SHAPES = "inductor", 10_000


class Placement:
    """A device and a number format, and whether networks are compiled there."""

    def __init__(self, device: str = "cpu", dtype: str = "float32", compiled: bool = False) -> None:
        if dtype not in DTYPES:
            raise PackError(f"dtype {dtype!r}: choose one of {', '.join(DTYPES)}")
        try:
            self.device = torch.device(device)
        except RuntimeError:
            raise PackError(f"device {device!r}: choose cpu, cuda, cuda:N or mps") from None
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.compiled = compiled
        self._check()

    def _check(self) -> None:
        present: dict[str, Callable[[], bool]] = {
            "cuda": torch.cuda.is_available,
            "mps": torch.backends.mps.is_available,
        }
        here = present.get(self.device.type)
        if here is not None and not here():
            raise PackError(f"device {self.device.type!r} is not available to this installation of torch; use cpu")
        if here and self.device.type == "cuda" and (self.device.index or 0) >= torch.cuda.device_count():
            raise PackError(f"device {str(self.device)!r}: there are {torch.cuda.device_count()} devices here")

    @property
    def usual(self) -> bool:
        """Whether models compute where their callers are."""
        return (self.device.type, self.dtype) == ("cpu", torch.float32)

    def place(self, module: nn.Module) -> nn.Module:
        """A network at its place. Compiled, it is compiled for each shape of its input: what one shape gives must not
        depend on the shapes that came before it."""
        placed = module.to(self.device, self.dtype)
        if self.compiled:
            settings: Any = torch._dynamo.config
            settings.recompile_limit = settings.accumulated_recompile_limit = _SHAPES
            placed.compile(backend=BACKEND, dynamic=False)
        return placed

    def served(self, model: Any) -> Any:
        """A model in a role, for callers on the CPU."""
        return model if self.usual else Placed(model, self)


class Placed:
    """A model that computes at another place than its callers."""

    def __init__(self, model: Any, placement: Placement) -> None:
        self.__dict__.update(model=model, placement=placement, _brought={})

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.model, name, value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__dict__["model"], name)
        if isinstance(found, Tensor):
            if name not in self._brought:  # a table of embeddings is asked for at every step of a search
                self._brought[name] = _back(found)
            return self._brought[name]
        if isinstance(found, nn.Module) or not callable(found):
            return found
        return self._crossing(found)

    def _crossing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            there = {name: self._there(value) for name, value in named.items()}
            return _mapped(function(*(self._there(value) for value in given), **there), _back)

        return call

    def _there(self, value: Any) -> Any:
        device, dtype = self.placement.device, self.placement.dtype
        return _mapped(value, lambda t: t.to(device, dtype) if t.is_floating_point() else t.to(device))


def _back(tensor: Tensor) -> Tensor:
    return tensor.to("cpu", torch.float32) if tensor.is_floating_point() else tensor.cpu()


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The value with every tensor in it changed; lists and tuples, named ones among them, stay what they are."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(one, change) for one in value))
    if isinstance(value, list | tuple) and any(isinstance(one, Tensor | tuple | list) for one in value):
        return type(value)(_mapped(one, change) for one in value)
    return value
