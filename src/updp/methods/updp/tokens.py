"""What the token searches share: the gradient by the choice of a token, and the scores of many prompts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from updp.methods.updp.alignment import Frame, Prompts
from updp.methods.updp.blacklist import Vocabulary

#: Prompts scored at a time: more fall out of a core's cache and take half as long again.
_CHUNK = 64


def one_hot_gradient(vlm: Any, vocabulary: Vocabulary, ids: Tensor, film: Tensor) -> Tensor:
    """Gradient of the loss by the one-hot choice of each token, N×L×V, normalised; infinite for blocked tokens."""
    table = vlm.token_table.detach()
    point = table[ids].clone().requires_grad_()
    frame = Frame(vlm, vocabulary, torch.ones_like(ids, dtype=torch.bool))
    loss = (1 - (frame.embed(point) * film).sum(1)).sum()
    (gradient,) = torch.autograd.grad(loss, point)
    by_token = functional.normalize(gradient @ table.T, dim=-1)
    return by_token.masked_fill(vocabulary.blocked, torch.inf)


@torch.no_grad()
def score_prompts(vlm: Any, vocabulary: Vocabulary, ids: Tensor, film: Tensor) -> Tensor:
    table = vlm.token_table.detach()
    out = []
    for first in range(0, len(ids), _CHUNK):
        some = ids[first : first + _CHUNK]
        frame = Frame(vlm, vocabulary, torch.ones_like(some, dtype=torch.bool))
        out.append((frame.embed(table[some]) * film).sum(1))
    return torch.cat(out)


def as_prompts(vlm: Any, ids: Tensor, score: float, trace: list[float]) -> Prompts:
    rows = vlm.token_table.detach()[ids][None]
    return Prompts(ids[None], torch.ones(1, len(ids), dtype=torch.bool), rows, torch.tensor([score]), trace)
