"""MMA-Diffusion, text side (arXiv 2311.17516): greedy coordinate search led by the one-hot gradient.

A baseline of UPDP on the same film target and token lists. It takes one study at a time, as published.
"""

from __future__ import annotations

import torch
from torch import Tensor

from updp.methods.updp.alignment import Prompts
from updp.methods.updp.tokens import Target


def greedy_coordinate(
    target: Target, ids: Tensor, steps: int, generator: torch.Generator, trials: int = 512, candidates: int = 256
) -> Prompts:
    """One study's prompt (ids L) by greedy coordinate search: each step tries ``trials`` single substitutions among
    each place's ``candidates`` most promising tokens and moves to the best, even where that is a step back."""
    length = len(ids)
    current = ids.clone()
    best, best_score, trace = current.clone(), -2.0, []
    for _ in range(steps):
        pool = target.candidates(current, candidates)
        tried = current.repeat(trials, 1)
        places = torch.arange(trials) * length // trials  # spread evenly over the prompt
        picks = torch.randint(pool.shape[1], (trials,), generator=generator)
        tried[torch.arange(trials), places] = pool[places, picks]
        scores = target.scores(tried)
        winner = int(scores.argmax())
        current = tried[winner].clone()
        if float(scores[winner]) > best_score:
            best, best_score = current.clone(), float(scores[winner])
        trace.append(best_score)
    return target.prompts(best, best_score, trace)
