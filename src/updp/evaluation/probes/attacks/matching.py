"""Genuine pairs of films, impostors with the same published record, and twins: what linkage beyond the record needs.

Two films with one label set may still show different things. A second matching takes the impostors that are nearest to
the genuine film: by the findings that a classifier predicts on it, or by the words of its report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from updp.evaluation.probes.base import Pairs, by_patient

#: Another film of the patient, or the very film the released one was made from.
Protocol = Literal["another film", "own film"]
#: Most impostors of each genuine pair, and most released films in place of its own; all where fewer share the record.
IMPOSTORS, TWINS = 20, 20
#: Fills the rows of pairs with fewer.
NONE = -1
#: Other films of the patient that a released film is compared with.
CANDIDATES = 3


@dataclass(frozen=True)
class Genuine:
    """Genuine pairs, their matched impostors and twins; row numbers of one exhibit, ``NONE`` where there are fewer."""

    released: NDArray[np.intp]  # G
    real: NDArray[np.intp]  # G, of the same patient
    impostors: NDArray[np.intp]  # G × IMPOSTORS, real films of other patients, records as that of ``real``
    twins: NDArray[np.intp]  # G × TWINS, released films of other patients, records as that of ``released``
    unmatched: int  # genuine pairs left out, since no other patient has their record

    def __len__(self) -> int:
        return len(self.released)


def genuine_pairs(
    records: NDArray[np.str_],
    patients: NDArray[np.str_],
    rows: NDArray[Any],
    protocol: Protocol,
    rng: np.random.Generator,
    most: int,
) -> Genuine:
    """Genuine pairs of at most ``most`` released films per patient, each with impostors and twins of the same
    record."""
    cells: dict[str, NDArray[np.intp]] = {}
    own_records = records[rows]
    for record in np.unique(own_records):
        cells[str(record)] = np.asarray(rows)[own_records == record].astype(np.intp)
    released: list[int] = []
    real: list[int] = []
    impostors: list[NDArray[np.intp]] = []
    twins: list[NDArray[np.intp]] = []
    unmatched = 0
    for films in by_patient(patients, rows):
        shown = rng.permutation(films)[:most]
        pairs = [
            (int(a), int(b))
            for a in shown
            for b in ([a] if protocol == "own film" else rng.permutation(films[films != a])[:CANDIDATES])
        ]
        for left, right in pairs:
            candidates = cells[str(records[right])]
            candidates = candidates[patients[candidates] != patients[right]]
            stand_ins = cells[str(records[left])]
            stand_ins = stand_ins[patients[stand_ins] != patients[left]]
            if not len(candidates) or not len(stand_ins):
                unmatched += 1
                continue
            released.append(left)
            real.append(right)
            impostors.append(_draw(candidates, IMPOSTORS, rng))
            twins.append(_draw(stand_ins, TWINS, rng))
    empty = np.empty((0, 1), np.intp)
    return Genuine(
        np.array(released, np.intp),
        np.array(real, np.intp),
        np.stack(impostors) if impostors else empty,
        np.stack(twins) if twins else empty,
        unmatched,
    )


def nearest_impostors(
    pairs: Genuine, patients: NDArray[np.str_], views: NDArray[np.str_], rows: NDArray[Any], codes: NDArray[np.float32]
) -> Genuine:
    """The same pairs, with the films of other patients as impostors whose codes are nearest to the genuine film's,
    among those of its view; a row of ``codes`` that is not known (NaN) has none and is none."""
    rows = np.asarray(rows)[~np.isnan(codes[np.asarray(rows)]).any(1)]
    found: list[NDArray[np.intp]] = []
    kept: list[int] = []
    for place, real in enumerate(pairs.real):
        others = rows[(patients[rows] != patients[real]) & (views[rows] == views[real])]
        if not len(others) or np.isnan(codes[real]).any():
            continue
        apart = np.square(codes[others] - codes[real]).sum(1)
        nearest = others[np.argsort(apart, kind="stable")[:IMPOSTORS]].astype(np.intp)
        found.append(np.pad(nearest, (0, IMPOSTORS - len(nearest)), constant_values=NONE))
        kept.append(place)
    impostors = np.stack(found) if found else np.empty((0, IMPOSTORS), np.intp)
    return replace(
        pairs, released=pairs.released[kept], real=pairs.real[kept], impostors=impostors, twins=pairs.twins[kept]
    )


def _draw(rows: NDArray[np.intp], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """At most so many of the rows, none twice: where each stands for as much, the twins of a record balance out."""
    drawn = rng.permutation(rows)[:count]
    return np.pad(drawn, (0, count - len(drawn)), constant_values=NONE)


def matched_pairs(pairs: Genuine, impostors: int = 4) -> Pairs:
    """Genuine pairs and some of their impostors as pairs of the same and of different patients."""
    shown = pairs.impostors[:, :impostors]
    there = shown != NONE
    left = np.concatenate([pairs.released, np.broadcast_to(pairs.released[:, None], shown.shape)[there]])
    right = np.concatenate([pairs.real, shown[there]])
    return Pairs(left, right, np.arange(len(left)) < len(pairs))
