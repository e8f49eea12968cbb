"""Top-K projection of UPDP (arXiv 2604.07128): every row of a prompt goes to an allowed token near it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from updp.methods.updp.blacklist import Vocabulary

Candidates = Literal["top-k", "whitelist-top-k"]


@dataclass(frozen=True)
class Projection:
    """How a row of embeddings becomes a token.

    ``top-k``: the K nearest allowed tokens, favoured ones raised by ``bonus``. ``whitelist-top-k``: the K nearest
    favoured tokens, as Algorithm 1 is printed. Neither has a privacy guarantee when it is drawn from: which tokens can
    be drawn depends on the film. Mode ``ldp`` draws from a fixed set instead (``exponential.py``).
    """

    candidates: Candidates = "top-k"
    top_k: int = 10
    bonus: float = 0.08
    temperature: float = 0.0  # 0 takes the best

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise ValueError("top_k must be at least 1")
        if self.temperature < 0:
            raise ValueError("temperature must not be negative")


class Projector:
    """Projection onto a vocabulary; the table of allowed tokens is normalised once."""

    def __init__(self, table: Tensor, vocabulary: Vocabulary, rule: Projection) -> None:
        self.rule = rule
        pool = vocabulary.allowed
        if rule.candidates != "top-k":
            pool = vocabulary.favoured.nonzero()[:, 0]
        self.pool = pool  # without blocked tokens
        self.directions = functional.normalize(table[pool].detach(), dim=-1)
        self.raised = vocabulary.favoured[pool].float() * rule.bonus if rule.candidates == "top-k" else None

    def scores(self, rows: Tensor) -> Tensor:
        """Cosine of rows (M×D) to every token of the pool."""
        return functional.normalize(rows, dim=-1) @ self.directions.T

    def candidates(self, rows: Tensor, banned: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Scores and ids of each row's candidates, M×K; ``banned`` (M×pool) removes tokens before the K are chosen."""
        scores = self.scores(rows)
        if banned is not None:
            scores = scores.masked_fill(banned, -torch.inf)
        best, places = scores.topk(min(self.rule.top_k, scores.shape[1]), dim=1)
        if self.raised is not None:
            best = best + self.raised[places]
        return best, self.pool[places]

    def project(self, rows: Tensor, noise: Tensor | None = None, banned: Tensor | None = None) -> Tensor:
        """One token id per row: the best candidate, or a draw by temperature when ``noise`` (uniform, M×K) is given."""
        scores, ids = self.candidates(rows, banned)
        if noise is not None and self.rule.temperature > 0:
            gumbel = -torch.log(-torch.log(noise[:, : scores.shape[1]].clamp(1e-12, 1 - 1e-7)))  # no guarantee
            scores = scores / self.rule.temperature + gumbel
        return ids.gather(1, scores.argmax(1, keepdim=True))[:, 0]

    def width(self) -> int:
        """How many candidates a row has."""
        return min(self.rule.top_k, len(self.pool))
