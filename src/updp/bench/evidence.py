"""The evidence of every method in tables: what the gate asks, and the controls whose answer is known.

A row is a method at one strength, measured on the same films as the others. Rows come from a run of `updp bench
methods`, or from the file that it wrote (``rows_of``), so that a page shows what was measured and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from updp.core.markdown import table_lines
from updp.core.measurement import Measurement, find
from updp.core.policy import GatePolicy
from updp.core.questions import QUESTIONS
from updp.evaluation.cohort.settings import PLACES, Setting
from updp.evaluation.probes.attacks.film import ENOUGH
from updp.release.gate import judge


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, the fields of the measurement in it, whether it is printed in per cent."""

    heading: str
    metric: str
    fields: Mapping[str, str] = field(default_factory=dict)
    percent: bool = True


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

    @property
    def method(self) -> str:
        return self.setting.shown

    @property
    def name(self) -> str:
        return self.method if self.setting.strength is None else f"{self.method} {self.setting.strength:g}"

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.setting.name,
            "options": {name: value for name, value in self.setting.options if name not in PLACES},
            "strength": self.setting.strength,
            "seconds_a_film": round(self.seconds, 4),
            "kept_back": self.kept_back,
            "measurements": [m.to_json() for m in self.measurements],
        }


def rows_of(facts: Mapping[str, Any]) -> list[Row]:
    """The rows of a ``methods.json``."""
    return [
        Row(
            Setting(row["method"], tuple(row["options"].items()), row["strength"]),
            tuple(Measurement.from_json(m) for m in row["measurements"]),
            row["seconds_a_film"],
            row["kept_back"],
            facts["about"]["films"],
        )
        for row in facts["rows"]
    ]


def cell(m: Measurement | None, percent: bool) -> str:
    """A figure with its interval, or that it was not measured."""
    if m is None:
        return ""
    if not m.measured:
        return "not measured"
    scale = 100 if percent else 1
    value, low, high = (scale * v for v in (m.value, m.low, m.high))
    digits = 1 if percent else 2 if abs(value) < 100 else 0
    chance = "" if m.chance is None or not percent else f", chance {scale * m.chance:.1f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{chance}"


_OWN, _OTHER = {"protocol": "own film"}, {"protocol": "another film"}
FILM = (
    Column("own film", "film linkage", _OWN, percent=False),
    Column("own film, added by the pixels", "film linkage beyond twins", _OWN, percent=False),
    Column("another film", "film linkage", _OTHER, percent=False),
    Column("another film, added by the pixels", "film linkage beyond twins", _OTHER, percent=False),
)
REAL, TAUGHT = {"regime": "train real, test real"}, {"regime": "train released, test real"}
BOTH, SHOWN = {"regime": "train real and released, test real"}, {"regime": "train real, test released"}
SKILL = (
    Column("skill kept", "diagnostic skill kept", percent=False),
    Column("AUC, trained on released films", "diagnosis AUC", TAUGHT, percent=False),
    Column("AUC, trained on real and released films", "diagnosis AUC", BOTH, percent=False),
    Column("AUC on released films, trained on real ones", "diagnosis AUC", SHOWN, percent=False),
)
_SPACE = {"protocol": "imagenet, k=5"}
FIDELITY = (
    *(Column(f"power at {b} cycles", f"power at {b} cycles", percent=False) for b in ("8–16", "16–32", "32–64")),
    Column("coverage", "coverage", _SPACE, percent=False),
    Column("density", "density", _SPACE, percent=False),
    Column("Fréchet distance without bias", "FD-imagenet without bias", percent=False),
    Column("real or released, AUC", "real or released, AUC [imagenet]", percent=False),
)


def evidence(rows: Sequence[Row], about: Mapping[str, Any], heading: str = "###") -> list[str]:
    """What the gate asks, of every method and of the controls: the record, the film beyond it, use, fidelity."""
    if not rows:
        return []
    return [*_about(about), *_record(rows[0], heading), *_film(rows, heading), *_use(rows, heading),
            *_fidelity(rows, heading), *_membership(rows, heading)]  # fmt: skip


def _about(about: Mapping[str, Any]) -> list[str]:
    pack = about["pack"]
    models = "No model pack" if pack is None else f"Model pack {pack['name']} (`{pack['sha256'][:12]}`)"
    effort = "quick" if about["quick"] else "full"
    patients = about["patients"]
    scored = patients["val"] + patients["test"]
    who = "Every patient is scored" if scored < ENOUGH else f"{scored} of them are scored"
    return [
        f"{about['films']} films of {sum(patients.values())} patients who trained no pack used here, at "
        f"{about['size']} pixels. {who}, by attackers and judges that learned from others. {models}, "
        f"seed {about['seed']}, {effort} budget. Brackets are 95 % intervals over patients.",
        "",
        "Three rows are controls: films of noise, films of other patients (shuffled), and noise with every third "
        "patient untouched (planted).",
        "",
    ]


def _record(row: Row, heading: str) -> list[str]:
    found = [m for m in row.measurements if m.question == "record" and m.measured]
    costs: Mapping[str, Any] = next((m.detail["min_cell"] for m in found if "min_cell" in m.detail), {})
    return [
        f"{heading} What the record reveals",
        "",
        "The same for every method, since each release publishes labels and view.",
        "",
        *table_lines(["figure", "value"], [[m.title, cell(m, False)] for m in found]),
        *table_lines(
            ["`min_cell`", "films it would keep back"],
            [[k, f"{cost['films']} ({cost['share']:.0%})"] for k, cost in costs.items()],
        ),
    ]


def _film(rows: Sequence[Row], heading: str) -> list[str]:
    return [
        f"{heading} The film beyond its record",
        "",
        "The AUC of an attacker who finds a patient's real film among real films with the same published record: the "
        "film that the released one was made from, or another one. 0.5 is guessing. Beside it what the patient's own "
        "pixels add, against twins. The last column is the answer under the default policy.",
        "",
        *_table(rows, FILM, ["question"], lambda row: [_film_question(row)]),
    ]


def _film_question(row: Row) -> str:
    found = [m for m in row.measurements if m.question == "film"]
    asked = {"film": QUESTIONS["film"]}
    verdict = judge(GatePolicy(), released=1, quarantined=0, disjoint=True, evidence=found, questions=asked)
    check = verdict.check("film")
    return f"{check.outcome}: too few patients" if check.more_patients else str(check.outcome)


def _use(rows: Sequence[Row], heading: str) -> list[str]:
    real = next((m for row in rows if (m := row.find("diagnosis AUC", **REAL)) is not None), None)
    start = "the pack's network" if real is None else real.detail.get("judges_start_from", "the pack's network")
    return [
        f"{heading} Usefulness",
        "",
        f"Judges start from {start}; three of each kind. Trained on real films they reach {cell(real, False)} on real "
        "films. Skill kept is (AUC − 0.5) over the same of real films.",
        "",
        *_table(
            rows, SKILL, ["seconds per film", "kept back"],
            lambda row: [f"{row.seconds:.2f}", f"{row.kept_back} of {row.films}"],
        ),
    ]  # fmt: skip


def _fidelity(rows: Sequence[Row], heading: str) -> list[str]:
    same = ""
    coverage, distance = (rows[0].find(column.metric, **column.fields) for column in (FIDELITY[3], FIDELITY[5]))
    if coverage is not None and coverage.measured and distance is not None and distance.measured:
        expected = coverage.detail["expected"]["coverage"]
        apart = f"{distance.detail['real_to_real']:.2f}"
        same = f"Of two sets of real films coverage would be {expected:.2f}; two halves of them are {apart} apart. "
    return [
        f"{heading} Fidelity",
        "",
        "Power by cycles per film, relative to the real films: 1 is equal, less is blur, more is noise. Coverage, "
        "density and distance are in features of EfficientNet-Lite0 of ImageNet, through which the critic of the "
        f"pack's finisher looked too. {same}The last column is how well a classifier tells released from real films: "
        "0.5 is not at all.",
        "",
        *_table(rows, FIDELITY),
    ]


def _membership(rows: Sequence[Row], heading: str) -> list[str]:
    asked = [(row, m) for row in rows if (m := row.find("strongest membership")) is not None and m.exemption is None]
    lines = [[row.name, cell(m, False) if m.measured else f"not measured: {m.reason}"] for row, m in asked]
    rest = "other methods" if lines else "these methods"
    return [
        f"{heading} Whose films trained the method",
        "",
        *(table_lines(["method", "membership"], lines) if lines else []),
        f"Of {rest} the question does not arise: they learned from no image, or from none of these patients.",
        "",
    ]


def _table(rows: Sequence[Row], columns: Sequence[Column], further: Sequence[str] = (), more: Any = None) -> list[str]:
    heads = ["method", *(column.heading for column in columns), *further]
    return table_lines(
        heads, [[row.name, *map(row.cell, columns), *(more(row) if more else ())] for row in rows]
    )
