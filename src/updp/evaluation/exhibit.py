"""What a release is judged on: real films and their released counterparts, row by row. It stays inside the hospital."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.study import FINDINGS


@dataclass(frozen=True)
class Exhibit:
    """Row ``i`` of every column is one film. Patients are pseudonyms; an adversary learns on the patients of the train
    split and is scored on patients of the others, so that no attacker has seen a patient it is scored on."""

    real: NDArray[np.uint8]  # N x size x size
    released: NDArray[np.uint8]  # N x size x size, the counterpart of each real film
    patients: NDArray[np.str_]
    splits: NDArray[np.str_]  # train, val, test
    views: NDArray[np.str_]  # PA, AP or ""
    labels: NDArray[np.float32]  # N x findings, as source or report says; NaN where a film is not labelled
    ages: NDArray[np.float32]  # NaN where not known
    sexes: NDArray[np.str_]  # F, M or ""
    real_texts: list[str]  # "" where there is no report
    released_texts: list[str]

    def __post_init__(self) -> None:
        count = len(self.real)
        for f in fields(self):
            if len(getattr(self, f.name)) != count:
                raise ValueError(f"{f.name} has {len(getattr(self, f.name))} rows for {count} real films")
        if self.real.shape != self.released.shape or self.real.ndim != 3:
            raise ValueError(f"real films {self.real.shape} and released ones {self.released.shape} do not match")
        if self.labels.shape[1:] != (len(FINDINGS),):
            raise ValueError(f"labels are N x {len(FINDINGS)}, not {self.labels.shape}")
        placed = set(zip(self.patients.tolist(), self.splits.tolist(), strict=True))
        if len(placed) != len({patient for patient, _ in placed}):
            raise ValueError("a patient is in two splits")

    def __len__(self) -> int:
        return len(self.real)

    def rows(self, *splits: str) -> NDArray[np.int64]:
        return np.flatnonzero(np.isin(self.splits, splits))

    def take(self, rows: NDArray[Any]) -> Exhibit:
        """These rows, in this order."""
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index
        columns: dict[str, Any] = {}
        for f in fields(self):
            column = getattr(self, f.name)
            columns[f.name] = [column[i] for i in index] if isinstance(column, list) else column[index]
        return Exhibit(**columns)

    def but(self, **changes: Any) -> Exhibit:
        return replace(self, **changes)

    def digest(self, *columns: str) -> str:
        """A digest of these columns, by which what was learned from them is cached."""
        running = hashlib.sha256()
        for name in columns:
            column = getattr(self, name)
            running.update(name.encode())
            if isinstance(column, list):
                for text in column:
                    running.update(len(text).to_bytes(8, "big") + text.encode())
            else:
                running.update(str((column.shape, column.dtype.str)).encode())
                running.update(np.ascontiguousarray(column).tobytes())
        return running.hexdigest()
