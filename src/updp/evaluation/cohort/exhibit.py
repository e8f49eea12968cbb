"""What a release is judged on: real films and their released counterparts, row by row. It stays inside the hospital.

Rows are the *originals*: every real film that was given to the method, those it kept back among them. They are the same
for every release of a source under one key, whatever the method does, so what is learned from real films alone is
learned once; and a method that keeps films back is measured against what the hospital had.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.domains.chest.labels import FINDINGS


@dataclass(frozen=True)
class Exhibit:
    """Row ``i`` of every column is one film. Patients are pseudonyms; an adversary learns on the patients of the train
    split and is scored on patients of the others, so that no attacker has seen a patient it is scored on."""

    real: NDArray[np.uint8]  # N x size x size, and x channels where there are several
    released: NDArray[np.uint8]  # of the same shape, the counterpart of each real film; black where there is none
    patients: NDArray[np.str_]
    splits: NDArray[np.str_]  # train, val, test
    views: NDArray[np.str_]  # PA, AP or ""
    labels: NDArray[np.float32]  # N x classes, as source or report says; NaN where a film is not labelled
    ages: NDArray[np.float32]  # NaN where not known
    sexes: NDArray[np.str_]  # F, M or ""
    real_texts: list[str]  # "" where there is no report
    released_texts: list[str]
    kept_back: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))  # by the method; none by default
    classes: tuple[str, ...] = FINDINGS  # names of the columns of ``labels``
    records: NDArray[np.str_] = field(default_factory=lambda: np.zeros(0, "U1"))  # what is published of each film
    derived: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))  # labels read in the report

    def __post_init__(self) -> None:
        count = len(self.real)
        if not len(self.kept_back):
            object.__setattr__(self, "kept_back", np.zeros(count, bool))
        if not len(self.derived):
            object.__setattr__(self, "derived", np.zeros(count, bool))
        if not len(self.records):
            object.__setattr__(self, "records", published_records(self.views, self.labels))
        for name in self._columns():
            if len(getattr(self, name)) != count:
                raise ValueError(f"{name} has {len(getattr(self, name))} rows for {count} real films")
        if self.real.shape != self.released.shape or self.real.ndim not in (3, 4):
            raise ValueError(f"real films {self.real.shape} and released ones {self.released.shape} do not match")
        if self.labels.shape[1:] != (len(self.classes),):
            raise ValueError(f"labels are N x {len(self.classes)}, not {self.labels.shape}")
        placed = set(zip(self.patients.tolist(), self.splits.tolist(), strict=True))
        if len(placed) != len({patient for patient, _ in placed}):
            raise ValueError("a patient is in two splits")

    @classmethod
    def _columns(cls) -> list[str]:
        """The fields that have one entry per film."""
        return [f.name for f in fields(cls) if f.name != "classes"]

    def __len__(self) -> int:
        return len(self.real)

    def rows(self, *splits: str) -> NDArray[np.int64]:
        return np.flatnonzero(np.isin(self.splits, splits))

    @cached_property
    def paired(self) -> Exhibit:
        """The rows that have a counterpart: what attackers and judges compare film by film. Choose rows first
        (``updp.evaluation.probes.base.within``), or all films come into memory."""
        return self.take(~self.kept_back) if self.kept_back.any() else self

    def take(self, rows: NDArray[Any]) -> Exhibit:
        """These rows, in this order."""
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index
        columns: dict[str, Any] = {}
        for name in self._columns():
            column = getattr(self, name)
            columns[name] = [column[i] for i in index] if isinstance(column, list) else column[index]
        return Exhibit(**columns, classes=self.classes)

    def with_reports(self, *sides: str) -> NDArray[np.bool_]:
        """Which rows have a report on each of these sides, real or released."""
        columns = [self.real_texts if side == "real" else self.released_texts for side in sides]
        return np.array([all(text.strip() for text in texts) for texts in zip(*columns, strict=True)], bool)

    def but(self, **changes: Any) -> Exhibit:
        return replace(self, **changes)


def published_records(
    views: NDArray[np.str_], labels: NDArray[np.float32], *further: NDArray[np.str_]
) -> NDArray[np.str_]:
    """What a manifest publishes of each film, as one word: view, label set, and further attributes that leave."""
    sets = ["?" if np.isnan(row).all() else "".join("1" if value == 1 else "0" for value in row) for row in labels]
    columns: list[Any] = [views, sets, *further]
    return np.array(["|".join(map(str, row)) for row in zip(*columns, strict=True)])
