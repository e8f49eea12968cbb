"""STEPS (CVPR 2025): per position the most promising tokens, and a tensor-train model of which go together.

The model is fitted to the best of its own samples (PROTES, arXiv 2301.12162). A baseline of UPDP on the same film
target and token lists. It takes one study at a time, as published.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.methods.updp.alignment import Prompts
from updp.methods.updp.tokens import Target


def tensor_train(
    target: Target,
    ids: Tensor,
    steps: int,
    generator: torch.Generator,
    trials: int = 1000,
    *,
    candidates: int = 64,
    carried: int = 8,
    rank: int = 10,
    rounds: int = 10,
    elite: int = 10,
    rate: float = 0.05,
    patience: int = 30,
) -> Prompts:
    """One study's prompt (ids L) by tensor-train search; ``steps`` outer iterations, each scores ``trials``."""
    draws = max(1, trials // rounds)
    length, best = len(ids), ids.clone()
    best_score = float(target.scores(best[None])[0])
    kept: Tensor | None = None
    model: TensorTrain | None = None
    trace, idle = [], 0
    for _ in range(steps):
        fresh = target.candidates(best, candidates)
        pool = fresh if kept is None else torch.cat([fresh, kept], 1)
        before, model = model, TensorTrain(length, pool.shape[1], rank, generator)
        if before is not None and kept is not None:
            model.inherit(before, carried)
        optimiser = torch.optim.Adam(model.parameters(), lr=rate)
        changed = False
        for _ in range(rounds):
            chosen = model.sample(draws, generator)
            tried = pool.gather(1, chosen.T).T
            scores = target.scores(tried)
            top = scores.topk(min(elite, draws)).indices
            if float(scores[top[0]]) > best_score:
                best, best_score, changed = tried[top[0]].clone(), float(scores[top[0]]), True
            optimiser.zero_grad()
            torch.autograd.backward(-model.log_likelihood(chosen[top]).mean())
            optimiser.step()
        with torch.no_grad():
            likely = model.marginals().topk(carried, dim=1).indices
            model.order = likely
            kept = pool.gather(1, likely)
        trace.append(best_score)
        idle = 0 if changed else idle + 1
        if idle >= patience:
            break
    return target.prompts(best, best_score, trace)


class TensorTrain(nn.Module):
    """A distribution over tuples of ``length`` choices among ``modes`` each: non-negative cores chained by ``rank``."""

    def __init__(self, length: int, modes: int, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        ranks = [1, *[rank] * (length - 1), 1]
        self.cores = nn.ParameterList(
            torch.rand(ranks[k], modes, ranks[k + 1], generator=generator) for k in range(length)
        )
        self.order: Tensor | None = None  # length×carried: choices worth keeping

    def positive(self) -> list[Tensor]:
        return [functional.softplus(core) for core in self.cores]

    @staticmethod
    def _rights(cores: list[Tensor]) -> list[Tensor]:
        """For each place, the weight of everything behind it, scaled against under- and overflow."""
        rights = [torch.ones(1)]
        for core in reversed(cores[1:]):
            vector = core.sum(1) @ rights[0]
            rights.insert(0, vector / vector.sum())
        return rights

    def _conditionals(self, cores: list[Tensor], left: Tensor, place: int, right: Tensor) -> Tensor:
        weights = torch.einsum("ka,anb,b->kn", left, cores[place], right)
        return weights / weights.sum(1, keepdim=True)

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """``count`` tuples, place by place."""
        cores = self.positive()
        rights = self._rights(cores)
        left, chosen = torch.ones(count, 1), []
        for place, core in enumerate(cores):
            share = self._conditionals(cores, left, place, rights[place])
            choice = torch.multinomial(share, 1, generator=generator)[:, 0]
            chosen.append(choice)
            left = torch.einsum("ka,akb->kb", left, core[:, choice])
            left = left / left.sum(1, keepdim=True)
        return torch.stack(chosen, 1)

    def log_likelihood(self, chosen: Tensor) -> Tensor:
        """Log probability of tuples, K×length; differentiable."""
        cores = self.positive()
        rights = self._rights(cores)
        left, total = torch.ones(len(chosen), 1), torch.zeros(len(chosen))
        for place, core in enumerate(cores):
            share = self._conditionals(cores, left, place, rights[place])
            total = total + share.gather(1, chosen[:, place : place + 1])[:, 0].log()
            left = torch.einsum("ka,akb->kb", left, core[:, chosen[:, place]])
            left = left / left.sum(1, keepdim=True)
        return total

    def marginals(self) -> Tensor:
        """Probability of each choice at each place, length×modes."""
        cores = self.positive()
        rights = self._rights(cores)
        left, out = torch.ones(1, 1), []
        for place, core in enumerate(cores):
            out.append(self._conditionals(cores, left, place, rights[place])[0])
            left = left @ core.sum(1)
            left = left / left.sum()
        return torch.stack(out)

    @torch.no_grad()
    def inherit(self, before: TensorTrain, carried: int) -> None:
        """Take over the cores of the choices that are kept; they come after the new ones."""
        if before.order is None:
            return
        for place, (mine, old) in enumerate(zip(self.cores, before.cores, strict=True)):
            mine[:, -carried:] = old[:, before.order[place]]
