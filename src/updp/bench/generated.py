"""`updp bench generated`: UPDP's Table 3 and Figures 4 and 5 on generated films, both readings side by side.

Each setting writes prompts for validation films and generates a film from each, with the same noise for all settings.
A generated film is scored against the report of its study by a vlm that was not optimised (``judge``) and by the
optimised one, and compared with the real film by SSIM; the loss of the optimisation stands beside them. SSIM to the
real film also rises with what is left of the patient: the paper reads it as fidelity alone.
Every setting lands in a file of its own, so a bench that was cut off goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from updp.bench.ablation import PUBLISHED, second_vlm, validation_studies
from updp.core.global_state import limited
from updp.core.storage import write_bytes
from updp.domains.chest import PACK
from updp.evaluation.intervals import Interval, bootstrap
from updp.evaluation.probes.utility.image_metrics import ssim
from updp.methods.updp.method import UPDP, words_of
from updp.training.corpus import NoUsableFilm

Say = Callable[[str], None]
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
        yield "initialisation (Table 3)", name, options
    for reading, options in READINGS.items():
        for length in LENGTHS:
            yield f"prompt length (Figure 5), {reading}", str(length), {**options, "length": length}
    for reading, options in READINGS.items():
        for count in ITERATIONS:
            yield f"content iterations (Figure 4), {reading}", str(count), {**options, "iterations": count}


def bench_generated(
    sources: Sequence[Path],
    out: Path,
    *,
    pack: str = PACK,
    judge: str | None = None,
    films: int = 64,
    seed: int = 0,
    say: Say = print,
) -> list[Row]:
    """Measure every setting; ``generated.json``, ``generated.md`` and two pictures go to ``out``."""
    second = second_vlm(judge)
    studies = [study for study in validation_studies(sources, films) if study.report or study.labels is not None]
    if not studies:
        raise NoUsableFilm("the sources hold no validation film that can be read and has a report or labels")
    bench = _Bench(pack, studies, second, seed)
    rows = []
    for table, setting, options in settings():
        rows.append(bench.row(table, setting, options, out / "measured"))
        say(_line(rows[-1]))
    write_bytes(out / "generated.json", (json.dumps([asdict(row) for row in rows], indent=2) + "\n").encode())
    write_bytes(out / "generated.md", markdown(rows).encode())
    draw(rows, out)
    return rows


class _Bench:
    def __init__(self, pack: str, studies: list[Any], judge: Any, seed: int) -> None:
        import torch

        self.pack, self.studies, self.judge, self.seed = pack, studies, judge, seed
        self.loaded = UPDP(pack=pack).pack
        self.images = torch.from_numpy(np.stack([study.pixels for study in studies]))[:, None]
        self.texts = [words_of(study, np.random.default_rng([seed, n])) for n, study in enumerate(studies)]
        digests = hashlib.sha256((self.loaded.path / "pack.toml").read_bytes())
        digests.update(self.images.numpy().tobytes())
        digests.update(repr((self.texts, seed, judge is None)).encode())
        self.came = digests.hexdigest()
        with torch.no_grad():
            self.targets = self.loaded.vlm.embed_images(self.images)
            self.said = self.loaded.vlm.embed_texts(self.texts)
            self.judged = judge.embed_texts(self.texts) if judge else None

    def row(self, table: str, setting: str, options: dict[str, Any], folder: Path) -> Row:
        key = hashlib.sha256(repr((self.came, sorted(options.items()))).encode()).hexdigest()
        path = folder / f"{key[:16]}.json"
        try:
            figures = json.loads(path.read_bytes())
        except (OSError, ValueError):
            figures = self._figures(options)
            folder.mkdir(parents=True, exist_ok=True)
            write_bytes(path, (json.dumps(figures) + "\n").encode())
        patients = [study.patient_id for study in self.studies]

        def over(name: str) -> Interval:
            rng = np.random.default_rng(self.seed)
            return bootstrap(np.mean, patients, np.array(figures[name]), rng=rng, fewest=2)

        judge = over("judge") if figures["judge"] is not None else None
        return Row(table, setting, over("score"), judge, over("ssim"), figures["loss"], len(self.studies))

    def _figures(self, options: dict[str, Any]) -> dict[str, Any]:
        import torch

        method = UPDP(pack=self.pack, check=False, **options)
        method.__dict__["pack"] = self.loaded
        streams = [np.random.default_rng([self.seed, n]) for n in range(len(self.studies))]
        seeds = [int(np.random.default_rng([self.seed, n, 1]).integers(2**62)) for n in range(len(self.studies))]
        made = []
        with limited(1), torch.no_grad():
            with torch.enable_grad():
                written = method.write(self.studies, self.images, 0.0, streams, targets=self.targets)
            for first in range(0, len(seeds), 16):
                part = slice(first, first + 16)
                # A prompt without a word cannot condition; the generator's empty prompt stands for it.
                made.append(method._generate(written.texts[part], seeds[part], self.images[part], 0.0))
            films = torch.cat(made)
            seen = self.judge.embed_images(films) if self.judge else None
            score = 100 * (self.loaded.vlm.embed_images(films) * self.said).sum(1)
            judge = None if seen is None or self.judged is None else 100 * (seen * self.judged).sum(1)
        return {
            "score": score.tolist(),
            "judge": None if judge is None else judge.tolist(),
            "ssim": ssim(films[:, 0].numpy(), self.images[:, 0].numpy()).tolist(),
            "loss": 1 - float(np.mean(written.scores)) if written.trace else None,
        }


def _line(row: Row) -> str:
    judge = "" if row.judge is None else f"  second vlm {_cell(row.judge)}"
    return f"{row.table}: {row.setting:<34} score {_cell(row.score)}{judge}  SSIM {_cell(row.ssim)}"


def _cell(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def markdown(rows: Sequence[Row]) -> str:
    """One table per published table or figure and reading."""
    out = []
    for table in dict.fromkeys(row.table for row in rows):
        part = [row for row in rows if row.table == table]
        published = table.startswith("initialisation")
        heads = ["setting", "second vlm × 100", "optimised vlm × 100", "SSIM to the real film", "loss"]
        heads += ["published"] * published
        out += [f"### {table[0].upper()}{table[1:]}", "", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for row in part:
            loss = "" if row.loss is None else f"{row.loss:.3f}"
            cells = [row.setting, _cell(row.judge), _cell(row.score), _cell(row.ssim), loss]
            cells += [PUBLISHED.get(STARTS[row.setting][0], "")] if published else []
            out.append("| " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out)


def draw(rows: Sequence[Row], out: Path) -> None:
    """Figures 4 and 5: a curve per reading, score and loss by length, SSIM by iteration."""
    from matplotlib.figure import Figure  # pyplot would choose a backend for the whole process

    for name, head, across in (
        ("length", "prompt length (Figure 5)", "prompt length, tokens"),
        ("iterations", "content iterations (Figure 4)", "content iterations"),
    ):
        figure = Figure(figsize=(9, 3.2), layout="constrained")
        panels = figure.subplots(1, 3)
        for reading in READINGS:
            part = [row for row in rows if row.table == f"{head}, {reading}"]
            x = [float(row.setting) for row in part]
            for axes, values, label in zip(
                panels,
                (
                    [(row.judge or row.score) for row in part],
                    [row.ssim for row in part],
                    [Interval(*[float("nan") if row.loss is None else row.loss] * 3) for row in part],
                ),
                ("film and report, score × 100", "SSIM to the real film", "loss"),
                strict=True,
            ):
                spread = [[v.value - v.low for v in values], [v.high - v.value for v in values]]
                axes.errorbar(x, [v.value for v in values], np.maximum(spread, 0), marker="o", capsize=3, label=reading)
                axes.set_xlabel(across)
                axes.set_ylabel(label)
                axes.spines[["top", "right"]].set_visible(False)
        panels[0].legend(frameon=False, fontsize=7)
        figure.savefig(out / f"generated-{name}.png", dpi=150)
