"""`updp bench methods`: every method on the same real patients in one run, beside the published figures.

The evidence as the gate asks for it (``evidence``), and the tables of two papers: UPDP's identity figures, Table 1
(report generation by regime) and Table 4 (prompt searches), PrivDiff-Net's Tables 1 and 3. Methods run through the
Method protocol on a sample of a source. Patients who trained a pack of one of the methods have no part in it; attackers
learn on some of the others and are scored on the rest, or on all in turn. Each method and strength has a file, and each
evaluation another, so an interrupted bench resumes. Published figures and what differs from them are data
(``published.toml``).
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.bench.evidence import SKILL, Column, Row, cell, evidence
from updp.core.markdown import table_lines
from updp.core.measurement import Measurement
from updp.core.policy import GatePolicy, MethodPolicy, Policy
from updp.core.registry import unknown
from updp.core.storage import write_bytes
from updp.domains import DEFAULT, DOMAINS
from updp.evaluation import charts
from updp.evaluation.cohort.load import private
from updp.evaluation.cohort.sample import Sample, exhibit_of, made_once, pack_for, probes_for, take_sample
from updp.evaluation.cohort.settings import CONTROLS, MethodPlan, Setting, placed, settings
from updp.evaluation.cohort.unseen import unseen
from updp.evaluation.evaluate import budget_of, learned_in, method_use, pack_facts, run_probes
from updp.evaluation.probes.utility.diagnosis import OTHER, RELEASED_REAL
from updp.evaluation.probes.utility.text_metrics import R2GEN
from updp.evaluation.report import point_of, points
from updp.methods import make_method, packs_of
from updp.models import load_pack

if TYPE_CHECKING:
    from updp.evaluation.apart import Apart
    from updp.evaluation.probes.base import MethodUse, Probe
    from updp.models.pack import Pack

Say = Callable[[str], None]
#: The probes a table needs.
TABLES: Mapping[str, tuple[str, ...]] = {
    "identity": ("identification",),
    "privdiff": ("film", "verification", "attributes", "diagnosis", "images"),
    "reports": ("report generation",),
    "frontier": ("record", "film", "diagnosis", "images"),
    "evidence": ("record", "film", "membership", "diagnosis", "images"),
    "skill": ("diagnosis", "other judges", "images"),
}
#: Those that may be asked for; `updp bench frontier` has one of its own.
ASKED = ("evidence", "identity", "privdiff", "reports", "skill")
#: Films that an attacker of the evidence puts through a method with networks itself, in a quick bench too.
_AGAIN = 100
#: Few films per patient: the interval depends on the number of patients, the cost on the number of films.
PER_PATIENT = 4
#: Attackers and judges learn from most of a sample; the rest is scored.
SPLITS: Mapping[Any, float] = {"train": 0.6, "val": 0.13, "test": 0.27}


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
_OTHERS: Mapping[str, str] = {"regime": RELEASED_REAL, "protocol": OTHER}
#: Usefulness for judges through two networks, and how plainly released films show their findings.
SKILLS = (
    *SKILL,
    Column("skill kept, judges through VGG16", "skill kept", _OTHERS, percent=False),
    Column("AUC, taught by released films, VGG16", "diagnosis AUC", _OTHERS, percent=False),
    Column("power at 32–64 cycles", "power at 32–64 cycles", percent=False),
)
#: Columns of the report tables, as the paper orders them.
TEXT = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L COCO")


class BadBench(ValueError):
    """The bench cannot run as asked; the message says why."""


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
    apart: Apart | None = None,
    part: tuple[int, int] | None = None,
    say: Say = print,
) -> list[Row]:
    """Measure every method; ``methods.md``, ``methods.json``, ``frontier.json`` and ``frontier.svg`` go to ``out``.

    ``part`` (2, 5) measures the second fifth of the settings and writes no table: processes share ``out``, and a last
    call without ``part`` writes the tables. ``apart`` lets probes run in workers of an engine; on a cluster ``out`` is
    a folder that every node has.
    """
    if wrong := sorted(set(tables) - set(ASKED)):
        raise BadBench(unknown("table", wrong[0], ASKED))
    plans = [one if isinstance(one, str) else placed(one, source) for one in methods]
    todo = settings(plans, strengths, pack)
    sample = take_unseen(source, films, out, todo, pack, seed, layout, domain=domain, per_patient=PER_PATIENT)
    models = pack_for(sample, pack)
    budget = budget_of(quick)
    if "evidence" in tables:
        todo += map(Setting, CONTROLS)
        budget = budget.but(again=max(_AGAIN, budget.again))
    counted = {
        split: len({s.patient_id for s in sample.studies if s.split == split}) for split in ("train", "val", "test")
    }
    say(f"{len(sample)} films of {sum(counted.values())} patients, {counted['val'] + counted['test']} of them scored")
    rows: list[Row] = []
    for setting in todo if part is None else todo[part[0] - 1 :: part[1]]:
        rows.append(measured_row(sample, setting, models, budget, seed, tables, out, probes, apart))
        say(describe_row(rows[-1]))
    if part is not None:
        return rows
    rows.sort(key=lambda row: row.setting.name not in CONTROLS)
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


def take_unseen(
    source: Path,
    films: int,
    out: Path,
    todo: Sequence[Setting],
    pack: str | None,
    seed: int,
    layout: str | None,
    **more: Any,
) -> Sample:
    """Films of patients who trained no pack of a bench, kept in ``out``; ``more`` goes to ``take_sample``.

    Methods without weights, or with weights of another pack, end here, before any film is read.
    """
    place = unseen(packs_of_settings(todo, pack, more.get("domain")))
    private(out)
    kept = out / ".cache" / "films"
    return take_sample(source, films, splits=SPLITS, seed=seed, layout=layout, cache=kept, place=place, **more)


def measured_row(
    sample: Sample,
    setting: Setting,
    pack: Any,
    budget: Any,
    seed: int,
    tables: Sequence[str],
    out: Path,
    probes: Callable[[], Sequence[Probe]] | None,
    apart: Apart | None = None,
) -> Row:
    """One method at one strength, from what an earlier run left where it is the same."""
    made = made_once(sample, setting, seed, out / ".cache" / "made")
    use = use_of(setting)
    facts = (made.origin, seed, budget, _judges(pack), sorted(tables), "A3 runs the method")
    key = hashlib.sha256(repr(facts).encode()).hexdigest()
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
        method=use,
        apart=apart,
    )
    path.parent.mkdir(exist_ok=True)
    held = {"setting": setting.label, "key": key, "measurements": [m.to_json() for m in measured]}
    write_bytes(path, (json.dumps(held, indent=1) + "\n").encode())
    return Row(setting, measured, made.seconds, made.kept_back, len(sample))


def _judges(pack: Pack | None) -> dict[str, str] | None:
    """The models that attackers and judges look through. The generator is asked about membership alone, of methods that
    run on it: digests of their packs are in the origin of their films."""
    if pack is None:
        return None
    return {role: pack.role_digest(role) for role in pack.info["roles"] if role != "generator"}


def use_of(setting: Setting) -> MethodUse | None:
    """What an attacker knows of the method; a control has none."""
    if setting.name in CONTROLS:
        return None
    return method_use(Policy(method=MethodPolicy(name=setting.name, options=dict(setting.options),
                                                 strength=setting.strength)))  # fmt: skip


def packs_of_settings(todo: Sequence[Setting], pack: str | None, domain: str | None = None) -> list[Pack]:
    """Every pack that a method of a bench runs on, and that of attackers and judges: whoever trained one is seen."""
    judges = pack or DOMAINS[domain or DEFAULT].pack
    used = {judges} if judges else set()
    for setting in todo:
        used |= set(packs_of(make_method(setting.name, dict(setting.options))).values())
    return [load_pack(name, verify=False) for name in sorted(used)]


def describe_row(row: Row) -> str:
    """A row in one line."""
    parts = [row.name]
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
        "rows": [row.to_json() for row in rows],
    }
    write_bytes(out / "methods.json", (json.dumps(facts, indent=1) + "\n").encode())
    found = [p for row in rows if (p := point_of(row.method, row.setting.strength, row.measurements))]
    frontier = {"format": "updp-frontier-1", "points": found, **about}
    write_bytes(out / "frontier.json", (json.dumps(frontier, indent=2) + "\n").encode())
    if found:
        write_bytes(out / "frontier.svg", plain_picture(rows) if "evidence" in tables else picture(rows))


def plain_picture(rows: Sequence[Row]) -> bytes:
    """The film beyond its record against the skill kept, of every method that has both."""
    limits = GatePolicy()
    found = [p for row in rows if (p := point_of(row.method, row.setting.strength, row.measurements))]
    plane = charts.plane(points(found), limits.max_film_linkage, limits.min_skill)
    return charts.standalone(plane)


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
            point = point_of(row.method, row.setting.strength, row.measurements)
            if point is not None:
                found.append(point | {"linkage": {"value": m.value, "low": m.low, "high": m.high, "n": m.n}})
        across = f"{title}, max(AUC, 1−AUC)"
        halves.append(charts.Plane(points(found), limits.max_film_linkage, limits.min_skill, across))
    label = "Privacy and utility of every method, frozen and adaptive attacker"
    return charts.standalone(charts.planes(halves, label))


def markdown(rows: Sequence[Row], about: Mapping[str, Any], tables: Sequence[str]) -> str:
    """Every table asked for, with the published figures and what differs from them."""
    out = evidence(rows, about) if "evidence" in tables else _figures(rows, about, tables)
    given = published()
    if "identity" in tables:
        out += _identity(rows, given)
    if "privdiff" in tables:
        out += _privdiff(rows, given)
    if "reports" in tables:
        out += _reports(rows, given)
    if "skill" in tables:
        out += ["### Usefulness for judges through two networks", ""]
        heads = ["method", *(column.heading for column in SKILLS), "seconds per film"]
        lines = [[row.name, *map(row.cell, SKILLS), f"{row.seconds:.2f}"] for row in rows]
        out += table_lines(heads, lines)
    if set(tables) - {"evidence", "skill"}:
        out += ["### What differs from the papers", ""]
        out += [f"- **{name}**: {words}" for name, words in given["differs"].items()]
    return "\n".join(out) + "\n"


def _figures(rows: Sequence[Row], about: Mapping[str, Any], tables: Sequence[str]) -> list[str]:
    """On whom the figures are, and those of the papers' measures; the evidence has tables of its own for both."""
    patients, pack = about["patients"], about["pack"]
    models = "No model pack" if pack is None else f"Model pack {pack['name']} (`{pack['sha256'][:12]}`)"
    out = [
        f"{about['films']} films at {about['size']} pixels; attackers and judges learn on {patients['train']} patients "
        f"and are scored on {patients['val'] + patients['test']} others; none of them trained a pack used here. "
        f"{models}, seed {about['seed']}, {'quick' if about['quick'] else 'full'} budget. "
        "Figures in per cent unless they are ratios or distances; brackets are 95 % intervals over patients.",
        "",
    ]
    if not {"identity", "privdiff"} & set(tables):
        return out
    out += ["### Privacy", ""]
    out += table_lines(
        ["method", *(column.heading for column in PRIVACY)],
        [[row.name, *map(row.cell, PRIVACY)] for row in rows],
    )
    out += ["### Utility and cost", ""]
    out += table_lines(
        ["method", *(column.heading for column in UTILITY), "seconds per film", "kept back"],
        [[row.name, *map(row.cell, UTILITY), f"{row.seconds:.2f}", f"{row.kept_back} of {row.films}"]
         for row in rows],
    )  # fmt: skip
    return out


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
            lines.append([entry["what"], row.name, entry["published"], row.cell(AS_PRINTED), row.cell(RETRAINED)])
    heads = ["films", "setting", "published accuracy", "trained on real (as printed)", "retrained on released"]
    source = f"{given['sources']['updp']}: {given['identity'][0]['place']}."
    return ["### Naming the patient (UPDP)", "", source, "", *table_lines(heads, lines)]


def _privdiff(rows: Sequence[Row], given: Mapping[str, Any]) -> list[str]:
    lines = []
    for entry in given["privdiff"]:
        for row in _of(rows, entry):
            lines.append(
                [
                    f"{entry['what']} ({entry['place']})",
                    row.name,
                    entry["identification"],
                    row.cell(FROZEN),
                    row.cell(STRONGEST),
                    entry["classification"],
                    row.cell(JUDGE),
                ]
            )
    heads = ["films", "setting", "published verification AUC", "frozen", "strongest that adapts",
             "published classification AUC", "frozen judge"]  # fmt: skip
    out = ["### Verification and classification (PrivDiff-Net, Tables 1 and 2)", "", *table_lines(heads, lines)]
    lines = []
    for entry in given["attributes"]:
        for row in _of(rows, entry):
            ours = [
                cell(row.find(f"{attribute} accuracy", attacker=attacker), True)
                for attribute in ("age", "sex")
                for attacker in ("frozen", "retrained")
            ]
            lines.append([entry["what"], row.name, entry["age"], *ours[:2], entry["sex"], *ours[2:]])
    heads = ["films", "setting", "published age", "age, frozen", "age, retrained", "published sex", "sex, frozen",
             "sex, retrained"]  # fmt: skip
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
            lines.append([row.name, regime, *texts(row, regime)])
    for regime, figures in known.items():
        lines.append(["published, Qwen2.5-VL-7B", regime, *(f"{value:.2f}" for value in figures)])
    out += table_lines(["method", "learns from", *TEXT], lines)
    gains = [[row.name, m.name, cell(m, True), _sharings(m)] for row in rows for m in row.measurements
             if "each_sharing" in m.detail]  # fmt: skip
    if gains:
        out += ["Gains and ratios over the same films and resamples, and in each sharing of the patients:", ""]
        out += table_lines(["method", "comparison", "figure, per cent", "each sharing"], gains)
    out += ["### Prompt searches (UPDP, Table 4)", "", "Captioners that learn from transferred films alone.", ""]
    lines = []
    for entry in given["searches"]:
        for row in _of(rows, entry):
            lines.append([row.name, *texts(row, "transfer de-identified")])
            lines.append([f"{entry['what']}, published", *(f"{value:.2f}" for value in entry["published"])])
    return [*out, *table_lines(["method", *TEXT], lines)]


def _sharings(m: Measurement) -> str:
    """What each sharing of the patients between the two hospitals alone says."""
    each = m.detail.get("each_sharing", ())
    # A ratio to nothing is no figure; a file that was read back says null.
    return ", ".join("–" if value is None or not math.isfinite(value) else f"{100 * value:.1f}" for value in each)


def _regimes(row: Row) -> list[str]:
    return list(dict.fromkeys(str(m.regime) for m in row.measurements if m.metric == TEXT[0]))
