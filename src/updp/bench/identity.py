"""`updp bench identity`: UPDP's identity experiment on patients the generator was trained on, and on other patients.

Fifty patients with several films are de-identified by each setting, and a classifier of the fifty names the patient of
each film: trained on real films as the paper prints it, and retrained on released ones. The paper does not say whether
its generator was trained on its patients. In the first group the fifty are of the pack's training patients, so the
figures show what the generator memorised; in the second they are not. Both groups have the same attackers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.bench.evidence import Column, Row, rows_of
from updp.bench.methods import AS_PRINTED, RETRAINED, measured_row
from updp.core.markdown import table_lines
from updp.core.record import Split, Study, place_of
from updp.core.storage import write_bytes
from updp.domains.chest import PACK
from updp.evaluation.cohort.load import private
from updp.evaluation.cohort.sample import NoSample, Place, pack_for, take_sample
from updp.evaluation.cohort.settings import MethodPlan, settings
from updp.evaluation.cohort.unseen import learned_from, unseen
from updp.evaluation.evaluate import budget_of, pack_facts
from updp.training.corpus import rule_of, split_for

if TYPE_CHECKING:
    from updp.evaluation.probes.base import Probe
    from updp.models.pack import Pack

Say = Callable[[str], None]
PATIENTS = 50
#: Most films of a patient (`updp.evaluation.cohort.sample`); films that teach the attackers, for each patient to name.
_OF_EACH, _TAUGHT, _TAUGHT_QUICK = 10, 12, 4
ADAPTED = Column("adapted, own film", "identification accuracy", {"attacker": "A2", "protocol": "own film"})
REAL = Column("real films", "identification accuracy on real films")
COLUMNS = (AS_PRINTED, RETRAINED, ADAPTED, REAL)
#: What is named: real films, films of the raw report, both readings of UPDP, and settings between them.
PLANS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("keep", {}, "97.21"),
    ("updp", {"search": "raw"}, "13.69"),
    ("updp", {"search": "similarity"}, ""),
    ("updp", {"mode": "literal", "init": "raw"}, "4.57"),
    ("updp", {"free": "all"}, ""),
    ("updp", {}, "4.57"),
    ("updp", {"search": "report"}, ""),
    ("updp", {"mode": "ldp", "epsilon": 10.0}, ""),
)


@dataclass(frozen=True)
class Group:
    """The patients to name, and every setting on their films."""

    name: str
    rows: tuple[Row, ...]
    patients: int
    films: int


def score_trained(pack: Pack) -> Place:
    """Patients the pack learned from are scored; attackers learn on those of ``unseen`` that teach there too."""
    others = unseen([pack])

    def place(study: Study, layout: str) -> Split | None:
        if learned_from(pack, layout) and split_for(layout, study, rule_of(pack)) == "train":
            return "test" if place_of(study.patient_id, b"updp identity experiment") < 0.5 else None
        return "train" if others(study, layout) == "train" else None

    return place


def score_others(pack: Pack) -> Place:
    """No patient trained the pack: the usual cohort, its scored part as one split."""
    others = unseen([pack])

    def place(study: Study, layout: str) -> Split | None:
        split = others(study, layout)
        return split if split in (None, "train") else "test"

    return place


def bench_identity(
    source: Path,
    out: Path,
    *,
    pack: str | None = None,
    strength: float = 0.0,
    patients: int = PATIENTS,
    quick: bool = False,
    seed: int = 0,
    layout: str | None = None,
    probes: Callable[[], Sequence[Probe]] | None = None,
    say: Say = print,
) -> list[Group]:
    """Both groups; ``identity.md`` and ``identity.json`` go to ``out``. The same call resumes."""
    from updp.models import load_pack

    models = load_pack(pack or PACK)
    plans = [MethodPlan(name=name, options=options, strengths=(strength,)) for name, options, _ in PLANS]
    todo = settings(plans, None, pack)
    private(out)
    budget = budget_of(quick).but(patients=patients)
    groups = []
    for name, place in (("training patients", score_trained(models)), ("other patients", score_others(models))):
        folder = out / name.replace(" ", "-")
        private(folder)
        films, taught = patients * _OF_EACH, patients * (_TAUGHT_QUICK if quick else _TAUGHT)
        try:
            sample = take_sample(
                source,
                films + taught,
                splits={"train": taught / (films + taught), "test": films / (films + taught)},
                seed=seed,
                layout=layout,
                cache=folder / ".cache" / "films",
                place=place,
            )
        except NoSample:
            say(f"{name}: the source has no such patient")
            continue
        judges = pack_for(sample, pack)
        rows = []
        for setting in todo:
            rows.append(measured_row(sample, setting, judges, budget, seed, ["identity"], folder, probes))
            say(f"{name}, {setting.label}: {rows[-1].cell(AS_PRINTED) or 'not measured'}")
        scored = [study for study in sample.studies if study.split == "test"]
        groups.append(Group(name, tuple(rows), len({s.patient_id for s in scored}), len(scored)))
    if not groups:
        raise NoSample("the source has no patient of either group")
    write_bytes(out / "identity.md", markdown(groups).encode())
    written = [
        {
            "group": group.name,
            "patients": group.patients,
            "films": group.films,
            "rows": [row.to_json() for row in group.rows],
        }
        for group in groups
    ]
    facts = {"about": {"pack": pack_facts(models), "seed": seed, "quick": quick}, "groups": written}
    write_bytes(out / "identity.json", (json.dumps(facts, indent=1) + "\n").encode())
    return groups


def groups_of(facts: Mapping[str, Any]) -> list[Group]:
    """The groups of an ``identity.json``."""
    return [
        Group(
            group["group"],
            tuple(rows_of({"about": {"films": group["films"]}, "rows": group["rows"]})),
            group["patients"],
            group["films"],
        )
        for group in facts["groups"]
    ]


def markdown(groups: Sequence[Group]) -> str:
    """Accuracy in per cent, by group and setting, the published figure beside it."""
    lines = []
    for group in groups:
        about = f"{group.name} ({group.patients} patients, {group.films} films)"
        for row, (_, _, published) in zip(group.rows, PLANS, strict=True):
            cells = [row.cell(column) for column in COLUMNS]
            lines.append([about, row.name, published, *cells])
    heads = ["patients", "films", "published", "trained on real films", "retrained on released", ADAPTED.heading]
    return "\n".join(table_lines([*heads, REAL.heading], lines)) + "\n"
