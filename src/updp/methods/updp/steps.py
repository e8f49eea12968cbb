"""STEPS (CVPR 2025): per position the most promising tokens, and a tensor-train model of which go together.

The model is fitted to the best of its own samples (PROTES, arXiv 2301.12162). A baseline of UPDP on the same film
targets, token lists and free words. Published settings: 100 to 200 iterations of 1 000 evaluations, 64 candidates per
place and 8 carried over, rank 10. Films with equally many free words share one batched model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.methods.updp.alignment import Prompts
from updp.methods.updp.tokens import Search, Targets


def tensor_train(
    targets: Targets, search: Search, steps: int, trials: int = 1000,
    *, candidates: int = 64, carried: int = 8, rank: int = 10, rounds: int = 10, elite: int = 10,
    rate: float = 0.05, patience: int = 30,
) -> Prompts:  # fmt: skip
    """Prompts of all films by tensor-train search; ``steps`` outer iterations, each scores ``trials`` per film. A film
    that does not improve in ``patience`` iterations is done."""
    mask = search.mask
    best = search.ids.clone()
    scores = targets.scores(best, mask, torch.arange(len(best)))
    traces = scores[:, None].repeat(1, steps)
    counts = search.moving.sum(1)
    for free in sorted(set(counts[counts > 0].tolist())):
        members = films = (counts == free).nonzero()[:, 0]
        places = torch.stack([search.places(film) for film in films.tolist()])
        idle = torch.zeros(len(films), dtype=torch.long)
        kept: Tensor | None = None
        before: TensorTrain | None = None
        for step in range(steps):
            moving = torch.zeros_like(mask[films]).scatter(1, places, True)
            fresh = targets_of(targets, films).candidates(best[films], mask[films], moving, candidates)
            pool = fresh.reshape(len(films), free, -1)
            pool = pool if kept is None else torch.cat([pool, kept], 2)
            streams = [search.generators[film] for film in films.tolist()]
            model = TensorTrain(free, pool.shape[2], rank, streams)
            if before is not None:
                model.inherit(before)
            changed = torch.zeros(len(films), dtype=torch.bool)
            optimiser = torch.optim.Adam(model.parameters(), lr=rate)
            draws = max(1, trials // rounds)
            for _ in range(rounds):
                chosen = model.sample(draws, streams)  # films × draws × free
                words = pool[:, None].expand(-1, draws, -1, -1).gather(3, chosen[..., None])[..., 0]
                tried = best[films][:, None].repeat(1, draws, 1).scatter(2, places[:, None].expand_as(words), words)
                owners = films.repeat_interleave(draws)
                found = targets.scores(tried.flatten(0, 1), mask[owners], owners).reshape(len(films), draws)
                top = found.topk(min(elite, draws), dim=1).indices
                leading = found.gather(1, top[:, :1])[:, 0]
                better = leading > scores[films]
                best[films[better]] = tried[better, top[better, 0]]
                scores[films[better]] = leading[better]
                changed |= better
                optimiser.zero_grad()
                shown = chosen.gather(1, top[..., None].expand(-1, -1, free))
                torch.autograd.backward(-model.log_likelihood(shown).mean(1).sum())
                optimiser.step()
            with torch.no_grad():
                model.order = model.marginals().topk(min(carried, pool.shape[2]), dim=2).indices
                kept = pool.gather(2, model.order)
            traces[members, step:] = scores[members, None]
            idle = torch.where(changed, 0, idle + 1)
            going = idle < patience
            if not bool(going.any()):
                break
            films, places, idle, kept = films[going], places[going], idle[going], kept[going]
            before = model.only(going)
    return targets.prompts(best, mask, scores, traces.mean(0).tolist())


def targets_of(targets: Targets, films: Tensor) -> Targets:
    """Some of the films."""
    return Targets(targets.vlm, targets.vocabulary, targets.films[films])


class TensorTrain(nn.Module):
    """Distributions over tuples of ``length`` choices among ``modes`` each, one per stream: non-negative cores chained
    by ``rank``."""

    def __init__(self, length: int, modes: int, rank: int, generators: Sequence[torch.Generator]) -> None:
        super().__init__()
        ranks = [1, *[rank] * (length - 1), 1]
        drawn = [
            [torch.rand(ranks[k], modes, ranks[k + 1], generator=one) for k in range(length)] for one in generators
        ]
        self.cores = nn.ParameterList(torch.stack(core) for core in zip(*drawn, strict=True))
        self.order: Tensor | None = None  # films × length × carried: choices that are kept

    def positive(self) -> list[Tensor]:
        return [functional.softplus(core) for core in self.cores]

    @staticmethod
    def _rights(cores: list[Tensor]) -> list[Tensor]:
        """For each place, the weight of everything behind it, scaled against under- and overflow."""
        rights = [torch.ones(len(cores[0]), 1)]
        for core in reversed(cores[1:]):
            vector = torch.einsum("fab,fb->fa", core.sum(2), rights[0])
            rights.insert(0, vector / vector.sum(1, keepdim=True))
        return rights

    @staticmethod
    def _conditionals(core: Tensor, left: Tensor, right: Tensor) -> Tensor:
        weights = torch.einsum("fka,fanb,fb->fkn", left, core, right)
        return weights / weights.sum(2, keepdim=True)

    @staticmethod
    def _onwards(core: Tensor, left: Tensor, choice: Tensor) -> Tensor:
        films = torch.arange(len(core))[:, None]
        picked = core.transpose(1, 2)[films, choice]  # films × k × a × b
        left = torch.einsum("fka,fkab->fkb", left, picked)
        return left / left.sum(2, keepdim=True)

    @torch.no_grad()
    def sample(self, count: int, generators: Sequence[torch.Generator]) -> Tensor:
        """``count`` tuples of each distribution, place by place: films × count × length."""
        cores = self.positive()
        rights = self._rights(cores)
        draws = torch.stack([torch.rand(len(cores), count, 1, generator=one) for one in generators], 1)
        left, chosen = torch.ones(len(generators), count, 1), []
        for core, right, draw in zip(cores, rights, draws, strict=True):
            below = self._conditionals(core, left, right).cumsum(2)
            choice = (below < draw * below[..., -1:]).sum(2).clamp_max(core.shape[2] - 1)
            chosen.append(choice)
            left = self._onwards(core, left, choice)
        return torch.stack(chosen, 2)

    def log_likelihood(self, chosen: Tensor) -> Tensor:
        """Log probability of tuples, films × K × length; differentiable."""
        cores = self.positive()
        rights = self._rights(cores)
        left, total = torch.ones(*chosen.shape[:2], 1), torch.zeros(chosen.shape[:2])
        for place, (core, right) in enumerate(zip(cores, rights, strict=True)):
            share = self._conditionals(core, left, right)
            total = total + share.gather(2, chosen[..., place, None])[..., 0].log()
            left = self._onwards(core, left, chosen[..., place])
        return total

    def marginals(self) -> Tensor:
        """Probability of each choice at each place, films × length × modes."""
        cores = self.positive()
        rights = self._rights(cores)
        left, out = torch.ones(len(cores[0]), 1, 1), []
        for core, right in zip(cores, rights, strict=True):
            out.append(self._conditionals(core, left, right)[:, 0])
            left = torch.einsum("fka,fab->fkb", left, core.sum(2))
            left = left / left.sum(2, keepdim=True)
        return torch.stack(out, 1)

    def only(self, films: Tensor) -> TensorTrain:
        """The distributions of some films, to inherit from."""
        made = TensorTrain(1, 1, 1, [torch.Generator()])
        made.cores = nn.ParameterList(core.detach()[films] for core in self.cores)
        made.order = None if self.order is None else self.order[films]
        return made

    @torch.no_grad()
    def inherit(self, before: TensorTrain) -> None:
        """Take over the cores of the choices that are kept; they come after the new ones."""
        if before.order is None:
            return
        for place, (mine, old) in enumerate(zip(self.cores, before.cores, strict=True)):
            kept = before.order[:, place][:, None, :, None].expand(-1, old.shape[1], -1, old.shape[3])
            mine[:, :, -kept.shape[2] :] = old.gather(2, kept)
