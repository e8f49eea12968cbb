"""Prompt adherence (`listening`): do generated films show what their prompts ask for, by a classifier of another pack.

For each finding, films of the same seeds are generated with it and without it, and the judge separates them (AUC). For
side, the same film is generated with right and with left, and the brightness between the two must differ on that side.
For severity, it is generated small and large, and the judge's score must grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from updp.domains.chest.words import compose, phrases
from updp.training.config import BadConfig
from updp.training.figures import auc, aucs
from updp.training.phantoms import share
from updp.training.zones import brightness

if TYPE_CHECKING:
    from updp.models.roles import ClassifierRole

#: Findings a side and a size can be asked of, most plainly seen first.
SIDED = ("Effusion", "Consolidation", "Pneumonia", "Infiltration", "Atelectasis", "Mass")
LEAST = 30  # real films with and without a finding, for it to count in the mean


def asked(finding: str, size: str, side: str) -> str:
    """One sentence that asks for a finding of this size on this side."""
    said = phrases()
    kind = "countable" if finding in said["countable"] else "mass"
    noun = said[kind][finding][0]
    return f"{said[f'{kind}_sizes'][size][0].capitalize()} {side} {noun}."


def _scores(judge: ClassifierRole, films: Tensor) -> NDArray[np.float32]:
    with torch.no_grad():
        parts = [judge.probabilities(films[i : i + 32]).numpy() for i in range(0, len(films), 32)]
    joined: NDArray[np.float32] = np.concatenate(parts)
    return joined


def _auc_interval(
    with_it: NDArray[np.float32], without: NDArray[np.float32], rng: np.random.Generator, draws: int = 500
) -> tuple[float, float, float]:
    """AUC of two scores per seed, and its 95 % interval over resampled seeds."""

    def value(rows: NDArray[np.int64]) -> float:
        truth = np.arange(2 * len(rows)) < len(rows)
        return auc(truth, np.concatenate([with_it[rows], without[rows]]))

    count = len(with_it)
    drawn = [value(rng.integers(count, size=count)) for _ in range(draws)]
    return value(np.arange(count)), float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))


def listening_figures(
    generator: Any,
    judge: ClassifierRole,
    findings: Sequence[str],
    rng: np.random.Generator,
    pairs: int = 40,
    real: tuple[Tensor, NDArray[np.float32]] | None = None,
    **options: Any,
) -> dict[str, float]:
    """`findings` names the columns of the labels in `real` (films and labels); the judge must know them by name."""
    if pairs < 2:
        raise BadConfig(f"prompt adherence needs at least 2 pairs, not {pairs}")
    known = [name for name in findings if name in judge.labels]
    if not known:
        raise BadConfig(f"the judge knows none of {', '.join(findings)}")
    seeds = [int(s) for s in rng.integers(2**31, size=pairs)]

    def draw(prompts: list[str]) -> Tensor:
        films: Tensor = generator.generate(prompts, seeds, **options)
        return films

    figures: dict[str, float] = {"pairs": float(pairs)}
    without = _scores(judge, draw([compose((), "", rng) for _ in seeds]))
    reference: dict[str, float] = {}
    if real is not None:
        columns = [list(judge.labels).index(name) for name in known]
        chosen = real[1][:, [list(findings).index(name) for name in known]]
        each = aucs(chosen, _scores(judge, real[0])[:, columns], LEAST)
        reference = {name: float(value) for name, value in zip(known, each, strict=True) if value == value}
    by_finding = {}
    for name in known:
        column = list(judge.labels).index(name)
        with_it = _scores(judge, draw([compose((name,), "", rng) for _ in seeds]))
        value, low, high = _auc_interval(with_it[:, column], without[:, column], rng)
        by_finding[name] = value
        figures |= {f"auc {name}": value, f"auc {name} low": low, f"auc {name} high": high}
        if name in reference:
            figures[f"auc {name} on real films"] = reference[name]
    counted = [name for name in known if real is None or name in reference]
    if counted:
        figures["mean auc"] = float(np.mean([by_finding[name] for name in counted]))
        figures["findings counted"] = float(len(counted))
    if reference:
        figures["mean auc on real films"] = float(np.mean(list(reference.values())))
        figures["share of real films"] = figures["mean auc"] / figures["mean auc on real films"]
    right_side = grows = tried = 0
    for name in (name for name in SIDED if name in known):
        right, left = draw([asked(name, "large", "right")] * pairs), draw([asked(name, "large", "left")] * pairs)
        # Zones are measured on 8-bit films, right before left: asked right, the right must be the brighter by more.
        zones = [brightness((films[:, 0] * 255).round().byte().numpy()) for films in (right, left)]
        apart = [(z[:, :, 0] - z[:, :, 1]).mean(1) for z in zones]
        hits = int((apart[0] > apart[1]).sum())
        figures |= share(hits, pairs, f"side {name}")
        column = list(judge.labels).index(name)
        small = _scores(judge, draw([asked(name, "small", "right")] * pairs))[:, column]
        more = int((_scores(judge, right)[:, column] > small).sum())
        figures |= share(more, pairs, f"severity {name}")
        right_side, grows, tried = right_side + hits, grows + more, tried + pairs
    figures |= share(right_side, tried, "side") | share(grows, tried, "severity")
    return figures
