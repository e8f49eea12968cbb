"""A network in an ONNX file as a differentiable one, for trainings against a recogniser (onnxruntime has no gradients).

The file is read by its wire format (Protocol Buffers), so no package is needed for it. Only the operations of
convolutional recognisers are known; another one is an error when the file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class UnknownGraph(ValueError):
    """The file is no ONNX file, or it has an operation that is not known here."""


@dataclass
class Node:
    kind: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


def _number(raw: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _fields(raw: memoryview) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message: a whole number, or bytes."""
    at = 0
    while at < len(raw):
        key, at = _number(raw, at)
        if key & 7 == 0:
            value, at = _number(raw, at)
            yield key >> 3, value - (1 << 64) if value >> 63 else value
            continue
        if key & 7 == 2:
            size, at = _number(raw, at)
        elif key & 7 in (1, 5):
            size = 8 if key & 7 == 1 else 4
        else:
            raise UnknownGraph("not an ONNX file")
        if at + size > len(raw):
            raise UnknownGraph("an ONNX file that is cut off")
        yield key >> 3, raw[at : at + size]
        at += size


def _text(raw: Any) -> str:
    return bytes(raw).decode()


def _whole(value: Any) -> list[int]:
    """A repeated whole number, packed or not."""
    if isinstance(value, int):
        return [value]
    out, at = [], 0
    while at < len(value):
        number, at = _number(value, at)
        out.append(number - (1 << 64) if number >> 63 else number)
    return out


def _tensor(raw: memoryview) -> tuple[str, Tensor]:
    name, sizes, kind, values = "", [], 1, np.zeros(0, np.float32)
    for number, value in _fields(raw):
        if number == 1:
            sizes += _whole(value)
        elif number == 2:
            kind = value
        elif number == 8:
            name = _text(value)
        elif number == 4 and len(value) != 4:
            values = np.frombuffer(value, "<f4")
        elif number == 9:
            values = np.frombuffer(value, "<i8" if kind == 7 else "<f4")
    if kind not in (1, 7):
        raise UnknownGraph(f"an ONNX tensor of kind {kind} is not known")
    return name, torch.from_numpy(values.copy()).reshape(sizes)


def _setting(raw: memoryview) -> tuple[str, Any]:
    name, numbers = "", list[int]()
    out: Any = None
    for number, value in _fields(raw):
        if number == 1:
            name = _text(value)
        elif number == 2:
            out = float(np.frombuffer(value, "<f4")[0])
        elif number == 3:
            out = value
        elif number == 5:
            out = _tensor(value)[1]
        elif number == 8:
            numbers += _whole(value)
    return name, numbers or out


def _node(raw: memoryview) -> Node:
    node = Node()
    for number, value in _fields(raw):
        if number == 1:
            node.inputs.append(_text(value))
        elif number == 2:
            node.outputs.append(_text(value))
        elif number == 4:
            node.kind = _text(value)
        elif number == 5:
            name, setting = _setting(value)
            node.settings[name] = setting
    return node


def _conv(s: dict[str, Any], x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    pads = s.get("pads", [0, 0, 0, 0])
    if pads[:2] != pads[2:]:
        x, pads = functional.pad(x, (pads[1], pads[3], pads[0], pads[2])), [0, 0]
    return functional.conv2d(
        x, weight, bias, s.get("strides", [1, 1]), pads[:2], s.get("dilations", [1, 1]), s.get("group", 1)
    )


def _batch_norm(s: dict[str, Any], x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    return functional.batch_norm(x, mean, spread, scale, shift, eps=s.get("epsilon", 1e-5))


def _product(s: dict[str, Any], x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.linear(x, weight if s.get("transB") else weight.T, bias)


_KNOWN: dict[str, Callable[..., Tensor]] = {
    "Conv": _conv,
    "PRelu": lambda s, x, slope: functional.prelu(x, slope.flatten()),
    "Relu": lambda s, x: functional.relu(x),
    "Add": lambda s, x, y: x + y,
    "Flatten": lambda s, x: x.flatten(1),
    "Gemm": _product,
    "BatchNormalization": _batch_norm,
}


class OnnxGraph(nn.Module):
    """``OnnxGraph(path)(images)``: the first output of the network, differentiable in the images. Nothing learns."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        tensors: dict[str, Tensor] = {}
        inputs, outputs = list[str](), list[str]()
        for number, graph in _fields(memoryview(path.read_bytes())):
            if number != 7:
                continue
            for kind, value in _fields(graph):
                if kind == 1:
                    self.nodes.append(_node(value))
                elif kind == 5:
                    tensors.update([_tensor(value)])
                elif kind in (11, 12):
                    (inputs if kind == 11 else outputs).append(next(_text(v) for n, v in _fields(value) if n == 1))
        if unknown := {node.kind for node in self.nodes} - set(_KNOWN):
            raise UnknownGraph(f"operations that are not known here: {', '.join(sorted(unknown))}")
        if not self.nodes:
            raise UnknownGraph(f"{path.name} holds no graph")
        self.entry, self.exit = next(name for name in inputs if name not in tensors), outputs[0]
        self.held = {name: f"t{n}" for n, name in enumerate(tensors)}
        for name, value in tensors.items():
            self.register_buffer(self.held[name], value)

    def forward(self, images: Tensor) -> Tensor:
        values = {name: getattr(self, held) for name, held in self.held.items()}
        values[self.entry] = images
        for node in self.nodes:
            values[node.outputs[0]] = _KNOWN[node.kind](node.settings, *(values[name] for name in node.inputs if name))
        out: Tensor = values[self.exit]
        return out
