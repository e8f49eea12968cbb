"""`updp bench epsilon`: what a privacy budget buys in mode `ldp` of UPDP, from epsilon 1 to 100.

For validation films, words are drawn at each budget by the exponential mechanism, and the prompts are scored against
their films by the vlm and by a second one that is never drawn by. Beside them stand the two ends: words drawn without
looking (epsilon 0) and the best words (no privacy). ``gain kept`` is how far a budget comes from the one to the other.
The films that such prompts generate are measured by `updp bench frontier`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.bench.ablation import second_vlm, validation_studies
from updp.core.global_state import limited
from updp.core.storage import write_bytes
from updp.domains.chest import PACK
from updp.evaluation.intervals import Interval, bootstrap
from updp.methods.updp.method import UPDP
from updp.training.corpus import NoUsableFilm

if TYPE_CHECKING:
    from torch import Tensor

    from updp.core.record import Study

Say = Callable[[str], None]
#: Budgets of a study.
EPSILONS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
#: Stand for the two ends: too small and too large for the film to count, or for chance to.
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
    kept: Interval  # gain over blind words, as a share of that of the best words
    films: int


def bench_epsilon(
    sources: Sequence[Path],
    out: Path,
    *,
    pack: str = PACK,
    judge: str | None = None,
    films: int = 64,
    seed: int = 0,
    say: Say = print,
) -> list[Row]:
    """Measure every budget, write ``epsilon.json``, ``epsilon.md`` and a picture to ``out``."""
    import torch

    second = second_vlm(judge)
    studies = list(validation_studies(sources, films))
    if not studies:
        raise NoUsableFilm("the sources hold no validation film that can be read")
    images = torch.from_numpy(np.stack([study.pixels for study in studies if study.pixels is not None]))[:, None]
    bench = _Bench(pack, studies, images, second, seed)
    rows = []
    for variant in VARIANTS:
        for row in bench.rows(variant):
            rows.append(row)
            say(f"{row.variant:<42} epsilon {row.epsilon:>5g}  score {row.score}  gain kept {row.kept}")
    out.mkdir(parents=True, exist_ok=True)
    write_bytes(out / "epsilon.json", (json.dumps([asdict(row) for row in rows], indent=2) + "\n").encode())
    write_bytes(out / "epsilon.md", markdown(rows).encode())
    draw(rows, out / "epsilon.png")
    return rows


class _Bench:
    def __init__(self, pack: str, studies: list[Study], images: Tensor, judge: Any, seed: int) -> None:
        import torch

        self.pack, self.studies, self.images, self.judge, self.seed = pack, studies, images, judge, seed
        self.loaded = UPDP(pack=pack).pack
        with torch.no_grad():
            self.targets = self.loaded.vlm.embed_images(images)
            self.judged = judge.embed_images(images) if judge else None

    def rows(self, variant: dict[str, Any]) -> list[Row]:
        import torch

        patients = [study.patient_id for study in self.studies]
        blind, certain = (self._written(variant, epsilon) for epsilon in (BLIND, CERTAIN))
        out = []
        for epsilon in EPSILONS:
            method, texts, scores = self._written(variant, epsilon)
            rng = np.random.default_rng(self.seed)
            marked = None
            if self.judge is not None and self.judged is not None:
                with torch.no_grad():
                    marked = 100 * (self.judge.embed_texts(texts) * self.judged).sum(1).numpy()
            told = method.options.spends(0.0, method._room)
            out.append(
                Row(
                    ", ".join(f"{name} {value}" for name, value in variant.items()),
                    epsilon,
                    told["delta"],
                    told["epsilon_word"],
                    bootstrap(np.mean, patients, scores, rng=rng, fewest=2),
                    None if marked is None else bootstrap(np.mean, patients, marked, rng=rng, fewest=2),
                    bootstrap(_kept, patients, blind[2], scores, certain[2], rng=rng, fewest=2),
                    len(scores),
                )
            )
        return out

    def _written(self, variant: dict[str, Any], epsilon: float) -> tuple[UPDP, list[str], NDArray[np.float64]]:
        method = UPDP(pack=self.pack, mode="ldp", epsilon=epsilon, **variant)
        method.__dict__["pack"] = self.loaded
        streams = [np.random.default_rng([self.seed, n]) for n in range(len(self.studies))]
        with limited(1):  # as in a release
            written = method.write(self.studies, self.images, 0.0, streams, targets=self.targets)
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
    out = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [row.variant, f"{row.epsilon:g}", f"{row.delta:g}", f"{row.epsilon_word:.2f}", _cell(row.score)]
        cells += [_cell(row.judge)] * judged + [_cell(row.kept)]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def _cell(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Gain kept against epsilon, one curve per variant."""
    from matplotlib.figure import Figure  # pyplot would choose a backend for the whole process

    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes = figure.subplots()
    for variant in dict.fromkeys(row.variant for row in rows):
        part = [row for row in rows if row.variant == variant]
        values = [row.kept.value for row in part]
        spread = [[v - row.kept.low for v, row in zip(values, part, strict=True)],
                  [row.kept.high - v for v, row in zip(values, part, strict=True)]]  # fmt: skip
        axes.errorbar(
            [row.epsilon for row in part], values, np.maximum(spread, 0), marker="o", capsize=3, label=variant
        )
    axes.set_xscale("log")
    axes.set_xlabel("epsilon of a study")
    axes.set_ylabel("gain kept")
    axes.legend(frameon=False, fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
