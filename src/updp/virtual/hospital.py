"""The virtual hospital: a DICOM tree of invented patients, with identity wherever real exports carry it.

Names, numbers, dates and addresses stand in headers (nested sequences and private elements too), burned into the films
and in reports (text files and DICOM SR); a few files are broken in the ways exports break. Every invented identifier
is in the ``Ledger``, so a release can be swept for all of them. The same seed gives the same bytes.
"""

from __future__ import annotations

import datetime as dt
from importlib.resources.abc import Traversable
from pathlib import Path

from updp.virtual.chance import stream
from updp.virtual.examination import EPOCH, Examination
from updp.virtual.faults import add_faults
from updp.virtual.films import films
from updp.virtual.ledger import Ledger
from updp.virtual.people import invent_house, invent_person

#: A patient's examinations lie within this many days: shorter than the shortest date shift, so that a shifted date
#: is never another true date of the same patient.
_SPAN = 330


def make_hospital(out: Path, *, seed: int, patients: int = 40, pack: Traversable | None = None) -> Ledger:
    """Write the export of an invented hospital to ``out`` and return everything that was invented."""
    if patients < 4:
        raise ValueError("a virtual hospital has at least four patients, one for each fault that is planted")
    ledger = Ledger(seed)
    house = invent_house(seed, ledger)
    people = []
    for index, virtual in enumerate(films(seed, patients, pack=pack)):
        person = invent_person(seed, index, virtual.sex, ledger)
        people.append(person)
        rng = stream(seed, "patient", index)
        span = sorted(rng.choice(_SPAN, len(virtual.examinations), replace=False).tolist())
        first = EPOCH + dt.timedelta(days=int(rng.integers(0, 600)))
        prior: dt.date | None = None
        for number, taken in enumerate(virtual.examinations):
            day = first + dt.timedelta(days=span[number])
            exam = Examination(
                house, person, index, number, day, prior, taken, stream(seed, "exam", index, number), seed
            )
            exam.write(out, ledger)
            prior = day
    add_faults(out, house, people, ledger, seed)
    ledger.canaries = sorted(set(ledger.canaries), key=lambda c: (c.patient is None, c.patient or 0, c.kind, c.value))
    return ledger
