"""MMA-Diffusion, text side (arXiv 2311.17516): greedy coordinate search led by the one-hot gradient.

A baseline of UPDP on the same film target and token lists. It takes one study at a time, as published.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from updp.methods.updp.alignment import Prompts
from updp.methods.updp.blacklist import Vocabulary
from updp.methods.updp.tokens import as_prompts, one_hot_gradient, score_prompts


def greedy_coordinate(
    vlm: Any,
    vocabulary: Vocabulary,
    ids: Tensor,
    mask: Tensor,
    film: Tensor,
    *,
    steps: int,
    generator: torch.Generator,
    candidates: int = 256,
    trials: int = 512,
) -> Prompts:
    """One study's prompt (1×L ids) by greedy coordinate search: each step tries ``trials`` single substitutions among
    each place's ``candidates`` most promising tokens and moves to the best, even where that is a step back."""
    length = int(mask.sum())
    current = ids[0, :length].clone()
    best, best_score, trace = current.clone(), -2.0, []
    for _ in range(steps):
        gradient = one_hot_gradient(vlm, vocabulary, current[None], film)[0]
        pool = gradient.topk(min(candidates, int((~vocabulary.blocked).sum())), largest=False).indices
        tried = current.repeat(trials, 1)
        places = torch.arange(trials) * length // trials  # spread evenly over the prompt
        picks = torch.randint(pool.shape[1], (trials,), generator=generator)
        tried[torch.arange(trials), places] = pool[places, picks]
        scores = score_prompts(vlm, vocabulary, tried, film)
        winner = int(scores.argmax())
        current = tried[winner].clone()
        if float(scores[winner]) > best_score:
            best, best_score = current.clone(), float(scores[winner])
        trace.append(best_score)
    return as_prompts(vlm, best, best_score, trace)
