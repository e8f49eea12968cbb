"""Prompts from films: semantic alignment and constrained projection (UPDP, arXiv 2604.07128; PEZ, arXiv 2302.03668).

A prompt is L token embeddings H, framed as the text tower needs them. Alignment moves H so that the text embedding
approaches the film's; projection takes every row of H to an allowed token. Studies are aligned in one batch: a step
costs one pass of the text tower for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from updp.methods.updp.blacklist import Vocabulary

if TYPE_CHECKING:
    import numpy as np
from updp.methods.updp.projection import Projector


@dataclass
class Prompts:
    """A batch of prompts during the search: ids N×L, which places are real, and the embeddings they came from."""

    ids: Tensor
    mask: Tensor
    rows: Tensor  # N×L×D
    scores: Tensor  # cosine of text and film
    trace: list[float] = field(default_factory=list)  # mean best score after each step

    def better_of(self, other: Prompts) -> Prompts:
        """Of two searches of the same places, the better prompt of each film."""
        here = self.scores > other.scores
        ids = torch.where(here[:, None], self.ids, other.ids)
        rows = torch.where(here[:, None, None], self.rows, other.rows)
        return Prompts(ids, self.mask, rows, torch.where(here, self.scores, other.scores), self.trace)


class Frame:
    """Prompt embeddings in the frame of the text tower: opening token, prompt, closing token, padding."""

    def __init__(self, vlm: Any, vocabulary: Vocabulary, mask: Tensor) -> None:
        table = vlm.token_table.detach()
        count, length = mask.shape
        self.vlm = vlm
        self.mask = torch.zeros(count, length + 2, dtype=torch.bool)
        self.mask[:, : length + 1] = functional.pad(mask, (1, 0), value=True)
        ends = mask.sum(1) + 1
        self.mask[torch.arange(count), ends] = True
        self.base = table[torch.zeros(count, length + 2, dtype=torch.long)].clone()
        self.base[:, 0] = table[vocabulary.opening]
        self.base[torch.arange(count), ends] = table[vocabulary.closing]
        self.inner = functional.pad(mask, (1, 1))[..., None]

    def embed(self, rows: Tensor) -> Tensor:
        """Unit text embeddings of prompt rows N×L×D; differentiable."""
        framed = torch.where(self.inner, functional.pad(rows, (0, 0, 1, 1)), self.base)
        embedded: Tensor = self.vlm.embed_tokens(framed, self.mask)
        return embedded


class Start(NamedTuple):
    """Where prompts begin: ids and mask N×L, the places that stay, and how many allowed words had no room."""

    ids: Tensor
    mask: Tensor
    fixed: Tensor
    cut: list[int]


def _apart(ids: list[int], stop: int | None) -> list[int]:
    """Ids with one full stop at most between two words, and none at the start."""
    return [index for i, index in enumerate(ids) if index != stop or (i > 0 and ids[i - 1] != stop)]


def start(
    vlm: Any,
    vocabulary: Vocabulary,
    texts: Sequence[str],
    length: int,
    rngs: Sequence[np.random.Generator],
    *,
    init: Literal["report", "raw", "random"] = "report",
    drop_blocked: bool = True,
    fixed_length: bool = False,
    least: int = 4,
    free: int | None = None,
) -> Start:
    """What to begin from: the report's words, or random favoured ones.

    With ``free`` the report's words stay as they are and that many words, random at first, follow for the film to
    choose; without, every word may move.

    With ``drop_blocked`` a blocked word is left out; without, its embedding is projected to its nearest allowed
    neighbour, which is a function of the word (the paper's reading). A report that is too short is filled up, unless no
    word may move: a prompt must not state a finding that was chosen at random.
    """
    favoured = (vocabulary.favoured.nonzero()[:, 0] if vocabulary.favoured.any() else vocabulary.allowed).tolist()
    rows, cut, kept = [], [], []
    room = length if free is None else max(0, length - free)
    for text, rng in zip(texts, rngs, strict=True):
        ids = [] if init == "random" else vocabulary.encode(text)
        if drop_blocked:
            usable = [index for index in ids if index == vocabulary.stop or not vocabulary.blocked[index]]
            ids = _apart(usable, vocabulary.stop)
        cut.append(max(0, len(ids) - room))
        ids = ids[:room]
        kept.append(0 if free is None else len(ids))
        if fixed_length or init == "random":
            wanted = length
        else:
            wanted = len(ids) if free == 0 else min(max(least, len(ids) + (free or 0)), length)
        while len(ids) < wanted:
            ids.append(favoured[int(rng.integers(len(favoured)))])
        rows.append(ids)
    width = length if fixed_length else max([1, *map(len, rows)])
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    out = torch.zeros(len(rows), width, dtype=torch.long)
    fixed = torch.arange(width) < torch.tensor(kept)[:, None]
    for i, ids in enumerate(rows):
        out[i, : len(ids)] = torch.tensor(ids)
        mask[i, : len(ids)] = True
    return Start(out, mask, fixed, cut)


def align(
    vlm: Any,
    vocabulary: Vocabulary,
    ids: Tensor,
    mask: Tensor,
    films: Tensor,
    projector: Projector,
    *,
    steps: int,
    rate: float,
    straight_through: bool,
    noise: Tensor | None = None,
    fixed: Tensor | None = None,
) -> Prompts:
    """Move prompts towards films (unit embeddings N×D) and project them; places that are ``fixed`` keep their word.

    Straight-through: every step is taken at the projected prompt and applied to the free one, and the best projected
    prompt is kept. Else: the free prompt is optimised alone and projected once at the end.
    """
    table = vlm.token_table.detach()
    frame = Frame(vlm, vocabulary, mask)
    rows = table[ids].clone()
    optimiser = torch.optim.Adam([rows], lr=rate)
    count = len(ids)
    moving = mask if fixed is None else mask & ~fixed
    best = Prompts(ids, mask, rows.clone(), torch.full((count,), -2.0))

    def consider(chosen: Tensor, scores: Tensor) -> None:
        better = scores > best.scores
        best.ids = torch.where(better[:, None], chosen, best.ids)
        best.rows = torch.where(better[:, None, None], rows, best.rows)
        best.scores = torch.where(better, scores, best.scores)

    def projected(at: Tensor, draws: Tensor | None = None) -> Tensor:
        """Words for the places that move; the search for the others in the whole table would take most of the time."""
        chosen = ids.clone()
        chosen[moving] = projector.project(at[moving], None if draws is None else draws[moving])
        return chosen

    for _ in range(steps):
        chosen = projected(rows) if straight_through else None
        point = (rows if chosen is None else table[chosen]).detach().requires_grad_()
        scores = (frame.embed(point) * films).sum(1)
        (gradient,) = torch.autograd.grad((1 - scores).sum(), point)
        if chosen is not None:
            consider(chosen, scores.detach())
            best.trace.append(float(best.scores.mean()))
        else:
            best.trace.append(float(scores.detach().mean()))
        rows.grad = gradient * moving[..., None]
        optimiser.step()
    with torch.no_grad():
        if straight_through:
            chosen = projected(rows)
            consider(chosen, (frame.embed(table[chosen]) * films).sum(1))
        else:
            best.rows = rows
            best.ids = projected(rows)
        if noise is not None and projector.rule.temperature > 0:
            best.ids = projected(best.rows, noise)
        best.scores = (frame.embed(table[best.ids]) * films).sum(1)
    return best
