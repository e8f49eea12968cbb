"""The report of a visit, written from its findings."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from updp.virtual.drawing import Finding
    from updp.virtual.examination import Examination
from updp.virtual.chance import pick, word_lists
from updp.virtual.people import written_date


def write_report(exam: Examination) -> str:
    """The report of a visit, from its findings."""
    words, draw = word_lists(), exam.rng
    person = exam.person
    slots = {
        "given": person.given,
        "family": person.family,
        "title": person.title,
        "mrn": person.mrn,
        "age": str(exam.age),
        "birth": written_date(person.birth, 0),
        "address": f"{person.street}, {person.city}",
        "accession": exam.accession,
        "hospital": exam.house.name,
        "hospital_address": f"{exam.house.street}, {exam.house.city}",
        "department": exam.house.department,
        "doctor": exam.doctor[1],
        "reader": " ".join(exam.reader),
        "reader_family": exam.reader[1],
        "technologist": " ".join(exam.technologist),
        "phone": exam.phone,
        "time": f"{exam.time:%H:%M}",
        "date": written_date(exam.day, int(draw.integers(4))),
        "prior": written_date(exam.prior or exam.day - dt.timedelta(days=40), int(draw.integers(4))),
        "onset": written_date(exam.day - dt.timedelta(days=int(draw.integers(2, 20))), int(draw.integers(4))),
        "views": " and ".join({"PA": "PA", "AP": "AP portable", "LATERAL": "lateral"}[f.view] for f in exam.taken),
        "room": pick(words["hospital"]["rooms"], draw),
        "change": pick(words["prose"]["changes"], draw),
    }
    found = exam.taken[0].findings
    says, concludes = [], []
    for finding in found:
        facts = words["findings"].get(finding.name, words["named"])
        own = _finding_slots(finding, draw)
        says.append(_fill(facts["says"], {**slots, **own}, draw) or _fill(words["named"]["says"], own, draw))
        concludes.append(
            _fill(facts["concludes"], {**slots, **own}, draw) or _fill(words["named"]["concludes"], own, draw)
        )
    absent = [f for name, f in words["findings"].items() if name not in {x.name for x in found} and f["denies"]]
    order = draw.permutation(len(absent))[:3]
    says += [pick(absent[int(at)]["denies"], draw) for at in order]
    says.insert(int(draw.integers(len(says) + 1)), pick(words["prose"]["neutral"], draw))
    prose = words["prose"]
    if exam.prior is not None or draw.random() < 0.4:
        says.append(_fill(prose["compared"], slots, draw))
    if draw.random() < 0.5:
        says.insert(0, _fill(prose["identity"], slots, draw))
    concludes = concludes or [pick(prose["normal"], draw)]
    if draw.random() < 0.7:
        concludes.append(_fill(prose["communication"], slots, draw))
    slots |= {
        "indication": _fill(prose["indications"], slots, draw),
        "comparison": f"Chest radiograph of {slots['prior']}." if exam.prior else "None.",
        "findings": " ".join(says),
        "impression": " ".join(
            [f"{n}. {line}" for n, line in enumerate(concludes, 1)] if len(concludes) > 1 else concludes
        ),
    }
    layout: str = pick(list(words["layouts"].values()), draw)
    return layout.strip("\n").format_map(slots) + "\n"


def _finding_slots(finding: Finding, draw: np.random.Generator) -> dict[str, str]:
    plain = finding.name.replace("_", " ").lower()
    own = {
        "name": plain,
        "Name": plain.capitalize(),
        "ratio": str(draw.integers(55, 66)),
        "mm3": str(draw.integers(8, 25)),
    }
    if finding.side:
        own |= {"side": finding.side, "Side": finding.side.capitalize()}
    if finding.zone:
        own["zone"] = finding.zone
    if finding.millimetres:
        own |= {"mm": str(finding.millimetres), "mm2": str(finding.millimetres - 2)}
    return own


def _fill(choices: list[str], slots: Mapping[str, str], draw: np.random.Generator) -> str:
    """One of the sentences whose slots are all known, filled; empty if there is none."""
    import string

    able = [c for c in choices if all(name in slots for _, name, _, _ in string.Formatter().parse(c) if name)]
    return pick(able, draw).format_map(slots) if able else ""
