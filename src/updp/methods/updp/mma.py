"""MMA-Diffusion, text side (arXiv 2311.17516): greedy coordinate search led by the one-hot gradient.

A baseline of UPDP on the same film targets, token lists and free words. Published settings: 500 to 1 000 iterations of
512 single-token substitutions, 256 candidates per place; a trial that does not come back at the same length when it is
written out and read again is left out, which here falls on the candidates (``Vocabulary.stable``).
"""

from __future__ import annotations

import torch

from updp.methods.updp.alignment import Prompts
from updp.methods.updp.tokens import Search, Targets


def greedy_coordinate(
    targets: Targets, search: Search, steps: int, trials: int = 512, candidates: int = 256
) -> Prompts:
    """Prompts of all films by greedy coordinate search: each step tries ``trials`` single substitutions of each film
    among each place's ``candidates`` most promising tokens and moves to the best, even where that is a step back."""
    current, mask = search.ids.clone(), search.mask
    everyone = torch.arange(len(current))
    best, best_scores = current.clone(), targets.scores(current, mask, everyone)
    free = [search.places(film) for film in everyone.tolist()]
    searched = [film for film in everyone.tolist() if len(free[film])]
    trace: list[float] = []
    for _ in range(steps if searched else 0):
        pool = torch.split(
            targets.candidates(current, mask, search.moving, candidates), [len(places) for places in free]
        )
        tried = current[searched].repeat_interleave(trials, 0)
        for n, film in enumerate(searched):
            which = torch.arange(trials) * len(free[film]) // trials  # spread evenly over the places
            picks = torch.randint(pool[film].shape[1], (trials,), generator=search.generators[film])
            tried[n * trials + torch.arange(trials), free[film][which]] = pool[film][which, picks]
        owners = torch.tensor(searched).repeat_interleave(trials)
        scores = targets.scores(tried, mask[owners], owners).reshape(len(searched), trials)
        found, winner = scores.max(1)
        current[searched] = tried.reshape(len(searched), trials, -1)[torch.arange(len(searched)), winner]
        better = found > best_scores[searched]
        rows = torch.tensor(searched)[better]
        best[rows], best_scores[rows] = current[rows], found[better]
        trace.append(float(best_scores.mean()))
    return targets.prompts(best, mask, best_scores, trace)
