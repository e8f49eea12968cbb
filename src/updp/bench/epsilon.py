"""`updp bench epsilon`: how near prompts of mode `ldp` come to their films, by privacy budget from 1 to 100.

For validation films, words are drawn at each budget by the exponential mechanism, and the prompts are scored against
their films by the vlm and by a second one, by which no word is drawn. Beside them stand the two ends: words drawn
without looking (epsilon 0) and the best words (no privacy). ``gain kept`` is the place of a budget between the two: 0
at the first, 1 at the second. The films that such prompts generate are measured by `updp bench frontier`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from updp.bench.prompts import PromptBench, PromptOptions
from updp.bench.tables import cell, panels, plot_intervals, save
from updp.core.markdown import table_lines
from updp.evaluation.intervals import Interval
from updp.methods.updp.method import UPDP

#: Budgets of a study.
EPSILONS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
#: The two ends: so small that the film does not count, and so large that chance does not count.
BLIND, CERTAIN = 1e-6, 2000.0
#: Words drawn, set they are drawn from, and how a word is scored.
VARIANTS: tuple[dict[str, Any], ...] = (
    {"words": 1, "vocabulary": "findings", "utility": "word"},
    {"words": 4, "vocabulary": "findings", "utility": "word"},
    {"words": 4, "vocabulary": "pathology", "utility": "word"},
    {"words": 4, "vocabulary": "whitelist", "utility": "row"},
    {"words": "all", "vocabulary": "whitelist", "utility": "row"},
)


@dataclass(frozen=True)
class Row:
    """A budget with one variant: scores times 100, intervals over patients."""

    variant: str
    epsilon: float  # of a study
    delta: float
    epsilon_word: float
    score: Interval
    judge: Interval | None
    kept: Interval  # gain over words drawn without the film, as a share of that of the best words
    films: int


def bench_epsilon(sources: Sequence[Path], out: Path, **options: Unpack[PromptOptions]) -> list[Row]:
    """Measure every budget, write ``epsilon.json``, ``epsilon.md`` and a picture to ``out``."""
    bench = _Bench(sources, **options)
    rows = []
    for variant in VARIANTS:
        for row in bench.rows(variant):
            rows.append(row)
            bench.say(f"{row.variant:<42} epsilon {row.epsilon:>5g}  score {row.score}  gain kept {row.kept}")
    save(out, "epsilon", bench.about, markdown(rows), rows=[asdict(row) for row in rows])
    draw(rows, out / "epsilon.png")
    return rows


class _Bench(PromptBench):
    def rows(self, variant: dict[str, Any]) -> list[Row]:
        blind, certain = (self._drawn(variant, epsilon)[2] for epsilon in (BLIND, CERTAIN))
        out = []
        for epsilon in EPSILONS:
            method, texts, scores = self._drawn(variant, epsilon)
            marked = self.marks(texts)
            spent = method.options.spends(0.0, method._room)
            out.append(
                Row(
                    ", ".join(f"{name} {value}" for name, value in variant.items()),
                    epsilon,
                    spent["delta"],
                    spent["epsilon_word"],
                    self.over(scores),
                    None if marked is None else self.over(marked),
                    self.over(blind, scores, certain, statistic=_kept),
                    len(scores),
                )
            )
        return out

    def _drawn(self, variant: dict[str, Any], epsilon: float) -> tuple[UPDP, list[str], NDArray[np.float64]]:
        method, written = self.write(mode="ldp", epsilon=epsilon, **variant)
        return method, written.texts, 100 * np.array(written.scores)


def _kept(blind: NDArray[np.float64], scores: NDArray[np.float64], certain: NDArray[np.float64]) -> float:
    whole = float(np.mean(certain) - np.mean(blind))
    return float(np.mean(scores) - np.mean(blind)) / whole if abs(whole) > 1e-9 else float("nan")


def markdown(rows: Sequence[Row]) -> str:
    """The table: every budget of every variant."""
    judged = any(row.judge is not None for row in rows)
    heads = [
        "words",
        "epsilon",
        "delta",
        "epsilon per word",
        "score × 100",
        *["second vlm × 100"] * judged,
        "gain kept",
    ]
    cells = [
        [row.variant, f"{row.epsilon:g}", f"{row.delta:g}", f"{row.epsilon_word:.2f}", cell(row.score)]
        + [cell(row.judge)] * judged
        + [cell(row.kept)]
        for row in rows
    ]
    return "\n".join(table_lines(heads, cells))


def draw(rows: Sequence[Row], path: Path) -> None:
    """Gain kept against epsilon, one curve per variant."""
    figure, (axes,) = panels(6, 3.8)
    for variant in dict.fromkeys(row.variant for row in rows):
        part = [row for row in rows if row.variant == variant]
        plot_intervals(axes, [row.epsilon for row in part], [row.kept for row in part], variant)
    axes.set_xscale("log")
    axes.set_xlabel("epsilon of a study")
    axes.set_ylabel("gain kept")
    axes.legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=150)
