"""Selective Privacy Guidance of PrivDiff-Net: noise estimates under several conditions, away from the patient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

#: The attributes the network can be conditioned on, in the order of its tokens.
ATTRIBUTES = ("identity", "age", "sex", "diagnosis")
#: The branches of the guidance; one pass of the network serves all four.
BRANCHES: dict[str, tuple[str, ...]] = {
    "none": (),
    "diagnosis": ("diagnosis",),
    "identity": ("identity",),
    "demographics": ("age", "sex"),
}


def branches(count: int, names: Sequence[str]) -> Tensor:
    """The condition mask of these branches, one after another, for a batch of ``count``."""
    rows = [[part in BRANCHES[name] for part in ATTRIBUTES] for name in names]
    return torch.tensor(rows).repeat_interleave(count, 0)


def coefficients(w_diagnosis: float, w_sensitive: Sequence[float]) -> list[float]:
    """Weights of e(none), e(diagnosis) and each e(s) in e_p; they sum to one."""
    sensitive = [-abs(w) for w in w_sensitive]
    return [1 - w_diagnosis - sum(sensitive), w_diagnosis, *sensitive]


def guided(parts: Sequence[Tensor], w_diagnosis: float, w_sensitive: Sequence[float], rescale: bool = True) -> Tensor:
    """e_p of e(none), e(diagnosis), e(s)…; with ``rescale`` no larger, film by film, than e(diagnosis)."""
    weights = coefficients(w_diagnosis, w_sensitive)
    if len(parts) != len(weights):
        raise ValueError(f"{len(parts)} branches but {len(weights)} weights")
    out = torch.stack([w * part for w, part in zip(weights, parts, strict=True)]).sum(0)
    if not rescale:
        return out
    axes = tuple(range(1, out.ndim))
    size = parts[1].square().sum(axes, keepdim=True).sqrt()
    return out * (size / out.square().sum(axes, keepdim=True).sqrt().clamp_min(1e-12)).clamp_max(1.0)
