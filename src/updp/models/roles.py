"""The roles a pack fills; segmenter, medical and space are roles of packs of faces.

Films are float32, N×1×256×256, in [0, 1]; embeddings are unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor


class AutoencoderRole(Protocol):
    def encode(self, images: Tensor) -> Tensor: ...
    def decode(self, latents: Tensor) -> Tensor: ...


class VlmRole(Protocol):
    tokenizer: Any

    @property
    def token_table(self) -> Tensor: ...
    def embed_images(self, images: Tensor) -> Tensor: ...
    def embed_texts(self, texts: Sequence[str]) -> Tensor: ...
    def embed_tokens(self, embeddings: Tensor, mask: Tensor) -> Tensor: ...


class GeneratorRole(Protocol):
    def generate(
        self, prompts: Sequence[str], seeds: Sequence[int], steps: int | None = None, guidance: float | None = None,
        init_images: Tensor | None = None, strength: float | None = None,
    ) -> Tensor: ...  # fmt: skip
    def condition(self, prompts: Sequence[str]) -> Any: ...
    def noise(self, latents: Tensor, t: Tensor, condition: Any) -> Tensor: ...


class IdentityRole(Protocol):
    def embed(self, images: Tensor) -> Tensor: ...


class ClassifierRole(Protocol):
    labels: tuple[str, ...]

    def probabilities(self, images: Tensor) -> Tensor: ...


class SegmenterRole(Protocol):
    def masks(self, images: Tensor) -> Tensor: ...


class MedicalRole(Protocol):
    def features(self, images: Tensor) -> list[Tensor]: ...


class SpaceRole(Protocol):
    def encode(self, images: Tensor) -> Tensor: ...
    def decode(self, parts: Tensor) -> Tensor: ...
    def who(self, parts: Tensor) -> Tensor: ...
