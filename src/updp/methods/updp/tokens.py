"""What the token searches share: the film as a target, scores of prompts, the gradient by the choice of a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from updp.methods.updp.alignment import Frame, Prompts
from updp.methods.updp.blacklist import Vocabulary

#: Prompts scored at a time: more do not fit a core's cache and take half as long again.
_CHUNK = 64


@dataclass(frozen=True)
class Target:
    """The embedding of one film, and what prompts score against it."""

    vlm: Any
    vocabulary: Vocabulary
    film: Tensor

    def candidates(self, ids: Tensor, most: int) -> Tensor:
        """The ``most`` allowed tokens that promise most at each place of a prompt of ids L, by the one-hot gradient."""
        gradient = self.gradient(ids[None])[0]
        return gradient.topk(min(most, int((~self.vocabulary.blocked).sum())), largest=False).indices

    def gradient(self, ids: Tensor) -> Tensor:
        """Gradient of the loss by the one-hot choice of each token, N×L×V, normalised; infinite for blocked tokens."""
        table = self.vlm.token_table.detach()
        point = table[ids].clone().requires_grad_()
        frame = Frame(self.vlm, self.vocabulary, torch.ones_like(ids, dtype=torch.bool))
        loss = (1 - (frame.embed(point) * self.film).sum(1)).sum()
        (gradient,) = torch.autograd.grad(loss, point)
        by_token = functional.normalize(gradient @ table.T, dim=-1)
        return by_token.masked_fill(self.vocabulary.blocked, torch.inf)

    @torch.no_grad()
    def scores(self, ids: Tensor) -> Tensor:
        """Cosine of each prompt of ids N×L to the film."""
        table = self.vlm.token_table.detach()
        out = []
        for first in range(0, len(ids), _CHUNK):
            some = ids[first : first + _CHUNK]
            frame = Frame(self.vlm, self.vocabulary, torch.ones_like(some, dtype=torch.bool))
            out.append((frame.embed(table[some]) * self.film).sum(1))
        return torch.cat(out)

    def prompts(self, ids: Tensor, score: float, trace: list[float]) -> Prompts:
        """What a search found, as a batch of one."""
        rows = self.vlm.token_table.detach()[ids][None]
        return Prompts(ids[None], torch.ones(1, len(ids), dtype=torch.bool), rows, torch.tensor([score]), trace)
