"""`updp bench methods`: every method on the same real patients in one run, ours beside the published figures.

The tables of two papers: UPDP's identity figures, Table 1 (report generation by regime) and Table 4 (prompt searches),
PrivDiff-Net's Tables 1 and 3. Methods run through the Method protocol on a sample of a source; attackers learn on its
training patients and are scored on the others. Each method and strength lands in one file, each evaluation in another,
so a bench that was cut off goes on where it was. Published figures and what differs from them are data
(``published.toml``).
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.markdown import table_lines
from updp.core.measurement import Measurement, find
from updp.core.policy import GatePolicy
from updp.core.storage import write_bytes
from updp.evaluation import charts
from updp.evaluation.cohort.load import private
from updp.evaluation.cohort.sample import Sample, exhibit_of, made_once, pack_for, probes_for, take_sample
from updp.evaluation.cohort.settings import MethodPlan, Setting, settings
from updp.evaluation.evaluate import budget_of, learned_in, pack_facts, run_probes
from updp.evaluation.probes.utility.text_metrics import R2GEN
from updp.evaluation.report import point_of, points

if TYPE_CHECKING:
    from updp.evaluation.probes.base import Probe

Say = Callable[[str], None]
#: The probes a table needs.
TABLES: Mapping[str, tuple[str, ...]] = {
    "identity": ("identification",),
    "privdiff": ("film", "verification", "attributes", "diagnosis", "images"),
    "reports": ("report generation",),
    "frontier": ("record", "film", "diagnosis", "images"),
}
#: Those with published figures; `updp bench frontier` asks for the last one.
PUBLISHED = ("identity", "privdiff", "reports")
#: Attackers and judges learn from most of a sample; the rest is scored.
SPLITS: Mapping[Any, float] = {"train": 0.6, "val": 0.13, "test": 0.27}


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, the fields of the measurement in it, whether it is printed in per cent."""

    heading: str
    metric: str
    fields: Mapping[str, str] = field(default_factory=dict)
    percent: bool = True


AS_PRINTED = Column("naming the patient, as printed", "identification accuracy", {"protocol": "as printed"})
RETRAINED = Column("naming the patient, retrained", "identification accuracy", {"attacker": "A1"})
FROZEN = Column("verification, frozen", "verification AUC", {"attacker": "A0 frozen", "protocol": "another film"})
STRONGEST = Column("strongest attacker, any impostor", "strongest linkage")
BEYOND = Column("film beyond record, own film", "film linkage", {"protocol": "own film"})
PRIVACY = (
    AS_PRINTED,
    RETRAINED,
    FROZEN,
    STRONGEST,
    BEYOND,
    Column("age, retrained", "age accuracy", {"attacker": "retrained"}),
    Column("sex, retrained", "sex accuracy", {"attacker": "retrained"}),
)
JUDGE = Column("frozen judge, AUC", "diagnosis AUC", {"regime": "pack judge, test released"})
RELATIVE = Column("skill kept", "diagnostic skill kept", percent=False)
UTILITY = (
    JUDGE,
    Column("train released, test real, AUC", "diagnosis AUC", {"regime": "train released, test real"}),
    RELATIVE,
    Column("FD-classifier", "FD-classifier", percent=False),
    Column("SSIM", "SSIM", percent=False),
)
#: Columns of the report tables, as the paper orders them.
TEXT = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L COCO")


class BadBench(ValueError):
    """The bench cannot run as asked; the message says why."""


@dataclass(frozen=True)
class Row:
    """A method at one strength, measured."""

    setting: Setting
    measurements: tuple[Measurement, ...]
    seconds: float  # a film
    kept_back: int
    films: int

    def find(self, metric: str, **fields: Any) -> Measurement | None:
        return find(self.measurements, metric, **fields)

    def cell(self, column: Column) -> str:
        return cell(self.find(column.metric, **column.fields), column.percent)


def bench_methods(
    source: Path,
    out: Path,
    *,
    methods: Sequence[str | MethodPlan],
    strengths: Sequence[float] | None = None,
    films: int = 2000,
    tables: Sequence[str] = ("identity", "privdiff"),
    pack: str | None = None,
    quick: bool = False,
    seed: int = 0,
    layout: str | None = None,
    domain: str | None = None,
    probes: Callable[[], Sequence[Probe]] | None = None,
    say: Say = print,
) -> list[Row]:
    """Measure every method; ``methods.md``, ``methods.json``, ``frontier.json`` and ``frontier.svg`` go to ``out``."""
    if unknown := sorted(set(tables) - set(PUBLISHED)):
        raise BadBench(f"no table {', '.join(unknown)}; there are {', '.join(PUBLISHED)}")
    todo = settings(methods, strengths, pack)
    private(out)
    films_kept = out / ".cache" / "films"
    sample = take_sample(source, films, splits=SPLITS, seed=seed, layout=layout, domain=domain, cache=films_kept)
    models = pack_for(sample, pack)
    budget = budget_of(quick)
    counted = {
        split: len({s.patient_id for s in sample.studies if s.split == split}) for split in ("train", "val", "test")
    }
    say(f"{len(sample)} films of {sum(counted.values())} patients, {counted['val'] + counted['test']} of them scored")
    rows: list[Row] = []
    for setting in todo:
        rows.append(measured_row(sample, setting, models, budget, seed, tables, out, probes))
        say(describe_row(rows[-1]))
    about = {
        "films": len(sample),
        "patients": counted,
        "seed": seed,
        "quick": quick,
        "size": int(sample.real.shape[1]),
        "pack": pack_facts(models),
    }
    _write(rows, about, tables, out)
    return rows


def measured_row(
    sample: Sample,
    setting: Setting,
    pack: Any,
    budget: Any,
    seed: int,
    tables: Sequence[str],
    out: Path,
    probes: Callable[[], Sequence[Probe]] | None,
) -> Row:
    """One method at one strength, from what an earlier run left where it is the same."""
    made = made_once(sample, setting, seed, out / ".cache" / "made")
    key = hashlib.sha256(repr((made.origin, seed, budget, pack_facts(pack), sorted(tables))).encode()).hexdigest()
    path = out / "measured" / f"{setting.slug}.json"
    try:
        held = json.loads(path.read_bytes())
        if held["key"] == key:
            found = tuple(Measurement.from_json(m) for m in held["measurements"])
            return Row(setting, found, made.seconds, made.kept_back, len(sample))
    except (OSError, ValueError, KeyError):
        pass
    measured = run_probes(
        exhibit_of(sample, made),
        pack,
        budget,
        seed,
        probes=probes() if probes else probes_for(sample, [name for table in tables for name in TABLES[table]]),
        cache=learned_in(out / ".cache" / "learned"),
    )
    path.parent.mkdir(exist_ok=True)
    facts = {"setting": setting.label, "key": key, "measurements": [m.to_json() for m in measured]}
    write_bytes(path, (json.dumps(facts, indent=1) + "\n").encode())
    return Row(setting, measured, made.seconds, made.kept_back, len(sample))


def describe_row(row: Row) -> str:
    """A row in one line."""
    parts = [row.setting.label]
    for column in (BEYOND, RELATIVE):
        if (m := row.find(column.metric, **column.fields)) is not None:
            parts.append(str(m))
    return "; ".join([*parts, f"{row.seconds:.2f} s per film"])


# -- tables ----------------------------------------------------------------------------------------------------------


def published() -> dict[str, Any]:
    """What the papers print."""
    return tomllib.loads(resources.files("updp.bench").joinpath("published.toml").read_text("utf-8"))


def _write(rows: Sequence[Row], about: Mapping[str, Any], tables: Sequence[str], out: Path) -> None:
    text = markdown(rows, about, tables)
    write_bytes(out / "methods.md", text.encode())
    facts = {
        "about": dict(about),
        "rows": [
            {
                "method": row.setting.name,
                "options": dict(row.setting.options),
                "strength": row.setting.strength,
                "seconds_a_film": round(row.seconds, 4),
                "kept_back": row.kept_back,
                "measurements": [m.to_json() for m in row.measurements],
            }
            for row in rows
        ],
    }
    write_bytes(out / "methods.json", (json.dumps(facts, indent=1) + "\n").encode())
    found = [p for row in rows if (p := point_of(row.setting.method, row.setting.strength, row.measurements))]
    frontier = {"format": "updp-frontier-1", "points": found, **about}
    write_bytes(out / "frontier.json", (json.dumps(frontier, indent=2) + "\n").encode())
    if found:
        write_bytes(out / "frontier.svg", picture(rows))


def picture(rows: Sequence[Row]) -> bytes:
    """The privacy-utility plane twice: for a frozen attacker, and for the strongest one that adapts."""
    limits = GatePolicy()
    halves = []
    for metric, fields, title in (
        ("verification max(AUC, 1−AUC)", FROZEN.fields, "frozen attacker"),
        (STRONGEST.metric, STRONGEST.fields, "strongest attacker, trained on the method's own films"),
    ):
        found = []
        for row in rows:
            if (m := row.find(metric, **fields)) is None or not m.measured:
                continue
            point = point_of(row.setting.method, row.setting.strength, row.measurements)
            if point is not None:
                found.append(point | {"linkage": {"value": m.value, "low": m.low, "high": m.high, "n": m.n}})
        across = f"{title}, max(AUC, 1−AUC)"
        halves.append(charts.Plane(points(found), limits.max_film_linkage, limits.min_skill, across))
    label = "Privacy and utility of every method, frozen and adaptive attacker"
    return charts.standalone(charts.planes(halves, label))


def cell(m: Measurement | None, percent: bool) -> str:
    """A figure with its interval; what was not measured is said."""
    if m is None:
        return ""
    if not m.measured:
        return "not measured"
    scale = 100 if percent else 1
    value, low, high = (scale * v for v in (m.value, m.low, m.high))
    digits = 1 if percent else 2 if abs(value) < 100 else 0
    chance = "" if m.chance is None or not percent else f", chance {scale * m.chance:.1f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{chance}"


def markdown(rows: Sequence[Row], about: Mapping[str, Any], tables: Sequence[str]) -> str:
    """Every table asked for, ours beside the published figures, and what differs."""
    patients = about["patients"]
    scored = patients["val"] + patients["test"]
    pack = about["pack"]
    models = "No model pack" if pack is None else f"Model pack {pack['name']} (`{pack['sha256'][:12]}`)"
    out = [
        f"{about['films']} films at {about['size']} pixels; attackers and judges learn on {patients['train']} patients "
        f"and are scored on {scored} others. {models}, seed {about['seed']}, "
        f"{'quick' if about['quick'] else 'full'} budget. "
        "Figures in per cent unless they are ratios or distances; brackets are 95 % intervals over patients.",
        "",
    ]
    if {"identity", "privdiff"} & set(tables):
        out += ["### Privacy", ""]
        out += table_lines(
            ["method", *(column.heading for column in PRIVACY)],
            [[row.setting.label, *map(row.cell, PRIVACY)] for row in rows],
        )
        out += ["### Utility and cost", ""]
        out += table_lines(
            ["method", *(column.heading for column in UTILITY), "seconds per film", "kept back"],
            [
                [
                    row.setting.label,
                    *map(row.cell, UTILITY),
                    f"{row.seconds:.2f}",
                    f"{row.kept_back} of {row.films}",
                ]
                for row in rows
            ],
        )
    given = published()
    if "identity" in tables:
        out += _identity(rows, given)
    if "privdiff" in tables:
        out += _privdiff(rows, given)
    if "reports" in tables:
        out += _reports(rows, given)
    out += ["### What differs from the papers", ""]
    out += [f"- **{name}**: {words}" for name, words in given["differs"].items()]
    return "\n".join(out) + "\n"


#: Options that say where a method's networks come from or how long it searches. They make no other method.
_SAME_METHOD = ("pack", "weights", "steps", "trials")


def _of(rows: Sequence[Row], entry: Mapping[str, Any]) -> list[Row]:
    """The rows of the method that a published figure is of."""
    wanted = (entry["method"], entry.get("options", {}))

    def plain(setting: Setting) -> tuple[str, dict[str, Any]]:
        return setting.name, {name: value for name, value in setting.options if name not in _SAME_METHOD}

    return [row for row in rows if plain(row.setting) == wanted]


def _identity(rows: Sequence[Row], given: Mapping[str, Any]) -> list[str]:
    lines = []
    for entry in given["identity"]:
        for row in _of(rows, entry):
            ours = [row.cell(AS_PRINTED), row.cell(RETRAINED)]
            lines.append([entry["what"], row.setting.label, entry["published"], *ours])
    heads = ["films", "ours", "published accuracy", "ours as printed (trained on real)", "ours retrained on released"]
    source = f"{given['sources']['updp']}: {given['identity'][0]['place']}."
    return ["### Naming the patient (UPDP)", "", source, "", *table_lines(heads, lines)]


def _privdiff(rows: Sequence[Row], given: Mapping[str, Any]) -> list[str]:
    lines = []
    for entry in given["privdiff"]:
        for row in _of(rows, entry):
            lines.append(
                [
                    f"{entry['what']} ({entry['place']})",
                    row.setting.label,
                    entry["identification"],
                    row.cell(FROZEN),
                    row.cell(STRONGEST),
                    entry["classification"],
                    row.cell(JUDGE),
                ]
            )
    heads = ["films", "ours", "published verification AUC", "ours, frozen", "ours, strongest that adapts",
             "published classification AUC", "ours, frozen judge"]  # fmt: skip
    out = ["### Verification and classification (PrivDiff-Net, Tables 1 and 2)", "", *table_lines(heads, lines)]
    lines = []
    for entry in given["attributes"]:
        for row in _of(rows, entry):
            ours = [
                cell(row.find(f"{attribute} accuracy", attacker=attacker), True)
                for attribute in ("age", "sex")
                for attacker in ("frozen", "retrained")
            ]
            lines.append([entry["what"], row.setting.label, entry["age"], *ours[:2], entry["sex"], *ours[2:]])
    heads = ["films", "ours", "published age", "ours, frozen", "ours, retrained", "published sex", "ours, frozen",
             "ours, retrained"]  # fmt: skip
    return [*out, "### Age and sex (PrivDiff-Net, Table 3)", "", *table_lines(heads, lines)]


def _reports(rows: Sequence[Row], given: Mapping[str, Any]) -> list[str]:
    """UPDP's Tables 1 and 4, in the convention the field prints (R2Gen's normalised text)."""

    def texts(row: Row, regime: str) -> list[str]:
        return [cell(row.find(metric, protocol=R2GEN, regime=regime), True) for metric in TEXT]

    out = ["### Report generation by regime (UPDP, Table 1)", ""]
    lines = []
    known = {entry["regime"]: entry["published"] for entry in given["reports"]}
    for row in rows:
        for regime in _regimes(row):
            lines.append([row.setting.label, regime, *texts(row, regime)])
    for regime, figures in known.items():
        lines.append(["published, Qwen2.5-VL-7B", regime, *(f"{value:.2f}" for value in figures)])
    out += table_lines(["method", "learns from", *TEXT], lines)
    gains = [[row.setting.label, m.name, cell(m, True), _sharings(m)] for row in rows for m in row.measurements
             if "each_sharing" in m.detail]  # fmt: skip
    if gains:
        out += ["Gains and ratios over the same films and resamples, and in each sharing of the patients:", ""]
        out += table_lines(["method", "comparison", "figure, per cent", "each sharing"], gains)
    out += ["### Prompt searches (UPDP, Table 4)", "", "Captioners that learn from transferred films alone.", ""]
    lines = []
    for entry in given["searches"]:
        for row in _of(rows, entry):
            lines.append([row.setting.label, *texts(row, "transfer de-identified")])
            lines.append([f"{entry['what']}, published", *(f"{value:.2f}" for value in entry["published"])])
    return [*out, *table_lines(["method", *TEXT], lines)]


def _sharings(m: Measurement) -> str:
    """What each sharing of the patients between the two hospitals alone says."""
    each = m.detail.get("each_sharing", ())
    # A ratio to nothing is no figure; a file that was read back says null.
    return ", ".join("–" if value is None or not math.isfinite(value) else f"{100 * value:.1f}" for value in each)


def _regimes(row: Row) -> list[str]:
    return list(dict.fromkeys(str(m.regime) for m in row.measurements if m.metric == TEXT[0]))
