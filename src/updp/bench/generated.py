"""`updp bench generated`: UPDP's Table 3 and Figures 4 and 5 on generated films, both readings side by side.

Each setting writes prompts for validation films and generates a film from each, with the same noise for all settings.
A generated film is scored against the report of its study by a vlm that was not optimised (``judge``) and by the
optimised one, and compared with the real film by SSIM; the loss of the optimisation stands beside them. SSIM to the
real film also rises with what is left of the patient; the paper takes it as fidelity alone. Every setting has a file of
its own, so an interrupted bench resumes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from updp.bench.ablation import PUBLISHED
from updp.bench.prompts import PromptBench, PromptOptions
from updp.bench.tables import cell, panels, plot_intervals, save
from updp.core.global_state import limited
from updp.core.markdown import table_lines
from updp.core.record import Study
from updp.core.storage import write_bytes
from updp.evaluation.intervals import Interval
from updp.evaluation.probes.utility.image_metrics import ssim
from updp.methods.updp.method import words_of

#: The tables.
STARTING, BY_LENGTH, BY_ITERATION = (
    "initialisation (Table 3)", "prompt length (Figure 5)", "content iterations (Figure 4)",
)  # fmt: skip
#: Prompt lengths of Figure 5, and content iterations of Figure 4.
LENGTHS = (2, 4, 8, 16, 32, 48)
ITERATIONS = (1, 2, 3, 4, 5)
#: The paper as printed, and the default of this package with every token free or with the report's words kept.
READINGS: dict[str, dict[str, Any]] = {
    "as printed": {"mode": "literal", "init": "raw"},
    "default": {},
    "default, every token": {"free": "all"},
}
#: Table 3: the first prompt alone and after the search, as printed; below them what the default makes of each.
STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "random": ("random", {"search": "random"}),
    "random + UPDP, as printed": ("random + UPDP", {"mode": "literal", "init": "random"}),
    "random + UPDP, default": ("random + UPDP", {"init": "random"}),
    "raw report": ("report", {"search": "raw"}),
    "raw report + similarity, no lists": ("", {"search": "similarity"}),
    "raw report + UPDP, as printed": ("report + UPDP", {"mode": "literal", "init": "raw"}),
    "allowed words of the report": ("", {"search": "report"}),
    "allowed words + UPDP, default": ("report + UPDP", {}),
}


@dataclass(frozen=True)
class Row:
    """One setting; scores are cosines of generated film and report times 100, intervals are over patients."""

    table: str
    setting: str
    score: Interval  # by the optimised vlm
    judge: Interval | None
    ssim: Interval
    loss: float | None  # 1 - cosine of prompt and real film, where the prompt was optimised
    films: int


def settings() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every table, setting and its options."""
    for name, (_, options) in STARTS.items():
        yield STARTING, name, options
    for reading, options in READINGS.items():
        for length in LENGTHS:
            yield f"{BY_LENGTH}, {reading}", str(length), {**options, "length": length}
    for reading, options in READINGS.items():
        for count in ITERATIONS:
            yield f"{BY_ITERATION}, {reading}", str(count), {**options, "iterations": count}


def bench_generated(sources: Sequence[Path], out: Path, **options: Unpack[PromptOptions]) -> list[Row]:
    """Measure every setting; ``generated.json``, ``generated.md`` and two pictures go to ``out``."""
    bench = _Bench(sources, **options)
    rows = []
    for table, setting, chosen in settings():
        rows.append(bench.row(table, setting, chosen, out / "measured"))
        bench.say(_line(rows[-1]))
    save(out, "generated", bench.about, markdown(rows), rows=[asdict(row) for row in rows])
    draw(rows, out)
    return rows


class _Bench(PromptBench):
    needs = "can be read and has a report or labels"
    role = None

    def __init__(self, sources: Sequence[Path], **options: Unpack[PromptOptions]) -> None:
        import torch

        super().__init__(sources, **options)
        self.texts = [words_of(study, rng) for study, rng in zip(self.studies, self.streams(), strict=True)]
        digests = hashlib.sha256((self.loaded.path / "pack.toml").read_bytes())
        digests.update(self.images.numpy().tobytes())
        digests.update(repr((self.texts, self.seed, self.judge is None)).encode())
        self.came = digests.hexdigest()
        with torch.no_grad():
            self.said = self.loaded.vlm.embed_texts(self.texts)
            self.judge_said = self.judge.embed_texts(self.texts) if self.judge else None

    def usable(self, study: Study) -> bool:
        return bool(study.report) or study.labels is not None

    def row(self, table: str, setting: str, options: dict[str, Any], folder: Path) -> Row:
        key = hashlib.sha256(repr((self.came, sorted(options.items()))).encode()).hexdigest()
        path = folder / f"{key[:16]}.json"
        try:
            figures = json.loads(path.read_bytes())
        except (OSError, ValueError):
            figures = self._figures(options)
            folder.mkdir(parents=True, exist_ok=True)
            write_bytes(path, (json.dumps(figures) + "\n").encode())
        over = {name: self.over(np.array(figures[name])) for name in ("score", "judge", "ssim") if figures[name]}
        return Row(table, setting, over["score"], over.get("judge"), over["ssim"], figures["loss"], len(self.studies))

    def _figures(self, options: dict[str, Any]) -> dict[str, Any]:
        import torch

        method, written = self.write(check=False, **options)
        seeds = [int(np.random.default_rng([self.seed, n, 1]).integers(2**62)) for n in range(len(self.studies))]
        made = []
        with limited(1), torch.no_grad():
            for first in range(0, len(seeds), 16):
                part = slice(first, first + 16)
                # A prompt without a word cannot condition; the generator's empty prompt stands for it.
                made.append(method._generate(written.texts[part], seeds[part], self.images[part], 0.0))
            films = torch.cat(made)
            score = 100 * (self.loaded.vlm.embed_images(films) * self.said).sum(1)
            judge = 100 * (self.judge.embed_images(films) * self.judge_said).sum(1) if self.judge else None
        return {
            "score": score.tolist(),
            "judge": None if judge is None else judge.tolist(),
            "ssim": ssim(films[:, 0].numpy(), self.images[:, 0].numpy()).tolist(),
            "loss": 1 - float(np.mean(written.scores)) if written.trace else None,
        }


def _line(row: Row) -> str:
    judge = "" if row.judge is None else f"  second vlm {cell(row.judge)}"
    return f"{row.table}: {row.setting:<34} score {cell(row.score)}{judge}  SSIM {cell(row.ssim)}"


def markdown(rows: Sequence[Row]) -> str:
    """One table per published table or figure and reading."""
    out = []
    for table in dict.fromkeys(row.table for row in rows):
        part = [row for row in rows if row.table == table]
        published = table == STARTING
        heads = ["setting", "second vlm × 100", "optimised vlm × 100", "SSIM to the real film", "loss"]
        heads += ["published"] * published
        cells = [
            [
                row.setting,
                cell(row.judge),
                cell(row.score),
                cell(row.ssim),
                "" if row.loss is None else f"{row.loss:.3f}",
            ]
            + ([PUBLISHED.get(STARTS[row.setting][0], "")] if published else [])
            for row in part
        ]
        out += [f"### {table[0].upper()}{table[1:]}", "", *table_lines(heads, cells)]
    return "\n".join(out)


def draw(rows: Sequence[Row], out: Path) -> None:
    """Figures 4 and 5: a curve per reading, score and loss by length, SSIM by iteration."""
    for name, head, across in (
        ("length", BY_LENGTH, "prompt length, tokens"),
        ("iterations", BY_ITERATION, "content iterations"),
    ):
        figure, (by_score, by_ssim, by_loss) = panels(9, 3.2, 3)
        for reading in READINGS:
            part = [row for row in rows if row.table == f"{head}, {reading}"]
            x = [float(row.setting) for row in part]
            losses = [Interval(*[float("nan") if row.loss is None else row.loss] * 3) for row in part]
            for axes, values, label in (
                (by_score, [row.judge or row.score for row in part], "film and report, score × 100"),
                (by_ssim, [row.ssim for row in part], "SSIM to the real film"),
                (by_loss, losses, "loss"),
            ):
                plot_intervals(axes, x, values, reading)
                axes.set_xlabel(across)
                axes.set_ylabel(label)
        by_score.legend(frameon=False, fontsize=7)
        figure.savefig(out / f"generated-{name}.png", dpi=150)
