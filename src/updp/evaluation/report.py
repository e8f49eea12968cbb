"""The report of an evaluation: verdict first, then the picture, the attacks, the findings, and what was not measured.

One self-contained page, made from ``evaluation.json`` alone plus a sheet of films. Inside a release the sheet shows
released films; real films stand beside them only in the copy that stays in the hospital.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from updp.core.measurement import Measurement
from updp.core.policy import Policy
from updp.evaluation import charts
from updp.release.card import evidence_page
from updp.release.gate import BOUNDS, MEASUREMENTS

if TYPE_CHECKING:
    from jinja2 import Environment

    from updp.evaluation.cohort.exhibit import Exhibit

#: Films on the sheet.
SHOWN = 8

#: What a question is called, and what it means that its bound holds, fails, or cannot be told.
WORDS: Mapping[str, tuple[str, str, str, str]] = {
    "linkage": (
        "Linking",
        "An attacker who trained on this method's films cannot link a released film to its patient's real films beyond "
        "the bound of the policy.",
        "An attacker who trained on this method's films can link released films to their patients' real films.",
        "Whether released films can be linked to their patients' real films cannot be told with so few patients.",
    ),
    "identification": (
        "Naming the patient",
        "A classifier of patients names the patient of a released film no more often than the bound above guessing.",
        "A classifier of patients names the patient of a released film more often than the policy allows.",
        "Whether a classifier can name the patient of a released film cannot be told with so few patients.",
    ),
    "attributes": (
        "Age and sex",
        "Age group and sex can be read from released films no better than the bound above guessing.",
        "Age group or sex can be read from released films better than the policy allows.",
        "Whether age group or sex can be read from released films cannot be told with so few patients.",
    ),
    "membership": (
        "Training films",
        "Nobody can tell from the generator whose films it was trained on, beyond the bound.",
        "One can tell from the generator whose films it was trained on.",
        "Whether one can tell whose films trained the generator cannot be told with so few patients.",
    ),
    "text": (
        "Reports",
        "A second detector, which shares no code with the first, finds no PHI in the reports beyond the bound.",
        "A second detector finds what looks like PHI in more reports than the policy allows.",
        "Whether PHI is left in the reports cannot be told with so few of them.",
    ),
    "utility": (
        "Usefulness",
        "For diagnosis the released films serve nearly as well as real ones, within the bound.",
        "For diagnosis the released films serve worse than the policy asks.",
        "Whether the released films serve well enough for diagnosis cannot be told with so few patients.",
    ),
}


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), undefined=StrictUndefined, autoescape=True
    )


def page(
    facts: Mapping[str, Any],
    policy: Policy,
    *,
    films: Sequence[Mapping[str, str]] = (),
    title: str = "The evidence for this release",
    notice: str = "",
    pairs: list[dict[str, Any]] | None = None,
) -> str:
    """The whole report. ``films`` is a ``sheet``; ``pairs`` are the demonstration's studies before and after."""
    return evidence_page(
        facts,
        policy,
        title=title,
        notice=notice,
        pairs=pairs,
        evaluation=evaluation_part(facts, policy, films),
    )


def evaluation_part(facts: Mapping[str, Any], policy: Policy, films: Sequence[Mapping[str, str]] = ()) -> Markup:
    """What the evaluation adds to the page of a release."""
    measured = [Measurement.from_json(m) for m in facts["measurements"]]
    answers = _answers(facts, measured)
    return Markup(
        _templates()
        .get_template("evaluation.html.jinja")
        .render(
            facts=facts,
            about=facts["evaluation"],
            holds=[a for a in answers if a["held"] is True],
            fails=[a for a in answers if a["held"] is False],
            open=[a for a in answers if a["held"] is None],
            picture=_picture(facts, policy, measured),
            groups=_groups(measured, policy),
            curves=_curves(measured),
            findings=_findings(measured),
            films=films,
            missing=_missing(measured),
        )
    )


def _answers(facts: Mapping[str, Any], measured: Sequence[Measurement]) -> list[dict[str, Any]]:
    """The gate's checks in words."""
    out = []
    for check in facts["gate"]["checks"]:
        if check["name"] not in WORDS:
            if check["held"] is not True:
                out.append(
                    {"title": check["name"].capitalize(), "held": check["held"], "words": "", "detail": check["detail"]}
                )
            continue
        title, good, bad, unsure = WORDS[check["name"]]
        held, detail = check["held"], str(check["detail"])
        if detail.startswith("does not arise"):
            words, detail = f"The question does not arise: {detail.partition(': ')[2]}.", ""
        elif detail.startswith("asked, not answered"):
            words = "The question was asked and could not be answered; without an answer nothing may leave."
            detail = detail.partition(": ")[2]
        elif held is None:
            words, detail = f"Not asked in this evaluation: {MEASUREMENTS[check['name']]}", ""
        else:
            words = good if held else unsure if "would do" in detail else bad
        out.append({"title": title, "held": held, "words": words, "detail": detail})
    return out


# -- the picture -----------------------------------------------------------------------------------------------------


class BadFrontier(ValueError):
    """The file is not a frontier."""


def read_frontier(path: Path) -> list[dict[str, Any]]:
    """Points of a ``frontier.json``; refuses a file that is something else."""
    try:
        found = json.loads(path.read_bytes())["points"]
        for p in found:
            if not isinstance(p["method"], str) or not isinstance(p["strength"], float | int | None):
                raise TypeError
            for side in ("linkage", "utility"):
                [float(p[side][end]) for end in ("value", "low", "high")]
    except OSError:
        raise BadFrontier(f"{path}: no such file, or it cannot be read") from None
    except (ValueError, KeyError, TypeError):
        raise BadFrontier(f"{path} is not a frontier made by updp tune or updp bench methods") from None
    return [dict(p) for p in found]


def point_of(
    method: str, strength: float | None, measured: Iterable[Measurement], **more: Any
) -> dict[str, Any] | None:
    """A method at one strength as a point of the privacy-utility picture; None where either figure is missing."""
    found = {m.name: m for m in measured if m.measured}
    linkage, utility = found.get("strongest linkage"), found.get("diagnosis utility")
    if linkage is None or utility is None:
        return None

    def figure(m: Measurement) -> dict[str, Any]:
        return {"value": m.value, "low": m.low, "high": m.high, "n": m.n}

    return {"method": method, "strength": strength, "linkage": figure(linkage), "utility": figure(utility), **more}


def points(frontier: Iterable[Mapping[str, Any]], here: Mapping[str, Any] | None = None) -> list[charts.Point]:
    """Points of a frontier file as the picture takes them, this release last and largest."""
    out = []
    for p in [*frontier, *([here] if here else [])]:
        linkage, utility = ((p[side]["value"], p[side]["low"], p[side]["high"]) for side in ("linkage", "utility"))
        strength = "" if p["strength"] is None else f" {p['strength']:g}"
        mine = p is here
        label = f"this release: {p['method']}{strength}" if mine else f"{p['method']}{strength}"
        out.append(charts.Point(label, p["method"], linkage, utility, here=mine))
    return out


def _picture(facts: Mapping[str, Any], policy: Policy, measured: Sequence[Measurement]) -> Markup | None:
    here = point_of(policy.method.name, policy.method.strength, measured)
    shown = points(facts.get("frontier", ()), here)
    return charts.plane(shown, policy.gate.max_linkage, policy.gate.min_utility) if shown else None


# -- tables ----------------------------------------------------------------------------------------------------------


def _groups(measured: Sequence[Measurement], policy: Policy) -> list[dict[str, Any]]:
    """Measurements by question, each with its interval drawn; the bounded one of a question is marked."""
    out = []
    for question, (title, *_) in WORDS.items():
        rows = []
        for m in measured:
            if m.detail.get("question") != question or not m.measured:
                continue
            bound = BOUNDS[question]
            limit = bound.allowed(policy.gate, m) if bound.reads(m) else None
            rows.append({"m": m, "bar": _bar(m, limit), "limit": limit, "side": bound.side, "main": _main(m, limit)})
        if rows:
            first = [row for row in rows if row["main"]] or rows
            rest = [row for row in rows if row not in first]
            out.append({"title": title, "question": MEASUREMENTS[question], "rows": first, "more": rest})
    return out


#: Words in the names of measurements that are further views of one that is shown already.
_FURTHER = (
    *("max(AUC", "EER", "TPR at", "all pairs", "rank-5", "mAP", "gap", "flip"),
    *("BLEU", "METEOR", "ROUGE", "meteor_exact_stem"),
)
#: What a release adds or keeps is said first, whatever it is measured by.
_FIRST = ("gain in", "utility relative to real")


def _main(m: Measurement, limit: float | None) -> bool:
    """Whether a measurement belongs in the first table; the others are folded away below it."""
    return limit is not None or m.name.startswith(_FIRST) or not any(word in m.name for word in _FURTHER)


def _bar(m: Measurement, limit: float | None) -> Markup:
    ends = [v for v in (m.low, m.high, m.value, m.chance, limit) if v is not None]
    low, high = (0.0, 1.0) if min(ends) >= 0 and max(ends) <= 1 else (min(0.0, *ends), max(ends))
    return charts.interval(m.value, m.low, m.high, m.chance, limit, (low, high if high > low else low + 1))


def _missing(measured: Sequence[Measurement]) -> list[tuple[str, str, str]]:
    titles = {question: words[0] for question, words in WORDS.items()}
    rows = [
        (titles.get(str(m.detail.get("question")), ""), _name(m), str(m.reason)) for m in measured if not m.measured
    ]
    return list(dict.fromkeys(rows))


def _name(m: Measurement) -> str:
    return m.name + (f" ({m.attacker})" if m.attacker else "")


# -- curves ----------------------------------------------------------------------------------------------------------

#: Curves a measurement may carry: title, what runs across, what runs up, whether across is logarithmic, who reads it.
CURVES: Mapping[str, tuple[str, str, str, bool, str]] = {
    "roc": (
        "Same patient or not",
        "false alarms",
        "true matches",
        False,
        "The further a curve rises above the dashed line, the better that attacker tells films of one patient from "
        "films of two.",
    ),
    "size curve": (
        "Attackers with more to learn from",
        "patients or pairs the attacker learned from",
        "AUC",
        True,
        "A curve that still rises would rise further with a larger attacker than this release allows.",
    ),
    "gallery curve": (
        "Finding the patient among many",
        "films in the gallery",
        "rank-1 rate",
        True,
        "How often the first guess is the right patient, as the gallery of real films grows.",
    ),
}


def curve_points(curve: Any) -> list[list[float]]:
    """A curve as rows of numbers, whether it came as rows or as columns."""
    if isinstance(curve, Mapping):
        columns = [list(column) for column in curve.values() if isinstance(column, list | tuple)]
        curve = list(zip(*columns, strict=False))
    rows = [[float(v) for v in row if v is not None] for row in curve]
    return [row for row in rows if len(row) >= 2 and np.isfinite(row).all()]


def _curves(measured: Sequence[Measurement]) -> list[dict[str, Any]]:
    out = []
    for kind, (title, across, up, logarithmic, words) in CURVES.items():
        series = []
        for m in measured:
            rows = curve_points(m.detail[kind]) if m.detail.get(kind) else []
            if len(rows) > 1:
                series.append((m.attacker or m.name, thinned(rows)))
        if not series:
            continue
        series = list(dict(series).items())[: len(charts.SERIES)]
        if kind == "roc":
            drawn = charts.curves(series, across, up, diagonal=True)
        elif kind == "size curve":
            drawn = charts.curves(series, across, up, chance=0.5, logarithmic=logarithmic, bottom=0.4)
        else:
            drawn = charts.curves(series, across, up, logarithmic=logarithmic)
        out.append({"title": title, "words": words, "svg": drawn})
    return out


def thinned(rows: list[list[float]], most: int = 120) -> list[list[float]]:
    """At most so many points of a curve, its ends among them."""
    if len(rows) <= most:
        return rows
    keep = np.unique(np.linspace(0, len(rows) - 1, most).round().astype(int))
    return [rows[i] for i in keep]


# -- findings --------------------------------------------------------------------------------------------------------


def _findings(measured: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Per-finding AUCs of a judge beside those of the same judge on real films."""
    from updp.evaluation.probes.utility.diagnosis import AGAINST

    judges = [m for m in measured if m.measured and "each" in m.detail and "regime" in m.detail]
    by_regime = {str(m.detail["regime"]): m for m in judges}
    out = []
    for regime, reference in AGAINST.items():
        if regime not in by_regime or reference not in by_regime:
            continue
        ours, theirs = by_regime[regime], by_regime[reference]
        real = theirs.detail["each"]
        pairs = [
            (name.replace("_", " "), float(real[name]["auc"]), float(figures["auc"]))
            for name, figures in ours.detail["each"].items()
            if name in real and real[name]["auc"] is not None and figures["auc"] is not None
        ]
        if pairs:
            low = min(0.5, *(v for _, *both in pairs for v in both))
            svg = charts.dumbbells(pairs, reference, regime, (low, 1.0))
            out.append({"title": regime, "m": ours, "reference": theirs, "svg": svg})
    return out


# -- films -----------------------------------------------------------------------------------------------------------


def sheet(exhibit: Exhibit, *, real: bool, count: int = SHOWN) -> list[dict[str, str]]:
    """Films of different patients as pictures inside the page; ``real`` puts the real one beside each released one."""
    order = np.argsort(np.isin(exhibit.splits, ("val", "test")) * -1, kind="stable")
    order = order[~exhibit.kept_back[order]]
    shown: list[dict[str, str]] = []
    seen: set[str] = set()
    for row in order.tolist():
        patient = str(exhibit.patients[row])
        if patient in seen:
            continue
        seen.add(patient)
        entry = {"released": data_uri(exhibit.released[row])}
        if real:
            entry["real"] = data_uri(exhibit.real[row])
        shown.append(entry)
        if len(shown) == count:
            break
    return shown


def data_uri(film: Any, side: int = 256) -> str:
    from PIL import Image

    image = Image.fromarray(np.asarray(film))
    if max(image.size) > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.save(data, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(data.getvalue()).decode()
