"""`updp bench ablation`: what each part of UPDP's prompt search adds, on patients outside the training set.

The paper's Table 3 (initialisation), Figure 5 (prompt length) and Figure 4 (iterations), and what it leaves open:
temperature and K, projecting at every step or once. The score is the cosine of prompt and film times 100. The optimised
vlm scores its own result, so a second one (``judge``, never optimised against) may be given to score it too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.core.global_state import limited
from updp.core.reasons import Refused
from updp.core.record import BENCHMARK_KEY, Study, split_of
from updp.domains.chest import PACK
from updp.evaluation.intervals import Interval, bootstrap
from updp.imaging.square import square
from updp.methods.updp.method import UPDP
from updp.sources import open_source
from updp.training.corpus import NoUsableFilm

if TYPE_CHECKING:
    from torch import Tensor

Say = Callable[[str], None]

#: Published image-text scores (BiomedCLIP, average [min, max]) of the paper's Table 3, for the column beside ours.
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
    """What optimisation added to the same films' scores, [low, high] over resampled patients."""

    start: str
    score: Interval
    judge: Interval | None


def validation_studies(sources: Sequence[Path], limit: int) -> Iterator[Study]:
    """Films with their reports or labels of validation patients: the source's own split, else the public one."""
    for path in sources:
        source = open_source(path)

        def held_out(source: Any = source) -> Iterator[Study]:
            for item in source:
                if isinstance(item, Study) and (item.split or split_of(item.patient_id, BENCHMARK_KEY)) == "val":
                    try:
                        loaded = source.load(item)
                    except Refused:
                        continue
                    yield loaded.but(pixels=square(loaded.pixels, 256, "pad"))

        yield from islice(held_out(), limit)


def bench_ablation(
    sources: Sequence[Path],
    out: Path,
    *,
    pack: str = PACK,
    judge: str | None = None,
    films: int = 64,
    seed: int = 0,
    say: Say = print,
) -> list[Row]:
    """Run every ablation, write ``ablation.json``, ``ablation.md`` and pictures to ``out``."""
    import torch

    studies = list(validation_studies(sources, films))
    if not studies:
        raise NoUsableFilm("the sources hold no validation film that can be read")
    images = torch.from_numpy(np.stack([study.pixels for study in studies if study.pixels is not None]))[:, None]
    bench = _Bench(pack, studies, images, second_vlm(judge), seed)
    rows: list[Row] = []

    def add(table: str, setting: str, **options: Any) -> None:
        row = bench.row(table, setting, options)
        rows.append(row)
        say(f"{table:>16}  {setting:<28} {row.score:6.2f} [{row.low:.2f}, {row.high:.2f}] ± {row.interval:.2f}")

    for name, options in INITIALISATIONS.items():
        add("initialisation", name, **options)
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
    gains = [bench.gain(start, rng=np.random.default_rng(seed)) for start in ("random", "report")]
    out.mkdir(parents=True, exist_ok=True)
    written = {"rows": [asdict(row) for row in rows], "gains": [asdict(gain) for gain in gains]}
    (out / "ablation.json").write_text(json.dumps(written, indent=2) + "\n")
    (out / "ablation.md").write_text(markdown(rows, gains))
    draw(rows, out)
    return rows


def second_vlm(judge: str | None) -> Any:
    """The vlm that only scores: a judge file (`updp train judge`) or another pack."""
    from updp.models import load_pack

    if judge is None:
        return None
    if judge.endswith(".safetensors"):
        from updp.bench.judge import load_judge

        return load_judge(Path(judge))
    return load_pack(judge).vlm


class _Bench:
    def __init__(self, pack: str, studies: list[Study], images: Tensor, judge: Any, seed: int) -> None:
        import torch

        self.pack, self.studies, self.images, self.judge, self.seed = pack, studies, images, judge, seed
        self.loaded = UPDP(pack=pack).pack
        self.kept: dict[str, tuple[Any, Any]] = {}  # scores of the initialisation table, film by film
        with torch.no_grad():
            self.judged = judge.embed_images(images) if judge else None

    def row(self, table: str, setting: str, options: dict[str, Any]) -> Row:
        import torch

        method = UPDP(pack=self.pack, **({"temperature": 0.0} | options if "mode" not in options else options))
        method.__dict__["pack"] = self.loaded
        streams = [np.random.default_rng([self.seed, n]) for n in range(len(self.studies))]
        with limited(1):  # as in a release
            written = method.write(self.studies, self.images, 0.0, streams)
        scores = 100 * np.array(written.scores)
        marked = None
        if self.judge is not None and self.judged is not None:
            with torch.no_grad():
                marked = 100 * (self.judge.embed_texts(written.texts) * self.judged).sum(1).numpy()
        if table == "initialisation":
            self.kept[setting] = (scores, marked)
        half = 1.96 * float(scores.std(ddof=1)) / len(scores) ** 0.5 if len(scores) > 1 else float("nan")
        mean = None if marked is None else float(marked.mean())
        return Row(
            table, setting, float(scores.mean()), float(scores.min()), float(scores.max()), mean, half, len(scores)
        )

    def gain(self, start: str, rng: np.random.Generator) -> Gain:
        (before, judged_before), (after, judged_after) = self.kept[start], self.kept[f"{start} + UPDP"]
        patients = [study.patient_id for study in self.studies]

        def over(difference: Any) -> Interval:
            return bootstrap(np.mean, patients, difference, rng=rng, fewest=2)

        judge = None if judged_before is None else over(judged_after - judged_before)
        return Gain(start, over(after - before), judge)


def markdown(rows: Sequence[Row], gains: Sequence[Gain] = ()) -> str:
    """The tables, published figures beside ours where there are any."""
    out = []
    if gains:
        out += ["### What optimisation adds, same films", "", "| start | optimised vlm | second vlm |", "|---|---|---|"]
        out += [f"| {gain.start} | {_signed(gain.score)} | {_signed(gain.judge)} |" for gain in gains]
        out.append("")
    for table in dict.fromkeys(row.table for row in rows):
        part = [row for row in rows if row.table == table]
        judged = any(row.judge is not None for row in part)
        published = table == "initialisation"
        heads = ["setting", "score, mean ± 95 %", "min, max"] + ["second vlm"] * judged + ["published"] * published
        out += [f"### {table[0].upper()}{table[1:]}", "", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for row in part:
            cells = [row.setting, f"{row.score:.2f} ± {row.interval:.2f}", f"{row.low:.2f}, {row.high:.2f}"]
            if judged:
                cells.append("" if row.judge is None else f"{row.judge:.2f}")
            if published:
                cells.append(PUBLISHED.get(row.setting, ""))
            out.append("| " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out)


def _signed(interval: Interval | None) -> str:
    if interval is None:
        return "not given"
    return f"{interval.value:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def draw(rows: Sequence[Row], out: Path) -> None:
    """Length and iterations as curves."""
    from matplotlib.figure import Figure  # pyplot would choose a backend for the whole process

    for table, label in (("length", "prompt length, tokens"), ("iterations", "optimisation steps")):
        part = [row for row in rows if row.table == table]
        figure = Figure(figsize=(5, 3.4), layout="constrained")
        axes = figure.subplots()
        axes.errorbar([float(row.setting) for row in part], [row.score for row in part],
                      [row.interval for row in part], marker="o", capsize=3, label="optimised vlm")  # fmt: skip
        judged = [(float(row.setting), row.judge) for row in part if row.judge is not None]
        if judged:
            axes.plot(*zip(*judged, strict=True), marker="s", label="second vlm")
            axes.legend(frameon=False)
        axes.set_xlabel(label)
        axes.set_ylabel("image–text score × 100")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(out / f"ablation-{table}.png", dpi=150)
