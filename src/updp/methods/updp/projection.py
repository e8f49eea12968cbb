"""Prompts from films: semantic alignment and constrained projection (UPDP, arXiv 2604.07128; PEZ, arXiv 2302.03668).

A prompt is L token embeddings H, framed as the text tower wants them. Alignment moves H so that the text embedding
approaches the film's; projection takes every row of H to an allowed token. Studies are aligned in one batch: a step
costs one pass of the text tower for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from updp.methods.updp.blacklist import Vocabulary

if TYPE_CHECKING:
    import numpy as np

Candidates = Literal["top-k", "whitelist-top-k", "whitelist"]


@dataclass(frozen=True)
class Projection:
    """How a row of embeddings becomes a token.

    ``top-k``: the K nearest allowed tokens, favoured ones raised by ``bonus``. ``whitelist-top-k``: the K nearest
    favoured tokens, as Algorithm 1 is printed. ``whitelist``: all favoured tokens, whatever the film; with sampling
    that is the exponential mechanism, and the only choice with a privacy guarantee.
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

    @property
    def epsilon(self) -> float | None:
        """Local differential privacy of one token (exponential mechanism on utility in [-1, 1]), if there is any."""
        return 4 / self.temperature if self.candidates == "whitelist" and self.temperature > 0 else None


class Projector:
    """Projection onto a vocabulary; the table of allowed tokens is normalised once."""

    def __init__(self, table: Tensor, vocabulary: Vocabulary, rule: Projection) -> None:
        self.rule = rule
        pool = vocabulary.allowed
        if rule.candidates != "top-k":
            pool = vocabulary.favoured.nonzero()[:, 0]
        self.pool = pool  # blocked tokens are not even looked at
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
        if self.rule.candidates == "whitelist":
            return scores, self.pool.expand(len(rows), -1)
        best, places = scores.topk(min(self.rule.top_k, scores.shape[1]), dim=1)
        if self.raised is not None:
            best = best + self.raised[places]
        return best, self.pool[places]

    def project(self, rows: Tensor, noise: Tensor | None = None, banned: Tensor | None = None) -> Tensor:
        """One token id a row: the best candidate, or a draw by temperature when ``noise`` (uniform, M×K) is given."""
        scores, ids = self.candidates(rows, banned)
        if noise is not None and self.rule.temperature > 0:
            gumbel = -torch.log(-torch.log(noise[:, : scores.shape[1]].clamp(1e-12, 1 - 1e-7)))
            scores = scores / self.rule.temperature + gumbel
        return ids.gather(1, scores.argmax(1, keepdim=True))[:, 0]

    def width(self) -> int:
        """How many candidates a row has."""
        return len(self.pool) if self.rule.candidates == "whitelist" else min(self.rule.top_k, len(self.pool))


@dataclass
class Prompts:
    """A batch of prompts on the way: ids N×L, which places are real, and the embeddings they came from."""

    ids: Tensor
    mask: Tensor
    rows: Tensor  # N×L×D
    scores: Tensor  # cosine of text and film
    trace: list[float] = field(default_factory=list)  # mean best score after each step


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


def start(
    vlm: Any,
    vocabulary: Vocabulary,
    texts: Sequence[str],
    length: int,
    rngs: Sequence[np.random.Generator],
    *,
    init: Literal["report", "random"] = "report",
    drop_blocked: bool = True,
    fixed_length: bool = False,
    least: int = 4,
    free: int | None = None,
) -> Start:
    """What to begin from: the report's words, or random favoured ones.

    With ``free`` the report's words stay as they are and that many words, random at first, follow for the film to
    choose; without, every word may move.

    With ``drop_blocked`` a blocked word leaves no trace; without, its embedding is projected to its nearest allowed
    neighbour, which is a function of the word (the paper's reading). A report that is too short is filled up, unless
    nothing will move: a finding drawn by lot must not stand in a prompt.
    """
    favoured = vocabulary.favoured.nonzero()[:, 0].tolist()
    rows, cut, kept = [], [], []
    room = length if free is None else max(0, length - free)
    for text, rng in zip(texts, rngs, strict=True):
        ids = [] if init == "random" else vocabulary.encode(text)
        if drop_blocked:
            ids = [index for index in ids if not vocabulary.blocked[index]]
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
    adam = _Adam(rate)
    count = len(ids)
    moving = mask if fixed is None else mask & ~fixed
    best = Prompts(ids, mask, rows.clone(), torch.full((count,), -2.0))

    def consider(chosen: Tensor, scores: Tensor) -> None:
        better = scores > best.scores
        best.ids = torch.where(better[:, None], chosen, best.ids)
        best.rows = torch.where(better[:, None, None], rows, best.rows)
        best.scores = torch.where(better, scores, best.scores)

    def projected(at: Tensor, draws: Tensor | None = None) -> Tensor:
        """Words for the places that move; looking up the others in the whole table would be most of the work."""
        chosen = ids.clone()
        chosen[moving] = projector.project(at[moving], None if draws is None else draws[moving])
        return chosen

    for _ in range(steps):
        chosen = projected(rows) if straight_through else None
        point = (rows if chosen is None else table[chosen]).detach().requires_grad_()
        scores = (frame.embed(point) * films).sum(1)
        (slope,) = torch.autograd.grad((1 - scores).sum(), point)
        if chosen is not None:
            consider(chosen, scores.detach())
            best.trace.append(float(best.scores.mean()))
        else:
            best.trace.append(float(scores.detach().mean()))
        rows = adam.step(rows, slope * moving[..., None])
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


class _Adam:
    """Adam (arXiv 1412.6980) on one tensor; torch's own keeps a graph of state we do not need."""

    def __init__(self, rate: float, decay: tuple[float, float] = (0.9, 0.999)) -> None:
        self.rate, self.decay, self.count = rate, decay, 0
        self.mean: Tensor | float = 0.0
        self.square: Tensor | float = 0.0

    def step(self, rows: Tensor, slope: Tensor) -> Tensor:
        first, second = self.decay
        self.count += 1
        self.mean = first * self.mean + (1 - first) * slope
        self.square = second * self.square + (1 - second) * slope**2
        mean = self.mean / (1 - first**self.count)
        square = self.square / (1 - second**self.count)
        return rows - self.rate * mean / (square.sqrt() + 1e-8)


class Guard:
    """The last look at a prompt, as text: what token lists cannot see (re-assembled words, phrases, numbers)."""

    def __init__(self, vocabulary: Vocabulary, find: Callable[[str], Sequence[Any]], tries: int = 5) -> None:
        self.vocabulary = vocabulary
        self.find = find  # spans of PHI in a text
        self.tries = tries

    def faults(self, ids: Sequence[int]) -> set[int]:
        """Places of tokens that must not stand: in a span of the detector, or part of a word that is not allowed."""
        text, spans = self.vocabulary.spell(ids)
        bad = set()
        for found in self.find(text):
            bad |= {place for place, (start, end) in enumerate(spans) if start < found.end and end > found.start}
        start = 0
        for word in text.split(" "):
            end = start + len(word)
            if word and not self.vocabulary.words.allowed(word):
                bad |= {place for place, (left, right) in enumerate(spans) if left < end and right > start}
            start = end + 1
        return bad

    def clean(self, ids: Sequence[int], again: Callable[[int, set[int]], int] | None = None) -> tuple[list[int], int]:
        """The prompt without faults, and how many tokens were dropped.

        ``again(place, taken)`` gives another token for a place, avoiding those tried; after ``tries`` rounds, or
        without it, what still offends is dropped. Dropping can bring two words together, so it is checked again.
        """
        ids = list(ids)
        places = list(range(len(ids)))
        taken: dict[int, set[int]] = {}
        for _ in range(self.tries if again else 0):
            bad = self.faults(ids)
            if not bad:
                return ids, 0
            for place in bad:
                tried = taken.setdefault(places[place], set())
                tried.add(ids[place])
                assert again is not None
                ids[place] = again(places[place], tried)
        dropped = 0
        while bad := self.faults(ids):
            dropped += len(bad)
            ids = [index for place, index in enumerate(ids) if place not in bad]
        return ids, dropped
