"""`updp bench ablation`: what each part of UPDP's prompt search adds, on patients outside the training set.

The paper's Table 3 (initialisation), Figure 5 (prompt length) and Figure 4 (iterations), and what it leaves open:
temperature and K, projecting at every step or once. The score is the cosine of prompt and film times 100. The optimised
vlm scores its own result, so a second one (``judge``, never optimised against) may be given to score it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from updp.bench.prompts import PromptBench, PromptOptions
from updp.bench.tables import panels, plot_intervals, save
from updp.core.markdown import table_lines
from updp.evaluation.intervals import Interval

#: Published image-text scores (BiomedCLIP, average [min, max]) of the paper's Table 3, for a column of their own.
PUBLISHED = {
    "random": "32.48 [23.77, 40.12]",
    "random + UPDP": "37.32 [25.48, 46.12]",
    "report": "39.12 [28.16, 46.53]",
    "report + UPDP": "41.10 [31.44, 47.19]",
}
#: The four rows: the first prompt alone, and after the search.
INITIALISATIONS: dict[str, dict[str, Any]] = {
    "random": {"init": "random", "steps": 0},
    "random + UPDP": {"init": "random"},
    "report": {"init": "report", "steps": 0},
    "report + UPDP": {"init": "report"},
}
LENGTHS = (2, 4, 8, 12, 16, 24, 32, 48)
STEPS = (0, 5, 10, 20, 40, 80, 160)
TEMPERATURES = (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
TOP_K = (1, 3, 10, 50)


@dataclass(frozen=True)
class Row:
    """One setting: mean, least and greatest score of its prompts, and the judge's mean."""

    table: str
    setting: str
    score: float
    low: float
    high: float
    judge: float | None
    interval: float  # half width of the 95 % interval of the mean
    films: int


@dataclass(frozen=True)
class Gain:
    """What optimisation adds to the scores of the same films, with its interval over resampled patients."""

    start: str
    score: Interval
    judge: Interval | None


def bench_ablation(sources: Sequence[Path], out: Path, **options: Unpack[PromptOptions]) -> list[Row]:
    """Run every ablation, write ``ablation.json``, ``ablation.md`` and pictures to ``out``."""
    bench = _Bench(sources, **options)
    rows: list[Row] = []

    def add(table: str, setting: str, **chosen: Any) -> None:
        row = bench.row(table, setting, chosen)
        rows.append(row)
        bench.say(f"{table:>16}  {setting:<28} {row.score:6.2f} [{row.low:.2f}, {row.high:.2f}] ± {row.interval:.2f}")

    for name, chosen in INITIALISATIONS.items():
        add("initialisation", name, **chosen)
    for length in LENGTHS:
        add("length", str(length), length=length)
    for steps in STEPS:
        add("iterations", str(steps), steps=steps)
    for temperature in TEMPERATURES:
        for top_k in TOP_K:
            if temperature > 0 or top_k == TOP_K[0]:
                add("temperature and K", f"{temperature} / {top_k}", temperature=temperature, top_k=top_k)
    add("projection", "every step (straight-through)")
    add("projection", "once at the end (paper)", straight_through=False)
    add("projection", "literal Algorithm 1", mode="literal")
    gains = [bench.gain(start) for start in ("random", "report")]
    written = {"rows": [asdict(row) for row in rows], "gains": [asdict(gain) for gain in gains]}
    save(out, "ablation", bench.about, markdown(rows, gains), **written)
    draw(rows, out)
    return rows


class _Bench(PromptBench):
    def __init__(self, sources: Sequence[Path], **options: Unpack[PromptOptions]) -> None:
        super().__init__(sources, **options)
        self.kept: dict[str, tuple[Any, Any]] = {}  # scores of the initialisation table, film by film

    def row(self, table: str, setting: str, options: dict[str, Any]) -> Row:
        written = self.write(**({"temperature": 0.0} | options if "mode" not in options else options))[1]
        scores, marked = 100 * np.array(written.scores), self.marks(written.texts)
        if table == "initialisation":
            self.kept[setting] = (scores, marked)
        half = 1.96 * float(scores.std(ddof=1)) / len(scores) ** 0.5 if len(scores) > 1 else float("nan")
        mean = None if marked is None else float(marked.mean())
        return Row(
            table, setting, float(scores.mean()), float(scores.min()), float(scores.max()), mean, half, len(scores)
        )

    def gain(self, start: str) -> Gain:
        (before, judged_before), (after, judged_after) = self.kept[start], self.kept[f"{start} + UPDP"]
        judge = None if judged_before is None else self.over(judged_after - judged_before)
        return Gain(start, self.over(after - before), judge)


def markdown(rows: Sequence[Row], gains: Sequence[Gain] = ()) -> str:
    """The tables, with published figures where there are any."""
    out = []
    if gains:
        lines = [(gain.start, _signed(gain.score), _signed(gain.judge)) for gain in gains]
        out += ["### What optimisation adds, same films", ""]
        out += table_lines(["start", "optimised vlm", "second vlm"], lines)
    for table in dict.fromkeys(row.table for row in rows):
        part = [row for row in rows if row.table == table]
        judged = any(row.judge is not None for row in part)
        published = table == "initialisation"
        heads = ["setting", "score, mean ± 95 %", "min, max"] + ["second vlm"] * judged + ["published"] * published
        cells = [
            [row.setting, f"{row.score:.2f} ± {row.interval:.2f}", f"{row.low:.2f}, {row.high:.2f}"]
            + ["" if row.judge is None else f"{row.judge:.2f}"] * judged
            + [PUBLISHED.get(row.setting, "")] * published
            for row in part
        ]
        out += [f"### {table[0].upper()}{table[1:]}", "", *table_lines(heads, cells)]
    return "\n".join(out)


def _signed(interval: Interval | None) -> str:
    if interval is None:
        return "not given"
    return f"{interval.value:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def draw(rows: Sequence[Row], out: Path) -> None:
    """Length and iterations as curves."""
    for table, label in (("length", "prompt length, tokens"), ("iterations", "optimisation steps")):
        part = [row for row in rows if row.table == table]
        figure, (axes,) = panels(5, 3.4)
        scores = [Interval(row.score, row.score - row.interval, row.score + row.interval) for row in part]
        plot_intervals(axes, [float(row.setting) for row in part], scores, "optimised vlm")
        judged = [(float(row.setting), row.judge) for row in part if row.judge is not None]
        if judged:
            axes.plot(*zip(*judged, strict=True), marker="s", label="second vlm")
            axes.legend(frameon=False)
        axes.set_xlabel(label)
        axes.set_ylabel("image–text score × 100")
        figure.savefig(out / f"ablation-{table}.png", dpi=150)
