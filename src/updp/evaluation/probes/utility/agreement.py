"""Do readers see the same in a released film as in the real one: Cohen's kappa from reader files.

A reader file is a CSV with the columns ``reader, release_id, condition, answer``, one line an answer; the review page
writes it. The same readers (or others) read the real films under the same ids into a second file. Kappa is agreement
beyond chance (Cohen 1960): 0 is chance, 1 is perfect. Reported for each condition, over the majority vote of the
readers, and between the readers of one file, which is as much as can be asked of a release.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from updp.core.measurement import Measurement
from updp.evaluation.intervals import measure

COLUMNS = ("reader", "release_id", "condition", "answer")
#: How a reader leaves an answer out.
MISSING = frozenset({"", "-", "?", "n/a", "na", "nan", "none", "not assessable", "unclear"})


class BadReaderFile(ValueError):
    """The file cannot be used; the message names the line, never what a reader wrote."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Answers by (condition, release id, reader); missing answers are counted, not kept."""

    answers: Mapping[tuple[str, str, str], str]
    missing: Mapping[str, int] = field(default_factory=dict)  # by condition

    @property
    def conditions(self) -> list[str]:
        return sorted({condition for condition, _, _ in self.answers} | set(self.missing))

    @property
    def readers(self) -> list[str]:
        return sorted({reader for _, _, reader in self.answers})

    def of(self, condition: str, reader: str) -> dict[str, str]:
        """One reader's answers on one condition, by release id."""
        return {i: a for (c, i, r), a in self.answers.items() if c == condition and r == reader}

    def majority(self, condition: str) -> tuple[dict[str, str], int]:
        """The answer most readers gave, by release id, and how many films had no majority."""
        votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (c, film, _), answer in self.answers.items():
            if c == condition:
                votes[film][answer] += 1
        decided = {}
        for film, counts in votes.items():
            first = counts.most_common(2)
            if len(first) == 1 or first[0][1] > first[1][1]:
                decided[film] = first[0][0]
        return decided, len(votes) - len(decided)


def read(path: Path) -> Readings:
    """A reader file. Answers are compared without case and surrounding blanks."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(csv.DictReader(file), path.name)
    except UnicodeDecodeError as error:
        raise BadReaderFile(f"{path.name}: not UTF-8 text") from error
    except csv.Error as error:
        raise BadReaderFile(f"{path.name}: not a CSV file") from error


def _read(rows: csv.DictReader[str], name: str) -> Readings:
    columns = [c.strip().lower() for c in rows.fieldnames or ()]
    if absent := [c for c in COLUMNS if c not in columns]:
        raise BadReaderFile(f"{name}: the column {', '.join(absent)} is missing; expected {', '.join(COLUMNS)}")
    rows.fieldnames = columns
    answers: dict[tuple[str, str, str], str] = {}
    missing: Counter[str] = Counter()
    seen: set[tuple[str, str, str]] = set()
    for row in rows:
        reader, film, condition, answer = (" ".join((row[c] or "").split()) for c in COLUMNS)
        if not (reader and film and condition):
            raise BadReaderFile(f"{name}, line {rows.line_num}: reader, release_id and condition may not be empty")
        key = (condition.lower(), film, reader)
        if key in seen:
            raise BadReaderFile(f"{name}, line {rows.line_num}: this reader has answered this question before")
        seen.add(key)
        if answer.lower() in MISSING:
            missing[key[0]] += 1
        else:
            answers[key] = answer.lower()
    if not seen:
        raise BadReaderFile(f"{name}: no answers")
    return Readings(answers, dict(missing))


def cohen_kappa(first: ArrayLike, second: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Cohen's kappa of two raters' answers; NaN where both always give one and the same answer."""
    a, b = np.asarray(first), np.asarray(second)
    if a.shape != b.shape:
        raise ValueError(f"{len(a)} answers for {len(b)}")
    if not len(a):
        raise ValueError("kappa of no answers")
    names = np.unique(np.concatenate([a, b]))
    ours = (a[:, None] == names).astype(np.float64)
    theirs = (b[:, None] == names).astype(np.float64)
    w = np.ones((1, len(a))) if weights is None else np.atleast_2d(np.asarray(weights, dtype=np.float64))
    total = w.sum(axis=1)  # whole numbers as long as possible, so that perfect agreement is exactly 1
    observed = total * (w @ (a == b).astype(np.float64))
    expected = ((w @ ours) * (w @ theirs)).sum(axis=1)
    beyond = total**2 - expected
    kappa = (observed - expected) / np.where(beyond > 0, beyond, np.nan)
    return kappa if weights is not None and np.ndim(weights) == 2 else float(kappa[0])


def agreement(
    real: Readings,
    released: Readings,
    *,
    seed: int,
    patients: Mapping[str, Hashable] | None = None,
    **options: Any,
) -> list[Measurement]:
    """Kappa of the majority votes on real and on released films: each condition, then all together.

    ``patients`` names the patient of each release id; without it films are resampled, and the measurement says so.
    Films read on one side only are left out and counted.
    """
    out = []
    pooled: list[tuple[str, str, str]] = []  # film, answers tagged with their condition
    for condition in sorted(set(real.conditions) | set(released.conditions)):
        (a, ties_a), (b, ties_b) = real.majority(condition), released.majority(condition)
        shared = sorted(a.keys() & b.keys())
        pooled += [(film, f"{condition}\0{a[film]}", f"{condition}\0{b[film]}") for film in shared]
        detail = {
            "missing_answers": real.missing.get(condition, 0) + released.missing.get(condition, 0),
            "no_majority": ties_a + ties_b,
            "read_on_one_side_only": len(a.keys() ^ b.keys()),
        }
        name = f"Cohen's kappa, real against released: {condition}"
        out.append(
            _kappa(name, shared, [a[f] for f in shared], [b[f] for f in shared], patients, seed, detail, options)
        )
    films, first, second = (list(x) for x in zip(*pooled, strict=True)) if pooled else ([], [], [])
    name = "Cohen's kappa, real against released: all conditions"
    out.append(_kappa(name, films, first, second, patients, seed, {}, options, _mean_kappa))
    return out


def between_readers(
    readings: Readings, *, seed: int, patients: Mapping[str, Hashable] | None = None, **options: Any
) -> list[Measurement]:
    """Kappa of every two readers of one file, by condition; readers are numbered in the order of their names.

    Measurements travel with the release, and the names of the hospital's readers are not for it.
    """
    out = []
    for condition in readings.conditions:
        for (i, one), (j, other) in combinations(enumerate(readings.readers, 1), 2):
            a, b = readings.of(condition, one), readings.of(condition, other)
            shared = sorted(a.keys() & b.keys())
            name = f"Cohen's kappa, reader {i} against reader {j}: {condition}"
            detail = {"read_by_one_only": len(a.keys() ^ b.keys())}
            first, second = [a[f] for f in shared], [b[f] for f in shared]
            out.append(_kappa(name, shared, first, second, patients, seed, detail, options))
    return out


def _mean_kappa(first: ArrayLike, second: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """The mean of the conditions' kappas: pooling their answers would count agreement on the condition's name."""
    a, b = np.asarray(first), np.asarray(second)
    condition = np.array([str(x).partition("\0")[0] for x in a])
    kappas = []
    for name in np.unique(condition):
        rows = condition == name
        w = None if weights is None else np.asarray(weights)[..., rows]
        kappas.append(np.atleast_1d(cohen_kappa(a[rows], b[rows], w)))
    stacked = np.stack(kappas)
    known = np.isfinite(stacked)
    with np.errstate(invalid="ignore", divide="ignore"):
        out = np.where(known, stacked, 0).sum(axis=0) / known.sum(axis=0)
    return out if weights is not None and np.ndim(weights) == 2 else float(out[0])


def _kappa(
    name: str,
    films: Sequence[str],
    first: Sequence[str],
    second: Sequence[str],
    patients: Mapping[str, Hashable] | None,
    seed: int,
    detail: Mapping[str, Any],
    options: Mapping[str, Any],
    statistic: Any = cohen_kappa,
) -> Measurement:
    unit = "films" if patients is None else "patients"

    def missing(why: str) -> Measurement:
        about = {**detail, "unit": unit}
        return Measurement.missing(name, why, n=len(set(owners)), chance=0.0, seed=seed, detail=about)

    owners = [film if patients is None else patients.get(film) for film in films]
    if any(owner is None for owner in owners):
        raise ValueError(f"{sum(o is None for o in owners)} of {len(owners)} release ids have no patient")
    if not films:
        return missing("no film was read on both sides")
    alike = float(np.mean([a == b for a, b in zip(first, second, strict=True)]))
    if not np.isfinite(statistic(np.array(first), np.array(second))):
        return missing(f"every answer is the same, so kappa is undefined (raw agreement {alike:.0%})")
    detail = {**detail, "raw_agreement": alike, "answers": dict(Counter(_plain(first))), "unit": unit}
    arrays = (np.array(first), np.array(second))
    return measure(
        name, statistic, owners, *arrays, chance=0.0, better="higher", seed=seed, detail=detail, unit=unit, **options
    )


def _plain(answers: Iterable[str]) -> Iterable[str]:
    return (a.rpartition("\0")[2] for a in answers)
