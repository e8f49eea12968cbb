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

from updp.core.measurement import Measurement, find
from updp.core.policy import Policy
from updp.core.questions import QUESTIONS, Kind, Outcome
from updp.core.reasons import Refused
from updp.evaluation import charts
from updp.evaluation.agreement import MAJORITY, VERSIONS
from updp.release import construction
from updp.release.card import evidence_page

if TYPE_CHECKING:
    from jinja2 import Environment

    from updp.evaluation.cohort.exhibit import Exhibit

#: Films on the sheet.
SHOWN = 8


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
    beside: tuple[str, Mapping[str, Any], Policy] | None = None,
) -> str:
    """The whole report. ``films`` is a ``sheet``; ``pairs`` are the demonstration's studies before and after.

    ``beside`` is another release to set it against: a title, its facts and its policy.
    A release that readers have looked at and no attacker yet has the readers' part alone.
    """
    judged = evaluation_part(facts, policy, films, beside) if "evaluation" in facts else Markup()
    read = readers_part(facts["readers"]) if "readers" in facts else Markup()
    sentence = verdict_sentence(facts) if judged else ""
    return evidence_page(
        facts, policy, title=title, notice=notice, pairs=pairs, evaluation=judged + read, sentence=sentence
    )


def evaluation_part(
    facts: Mapping[str, Any],
    policy: Policy,
    films: Sequence[Mapping[str, str]] = (),
    beside: tuple[str, Mapping[str, Any], Policy] | None = None,
) -> Markup:
    """What the evaluation adds to the page of a release."""
    measured = _measured(facts)
    answers = _answers(facts)
    return Markup(
        _templates()
        .get_template("evaluation.html.jinja")
        .render(
            facts=facts,
            about=facts["evaluation"],
            rows=summary(facts, policy, measured),
            other=None if beside is None else _other(*beside),
            changes=changes(facts, policy, measured),
            holds=[a for a in answers if a["outcome"].good],
            fails=[a for a in answers if a["outcome"] in (Outcome.FAILED, Outcome.UNANSWERED)],
            open=[a for a in answers if a["outcome"] is Outcome.NOT_ASKED],
            picture=_picture(facts, policy, measured),
            groups=_groups(measured, policy),
            curves=_curves(measured),
            findings=_findings(measured),
            films=films,
            missing=_missing(measured),
        )
    )


def readers_part(study: Mapping[str, Any], alone: bool = False) -> Markup:
    """What a reader study adds to the page of a release (``updp.review.analyse``); ``alone``: it is the whole page."""
    measured = _measured(study)
    metrics = dict.fromkeys(m.metric for m in measured)
    tables = [_readers_table(metric, [m for m in measured if m.metric == metric]) for metric in metrics]
    whole = [m for m in measured if m.protocol == "all findings" and m.measured]
    lead = next((m for m in whole if m.detail.get("reader") == MAJORITY), whole[0] if whole else None)
    missing = [m for m in measured if not m.measured]
    template = _templates().get_template("readers.html.jinja")
    picture = _kappas(measured)
    return Markup(template.render(study=study, tables=tables, lead=lead, missing=missing, picture=picture, alone=alone))


def _kappas(measured: Sequence[Measurement]) -> Markup | None:
    """Every kappa of original against released film, by finding and by reader."""
    kappas = [m for m in measured if m.detail.get("compares") == VERSIONS and m.measured]
    if not kappas:
        return None
    rows = list(dict.fromkeys(str(m.protocol) for m in kappas))
    found = {(m.detail["reader"], str(m.protocol)): (m.value, m.low, m.high) for m in kappas}
    # Simulated readers say so in their names; their vote has none.
    simulated = {m.detail["reader"]: bool(m.detail.get("simulated")) for m in kappas}
    series = [
        (f"{reader} (simulated)" if reader == MAJORITY and marked else reader, [found.get((reader, r)) for r in rows])
        for reader, marked in simulated.items()
    ]
    return charts.agreement([row.replace("_", " ") for row in rows], series)


def readers_page(study: Mapping[str, Any]) -> str:
    """A reader study as a page of its own."""
    return _templates().get_template("study.html.jinja").render(part=readers_part(study, alone=True))


#: What the tables of a reader study say.
READERS: Mapping[str, str] = {
    "Cohen's kappa": "Agreement beyond chance: 0 is chance, 1 is always. Above 0.8 is usually called almost perfect.",
    "Fleiss' kappa": "Agreement of the readers with each other: released films should be read as alike as originals.",
    "reading AUC": "Released minus original, over readers and patients: an interval around 0 shows no loss.",
    "real-or-generated accuracy": "How often readers tell original from released films; 0.50 is guessing.",
    "image quality": "Mean rating from 1 (not diagnostic) to 5 (excellent).",
}


def _readers_table(metric: str, measured: Sequence[Measurement]) -> dict[str, Any]:
    """One measure of a reader study: one row per regime, one column per finding."""
    heads = list(dict.fromkeys(m.protocol or metric for m in measured))
    rows: dict[str, list[Measurement | None]] = {}
    for m in measured:
        rows.setdefault(m.regime or "", [None] * len(heads))[heads.index(m.protocol or metric)] = m
    return {
        "title": metric[:1].upper() + metric[1:],
        "across": "who",
        "heads": [head.replace("_", " ") for head in heads],
        "rows": list(rows.items()),
        "words": READERS.get(metric, ""),
    }


def _measured(facts: Mapping[str, Any]) -> list[Measurement]:
    return [Measurement.from_json(m) for m in facts["measurements"]]


def _other(title: str, facts: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Verdict and questions of a release that stands beside the one of the page."""
    rows = summary(facts, policy, _measured(facts))
    return {"title": title, "sentence": verdict_sentence(facts), "rows": rows}


#: How a kind of evidence is called on the page.
KINDS: Mapping[str, str] = {
    Kind.MEASURED: "measured on this release's patients",
    Kind.CONSTRUCTION: "by construction",
    Kind.CERTIFIED: "by certificate",
}


def verdict_sentence(facts: Mapping[str, Any]) -> str:
    """The verdict in one sentence that can be quoted."""
    checks = [check for check in facts["gate"]["checks"] if check["question"] in QUESTIONS]
    titles = {check["name"]: QUESTIONS[check["question"]].title.lower() for check in checks}

    def named(*outcomes: Outcome) -> str:
        ended = [check["name"] for check in facts["gate"]["checks"] if check["outcome"] in outcomes]
        return ", ".join(titles.get(name, name) for name in ended)

    films = f"{facts['counts']['released']} images"
    if facts["gate"]["status"] == "passed":
        counted = [(words, sum(check["kind"] == kind for check in checks)) for kind, words in KINDS.items()]
        how = ", ".join(f"{count} {words}" for words, count in counted if count)
        exempt = named(Outcome.NOT_APPLICABLE)
        which = "these questions do" if ", " in exempt else "one question does"
        rest = f"; {which} not arise: {exempt}" if exempt else ""
        return f"This release of {films} may leave: every question of its policy is answered and holds ({how}){rest}."
    if failed := named(Outcome.FAILED):
        return f"This release of {films} may not leave: {failed} failed."
    if unanswered := named(Outcome.UNANSWERED):
        return f"This release of {films} may not leave: {unanswered} could not be answered."
    return f"Nothing failed for these {films}, but not every question was asked: {named(Outcome.NOT_ASKED)}."


def summary(facts: Mapping[str, Any], policy: Policy, measured: Sequence[Measurement]) -> list[dict[str, Any]]:
    """One row per question: outcome, kind of evidence, and the figure that decided, with interval, bound and n.

    A certificate brings its own figures. A proof by construction has none: what was compared, and how often.
    """
    certificates = [signed["certificate"] for signed in facts.get("certificates", ())]
    certified = [Measurement.from_json(m) for one in certificates for m in one["measurements"]]
    by_kind: dict[str, Sequence[Measurement]] = {Kind.MEASURED: measured, Kind.CERTIFIED: certified}
    out = []
    for check in facts["gate"]["checks"]:
        question = QUESTIONS.get(check["question"] or "")
        if question is None:
            continue
        kind = KINDS.get(check["kind"] or "", "")
        row: dict[str, Any] = {"title": question.title, "asks": question.asks, "kind": kind, "about": [], "m": None}
        row |= {"outcome": check["outcome"], "detail": check["detail"], "n": None, "unit": ""}
        figures = by_kind.get(check["kind"] or "", ())
        bounded = [(m, b) for m in figures if m.question == question.id and (b := question.bound_of(m)) and m.measured]
        if bounded:
            worst, bound = min(bounded, key=lambda pair: pair[1].margin(policy.gate, pair[0]))
            allowed, lower = bound.allowed(policy.gate, worst), bound.side == "lower"
            asked = not (lower and allowed == 0)
            words = f"lower end at least {allowed:.2f}" if lower else f"upper end at most {allowed:.2f}"
            row |= {"m": worst, "bound": words if asked else "the policy asks for none", "n": worst.n}
            row |= {"unit": worst.unit, "end": worst.low if lower else worst.high, "allowed": allowed, "lower": lower}
            if not asked:  # what holds because nothing is asked is shown as it is
                shown = [m for m in figures if m.question == question.id and m.metric in question.shown and m.measured]
                parts = "; ".join(f"{m.title} {m.value:.2f} [{m.low:.2f}, {m.high:.2f}]" for m in shown)
                row["about"] = [f"What it shows: {parts}."] if shown else []
        row["about"] += _cell_costs(measured) if question.id == "record" else []
        row["about"] += _other_judges([m for m in figures if m.question == question.id])
        if check["kind"] == Kind.CERTIFIED:
            unlike = facts.get("unlike_the_cohort", [])
            row["about"] += [_cohort(one) for one in certificates]
            row["about"] += [f"Unlike that cohort: {'; '.join(unlike)}."] if unlike else []
        if check["kind"] == Kind.CONSTRUCTION:
            counted, unit = ("reports", "reports") if question.id == "text" else (construction.CHECKED, "records")
            row |= {"n": facts.get("tallies", {}).get(counted), "unit": unit}
        out.append(row)
    return out


def _cell_costs(measured: Iterable[Measurement]) -> list[str]:
    """What it would cost to keep rare records back."""
    costs: Mapping[str, Any] = next((m.detail["min_cell"] for m in measured if "min_cell" in m.detail), {})
    parts = [f"with {k} it keeps back {cost['films']} images ({cost['share']:.0%})" for k, cost in costs.items()]
    return [f"What min_cell costs: {', '.join(parts)}."] if parts else []


def _other_judges(figures: Sequence[Measurement]) -> list[str]:
    """What judges find who look through another network than those whom the bound is about."""
    from updp.evaluation.probes.utility.diagnosis import KEPT, OTHER, RELEASED_REAL, SKILL

    m = find(figures, SKILL, protocol=OTHER, regime=RELEASED_REAL)
    if m is None or not m.measured:
        return []
    first = next((one.detail["judges_start_from"] for one in figures if one.metric == KEPT), "the first network")
    words = f"The bound is on judges that start from {first}. By {OTHER}, a network without a part in any training of"
    return [f"{words} updp, skill kept is {m.value:.2f} [{m.low:.2f}, {m.high:.2f}]."]


def _cohort(certificate: Mapping[str, Any]) -> str:
    """On whom a certificate was measured, and when."""
    cohort = certificate["cohort"]
    return (
        f"The same method and settings, measured on {cohort.get('films', 0)} films of {cohort.get('patients', 0)} "
        f"other patients, {certificate['made']}."
    )


def changes(facts: Mapping[str, Any], policy: Policy, measured: Sequence[Measurement]) -> list[str]:
    """What would change the verdict, check by check: first what stands against it, then how far the rest would hold."""
    against, holding = [], []
    rows = {row["title"]: row for row in summary(facts, policy, measured)}
    for check in facts["gate"]["checks"]:
        outcome = Outcome(check["outcome"])
        question = QUESTIONS.get(check["question"] or "")
        title = question.title if question else check["name"].capitalize()
        row = rows.get(title)
        if outcome is Outcome.FAILED and check["more_patients"]:
            words = "more patients, since only the interval reaches beyond the bound."
            against.append(f"{title}: {words} {check['detail']}")
        elif outcome is Outcome.FAILED:
            against.append(f"{title}: another method or strength; more patients would not help. {check['detail']}")
        elif outcome is Outcome.UNANSWERED:
            against.append(f"{title}: an answer to this question. {check['detail']}")
        elif outcome is Outcome.NOT_ASKED:
            against.append(f"{title}: asking this question. {check['detail']}")
        elif outcome is Outcome.HELD and row is not None and row["m"] is not None:
            limit = f"{'more' if row['lower'] else 'less'} than {row['end']:.2f}"
            holding.append(f"{title}: a policy that asks for {limit}. It asks for {row['allowed']:.2f}.")
        elif outcome is Outcome.HELD and check["kind"] == Kind.CONSTRUCTION:
            holding.append(f"{title}: a single counterexample. None was found in {row['n'] if row else 0}.")
    return against + holding


#: Said before what holds, where it was not measured on the patients of the release.
_ANSWERED: Mapping[str, str] = {
    Kind.CONSTRUCTION: "By construction. ",
    Kind.CERTIFIED: "By certificate, measured on other patients. ",
}
#: Said of a question that no figure answers.
NO_ANSWER = "The question was asked and could not be answered; without an answer nothing may leave."


def _answers(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The gate's checks in words; of those that are no question only what failed."""
    out = []
    for check in facts["gate"]["checks"]:
        outcome, detail = Outcome(check["outcome"]), str(check["detail"])
        question = QUESTIONS.get(check["question"] or "")
        if question is None:
            if not outcome.good:
                out.append({"title": check["name"].capitalize(), "outcome": outcome, "words": "", "detail": detail})
            continue
        words = {
            Outcome.HELD: _ANSWERED.get(check["kind"] or "", "") + question.holds,
            Outcome.FAILED: question.unsure if check["more_patients"] else question.fails,
            Outcome.UNANSWERED: NO_ANSWER,
            Outcome.NOT_ASKED: f"Not asked in this evaluation: {question.asks}",
            Outcome.NOT_APPLICABLE: f"The question does not arise: {detail}.",
        }[outcome]
        shown = "" if outcome in (Outcome.NOT_ASKED, Outcome.NOT_APPLICABLE) else detail
        out.append({"title": question.title, "outcome": outcome, "words": words, "detail": shown})
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
    found = [m for m in measured if m.measured]
    films = [m for m in found if m.metric == "film linkage"]
    linkage, utility = max(films, key=lambda m: m.high, default=None), find(found, "diagnostic skill kept")
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
    return charts.plane(shown, policy.gate.max_film_linkage, policy.gate.min_skill) if shown else None


# -- tables ----------------------------------------------------------------------------------------------------------


def _groups(measured: Sequence[Measurement], policy: Policy) -> list[dict[str, Any]]:
    """Measurements by question, each with its interval drawn; those that lead come first, the others are folded."""
    out = []
    for question in QUESTIONS.values():
        first: list[dict[str, Any]] = []
        more: list[dict[str, Any]] = []
        for m in measured:
            if m.question != question.id or not m.measured:
                continue
            bound = question.bound_of(m)
            limit = None if bound is None else bound.allowed(policy.gate, m)
            row = {"m": m, "bar": _bar(m, limit), "limit": limit, "side": bound and bound.side}
            (first if question.leads(m) else more).append(row)
        if first or more:
            rows, rest = (first, more) if first else (more, [])
            out.append({"title": question.title, "question": question.asks, "rows": rows, "more": rest})
    return out


def _bar(m: Measurement, limit: float | None) -> Markup:
    ends = [v for v in (m.low, m.high, m.value, m.chance, limit) if v is not None]
    low, high = (0.0, 1.0) if min(ends) >= 0 and max(ends) <= 1 else (min(0.0, *ends), max(ends))
    return charts.interval(m.value, m.low, m.high, m.chance, limit, (low, high if high > low else low + 1))


def _missing(measured: Sequence[Measurement]) -> list[tuple[str, str, str]]:
    rows = [(_title(m), m.name, str(m.reason)) for m in measured if not m.measured]
    return list(dict.fromkeys(rows))


def _title(m: Measurement) -> str:
    question = QUESTIONS.get(m.question or "")
    return question.title if question else ""


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
                series.append((", ".join(filter(None, (m.attacker or m.metric, m.protocol))), thin_curve(rows)))
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


def thin_curve(rows: list[list[float]], most: int = 120) -> list[list[float]]:
    """At most so many points of a curve, its ends among them."""
    if len(rows) <= most:
        return rows
    keep = np.unique(np.linspace(0, len(rows) - 1, most).round().astype(int))
    return [rows[i] for i in keep]


# -- findings --------------------------------------------------------------------------------------------------------


def _findings(measured: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Per-finding AUCs of a judge beside those of the same judge on real films."""
    from updp.evaluation.probes.utility.diagnosis import AGAINST, AUC

    by_regime = {m.regime: m for m in measured if m.measured and m.metric == AUC and m.protocol is None}
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


def released_sheet(release: Path, count: int = SHOWN) -> list[dict[str, str]]:
    """Films of different patients of a release as pictures inside the page, those of val and test first."""
    from updp.imaging.grey import grey8
    from updp.imaging.read import read_with_window
    from updp.release import manifest

    first: dict[str, tuple[bool, str]] = {}
    for row in manifest.read(release):
        first.setdefault(row["patient"], (row["split"] == "train", row["file_name"]))
    out = []
    for _, name in sorted(first.values())[:count]:
        for channels in (1, 3):
            try:
                pixels, _ = read_with_window(release / name, max_pixels=10**9, min_side=1, channels=channels)
            except Refused:
                continue
            out.append({"released": data_uri(grey8(pixels))})
            break
    return out


def data_uri(film: Any, side: int = 256) -> str:
    from PIL import Image

    image = Image.fromarray(np.asarray(film))
    if max(image.size) > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.save(data, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(data.getvalue()).decode()
