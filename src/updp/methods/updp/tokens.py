"""What the token searches share: films as targets, scores of prompts, the gradient by the choice of a token.

Films are searched for together: one pass gives the gradients of all, and their trials are scored in common chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
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
class Search:
    """Where a search begins: ids and mask N×L, which places may change, one stream of random numbers per film."""

    ids: Tensor
    mask: Tensor
    moving: Tensor
    generators: Sequence[torch.Generator]

    def places(self, film: int) -> Tensor:
        """The places of a film's prompt that may change."""
        return self.moving[film].nonzero()[:, 0]


@dataclass(frozen=True)
class Targets:
    """The embeddings of films N×D, and what prompts score against them."""

    vlm: Any
    vocabulary: Vocabulary
    films: Tensor

    def candidates(self, ids: Tensor, mask: Tensor, moving: Tensor, most: int) -> Tensor:
        """The ``most`` tokens that promise most at each place that may change, P×most, by the one-hot gradient.

        Only tokens that are allowed and that come back as themselves when the prompt is written out and read again.
        """
        usable = ~self.vocabulary.blocked & self.vocabulary.stable
        by_token = self.gradient(ids, mask, moving).masked_fill(~usable, torch.inf)
        return by_token.topk(min(most, int(usable.sum())), largest=False).indices

    def gradient(self, ids: Tensor, mask: Tensor, moving: Tensor) -> Tensor:
        """Gradient of the loss by the one-hot choice of the tokens that may change, P×V, normalised."""
        table = self.vlm.token_table.detach()
        point = table[ids].clone().requires_grad_()
        loss = (1 - (Frame(self.vlm, self.vocabulary, mask).embed(point) * self.films).sum(1)).sum()
        (gradient,) = torch.autograd.grad(loss, point)
        return functional.normalize(gradient[moving] @ table.T, dim=-1)

    @torch.no_grad()
    def scores(self, ids: Tensor, mask: Tensor, owners: Tensor) -> Tensor:
        """Cosine of each prompt of ids M×L to the film that ``owners`` names; equal prompts are scored once."""
        table = self.vlm.token_table.detach()
        marked = torch.cat([owners[:, None], ids.masked_fill(~mask, -1)], 1)
        distinct, place = torch.unique(marked, dim=0, return_inverse=True)
        lengths = (distinct[:, 1:] >= 0).sum(1)
        order = lengths.argsort(stable=True)  # equal lengths share a chunk, so that little is padding
        out = torch.empty(len(distinct))
        for first in range(0, len(order), _CHUNK):
            some = order[first : first + _CHUNK]
            longest = int(lengths[some].max())
            held = distinct[some, 1 : 1 + longest]
            frame = Frame(self.vlm, self.vocabulary, held >= 0)
            films = self.films[distinct[some, 0]]
            out[some] = (frame.embed(table[held.clamp_min(0)]) * films).sum(1)
        return out[place]

    def prompts(self, ids: Tensor, mask: Tensor, scores: Tensor, trace: list[float]) -> Prompts:
        """What a search found."""
        return Prompts(ids, mask, self.vlm.token_table.detach()[ids], scores, trace)
