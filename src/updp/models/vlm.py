"""`vlm`: one space for films and sentences (CLIP, Radford et al. 2021, arXiv 2103.00020), small enough for two cores.

The generator is conditioned on the text tower's token states, so a prompt optimiser that improves the embedding here
improves the condition of the generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from updp.models.backbone import FEATURES, FilmEncoder
from updp.models.images import batched

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        # Rows without any real token would be NaN; a pad row attends to itself.
        allowed = mask[:, None, None, :] | torch.eye(length, dtype=torch.bool, device=x.device)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, width))
        y: Tensor = x + self.down(nn.functional.gelu(self.up(self.norm2(x))))
        return y


class TextTower(nn.Module):
    """Token embeddings to token states."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(context, width) * 0.02)
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        x = embeddings + self.positions[: embeddings.shape[1]]
        for layer in self.layers:
            x = layer(x, mask)
        states: Tensor = self.norm(x)
        return states


def sentence(states: Tensor, mask: Tensor) -> Tensor:
    """One vector per text: the mean of its real token states, which learns far faster than a [CLS] state does."""
    weight = mask[..., None].to(states.dtype)
    return (states * weight).sum(1) / weight.sum(1).clamp_min(1)


class VisionLanguage(nn.Module):
    """Films and texts to unit vectors in one space."""

    def __init__(
        self, vocabulary: int, width: int = 256, layers: int = 2, heads: int = 4, context: int = 64, size: int = 160,
        space: int = 256,
    ) -> None:  # fmt: skip
        super().__init__()
        self.config = {"vocabulary": vocabulary, "width": width, "layers": layers, "heads": heads}
        self.config |= {"context": context, "size": size, "space": space}
        self.image = FilmEncoder(size)
        self.image_head = nn.Sequential(nn.LayerNorm(FEATURES), nn.Linear(FEATURES, space))
        self.text = TextTower(vocabulary, width, layers, heads, context)
        self.text_head = nn.Linear(width, space)
        self.logit_scale = nn.Parameter(torch.tensor(2.66))  # exp gives CLIP's initial 14.3
        self.tokenizer: Tokenizer | None = None

    @property
    def token_table(self) -> Tensor:
        """Vocabulary × width: the embedding of every token."""
        return self.text.tokens.weight

    @property
    def context(self) -> int:
        return self.text.context

    def tokenize(self, texts: Sequence[str], context: int | None = None) -> tuple[Tensor, Tensor]:
        """Token ids N×L and their mask, [CLS] first and [SEP] last, cut to the context (its own unless given)."""
        if self.tokenizer is None:
            raise RuntimeError("this vlm has no tokenizer: load it through a pack")
        encodings = [self.tokenizer.encode(text).ids for text in texts]
        closing = self.tokenizer.token_to_id("[SEP]")
        longest = self.context if context is None else context
        cut = [ids if len(ids) <= longest else [*ids[: longest - 1], closing] for ids in encodings]
        length = max(len(ids) for ids in cut)
        ids = torch.zeros(len(cut), length, dtype=torch.long)
        mask = torch.zeros(len(cut), length, dtype=torch.bool)
        for i, row in enumerate(cut):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = True
        return ids, mask

    def token_states(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        """States N×L×width of token embeddings N×L×width; differentiable. The generator's condition."""
        states: Tensor = self.text(embeddings, mask)
        return states

    def text_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Token states and mask of texts."""
        ids, mask = (part.to(self.token_table.device) for part in self.tokenize(texts))
        return self.token_states(self.text.tokens(ids), mask), mask

    def embed_tokens(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors of token embeddings (with [CLS] and [SEP] in place); differentiable, for prompt optimisation."""
        pooled = sentence(self.token_states(embeddings, mask), mask)
        return nn.functional.normalize(self.text_head(pooled), dim=-1)

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        ids, mask = (part.to(self.token_table.device) for part in self.tokenize(texts))
        return self.embed_tokens(self.text.tokens(ids), mask)

    def embed_features(self, features: Tensor) -> Tensor:
        return nn.functional.normalize(self.image_head(features), dim=-1)

    @batched
    def embed_images(self, images: Tensor) -> Tensor:
        return self.embed_features(self.image(images))

    def forward(self, images: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.image(images)
        return features, self.embed_features(features), self.embed_tokens(self.text.tokens(ids), mask)
