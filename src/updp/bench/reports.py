"""`updp bench reports`: UPDP's Tables 1 and 2 with a large vision-language model, fine-tuned by LoRA on a GPU.

A model from a folder (Qwen2.5-VL, Gemma-3, Phi-3.5-vision) learns reports in the paper's four regimes: local films
alone, raw transfer, de-identified transfer, local with de-identified; and once without learning. It
always writes for real films of patients that no regime learned from. The settings are the paper's
(`updp.evaluation.probes.utility.lora`). What a regime wrote is kept, and a fine-tuning keeps a checkpoint, so that an
interrupted run resumes. The memory that is needed is printed before the model is loaded; too little is an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.bench.evidence import cell
from updp.bench.methods import SPLITS, TEXT, BadBench, published
from updp.core.cache import FolderCache
from updp.core.markdown import table_lines
from updp.core.measurement import FEWEST_PATIENTS, Measurement, find
from updp.core.registry import unknown
from updp.core.storage import write_bytes
from updp.evaluation.cohort.load import private
from updp.evaluation.cohort.sample import exhibit_of, made_once, take_sample
from updp.evaluation.cohort.settings import MethodPlan, settings
from updp.evaluation.evaluate import budget_of
from updp.evaluation.probes.base import SCORED
from updp.evaluation.probes.utility.base import Effort
from updp.evaluation.probes.utility.lora import (
    LoraSettings,
    ReportModel,
    enough_memory,
    load,
    look_at,
    memory_free,
)
from updp.evaluation.probes.utility.report_generation import (
    LEAST_FILMS,
    LOCAL,
    LOCAL_RELEASED,
    RAW,
    RELEASED,
    Pairs,
    compare,
    keep_texts,
    regimes,
)
from updp.evaluation.probes.utility.text_metrics import R2GEN, R2Gen, Weights, text_measures

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit

Say = Callable[[str], None]
ZERO_SHOT = "as it comes"


def bench_reports(
    source: Path,
    vlm: Path,
    out: Path,
    *,
    method: str | MethodPlan = "updp",
    strength: float | None = None,
    lora: LoraSettings = LoraSettings(),  # noqa: B008
    films: int = 2000,
    scored: int = 250,
    pack: str | None = None,
    device: str = "cuda",
    precision: str = "bfloat16",
    trust_code: bool = False,
    java: bool = True,
    weights: Weights = Weights(),  # noqa: B008
    seed: int = 0,
    layout: str | None = None,
    say: Say = print,
) -> list[Measurement]:
    """Every regime; ``reports.md`` and ``reports.json`` go to ``out``. The same call resumes."""
    import torch

    kind = getattr(torch, precision, None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise BadBench(f"no precision {precision}; use bfloat16, float16 or float32")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BadBench("no GPU is available; --device cpu works too, and takes days for a real model")
    # The folders, what they need and what there is, before any film is read.
    weights.check()
    facts = look_at(vlm, lora, kind, trust_code=trust_code)
    say(facts.describe())
    enough_memory(facts, memory_free(device))
    chosen = settings([method], None if strength is None else [strength], pack)[0]
    private(out)
    sample = take_sample(source, films, splits=SPLITS, seed=seed, layout=layout, cache=out / ".cache" / "films")
    exhibit = exhibit_of(sample, made_once(sample, chosen, seed, out / ".cache" / "made"))
    real = exhibit.with_reports("real")
    train = np.flatnonzero(real & (exhibit.splits == "train"))
    asked = np.flatnonzero(real & np.isin(exhibit.splits, SCORED))[:scored]
    patients = len(np.unique(exhibit.patients[asked]))
    if len(train) < 2 * LEAST_FILMS or patients < FEWEST_PATIENTS:
        raise BadBench(
            f"{len(train)} training films with a report and {patients} patients to write for; at least "
            f"{2 * LEAST_FILMS} and {FEWEST_PATIENTS} are needed"
        )
    effort = Effort.of(budget_of(False))
    plan = regimes(exhibit, train, (1.0,), seed, quick=True)
    cache = FolderCache(out / ".cache" / "written")

    def build() -> ReportModel:
        return load(vlm, lora, device=device, precision=kind, trust_code=trust_code)

    writer = _Writer(exhibit, build, lora, facts.key, cache, out / ".cache" / "checkpoints", say)
    measured = compare(
        exhibit, asked, train, [plan], writer.write, effort, seed, java=java, cache=cache, weights=weights
    )
    references = [exhibit.real_texts[i] for i in asked]
    written, people = writer.write([], asked, seed), exhibit.patients[asked]
    options: dict[str, Any] = {"seed": seed, "draws": effort.draws, "regime": ZERO_SHOT}
    normaliser = R2Gen.fit(exhibit.real_texts[i] for i in train)
    untaught = text_measures(references, written, people, normaliser=normaliser, java=java, cache=cache, **options)
    measured = [*measured, *untaught, *weights.measures(references, written, people, **options)]
    about = {"model": facts.name, "films": len(sample), "scored": len(asked), "patients": patients,
             "method": chosen.label, "settings": asdict(lora)}  # fmt: skip
    write_bytes(out / "reports.md", markdown(measured, about, weights.metrics).encode())
    result = {"about": about, "measurements": [m.to_json() for m in measured]}
    write_bytes(out / "reports.json", (json.dumps(result, indent=1) + "\n").encode())
    return measured


def lora_settings(given: Mapping[str, Any]) -> LoraSettings:
    """The paper's settings with some of them changed; a name or a kind of value that is not known is an error."""
    known = asdict(LoraSettings())
    for name, value in given.items():
        if name not in known:
            raise BadBench(unknown("setting", name, known))
        wanted = (int, float) if isinstance(known[name], float) else type(known[name])
        if not isinstance(value, wanted) or isinstance(value, bool) or (not isinstance(value, str) and value < 0):
            raise BadBench(f"setting {name}: {value!r} is not a valid value; the paper's value is {known[name]!r}")
    return LoraSettings(**given)


class _Writer:
    """Fine-tunes a fresh model on pairs and lets it write; what was written is kept."""

    def __init__(
        self,
        exhibit: Exhibit,
        build: Callable[[], ReportModel],
        lora: LoraSettings,
        model: str,
        cache: FolderCache,
        checkpoints: Path,
        say: Say,
    ) -> None:
        self.exhibit, self.build, self.lora, self.model = exhibit, build, lora, model
        self.cache, self.checkpoints, self.say = cache, checkpoints, say

    def write(self, pairs: Sequence[Pairs], asked: Any, seed: int) -> list[str]:
        sides = {"real": self.exhibit.real, "released": self.exhibit.released}
        reports = [report for p in pairs for report in p.reports]
        learned = np.concatenate([sides[p.side][p.rows] for p in pairs]) if pairs else sides["real"][:0]
        running = hashlib.sha256(repr((self.model, asdict(self.lora), seed, reports)).encode())
        running.update(np.ascontiguousarray(learned).tobytes())
        running.update(np.ascontiguousarray(sides["real"][asked]).tobytes())
        key = running.hexdigest()

        def made() -> list[str]:
            model = self.build()
            if pairs:
                self.say(f"fine-tuning on {len(reports)} films")
                model.fit(learned, reports, seed, self.say, checkpoint=self.checkpoints / f"{key[:16]}.pt")
            self.say(f"writing {len(asked)} reports")
            return model.write(sides["real"][asked])

        return keep_texts(key, made, self.cache)


def markdown(measured: Sequence[Measurement], about: dict[str, Any], further: Sequence[str] = ()) -> str:
    """Regime by regime, the published figures of Qwen2.5-VL-7B below; ``further`` metrics have no published figure."""
    lines = []
    for name in (ZERO_SHOT, RAW, RELEASED, f"{LOCAL}, 100% of local", f"{LOCAL_RELEASED}, 100% of local"):
        cells = [cell(find(measured, metric, protocol=R2GEN, regime=name), True) for metric in TEXT]
        cells += [cell(find(measured, metric, regime=name), True) for metric in further]
        lines.append([about["model"], name, *cells])
    for entry in published()["reports"]:
        cells = [f"{value:.2f}" for value in entry["published"]] + [""] * len(further)
        lines.append(["published, Qwen2.5-VL-7B", entry["regime"], *cells])
    settings = ", ".join(f"{name} {value}" for name, value in about["settings"].items() if name != "question")
    out = [
        f"{about['model']}, films by {about['method']}, reports for {about['scored']} real films of "
        f"{about['patients']} patients. Settings: {settings}. Per cent; brackets are 95 % intervals over patients.",
        "",
        *table_lines(["model", "learns from", *TEXT, *further], lines),
    ]
    return "\n".join(out) + "\n"
