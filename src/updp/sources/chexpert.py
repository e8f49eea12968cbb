"""CheXpert (Irvin et al., AAAI 2019): ``train.csv``, ``valid.csv`` and ``patientNNNNN/studyK/viewJ_frontal.jpg``.

A label is 1, 0, -1 (uncertain) or blank (not mentioned); only 1 counts as present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from updp.core.reasons import Reason, Refused
from updp.core.record import Split, Study
from updp.domains.chest.labels import LABELS as CHEST_LABELS
from updp.domains.chest.views import View, view_of
from updp.sources.base import Layout, Refusal
from updp.sources.fields import age_of, sex_of
from updp.sources.files import BadSource, checked_text, read_table

#: The fourteen columns of labels, also those of MIMIC-CXR's chexpert table.
LABELS = (
    "No Finding",
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
)
_TABLES: Mapping[str, Split] = {"train.csv": "train", "valid.csv": "val", "test.csv": "test"}


class CheXpert(Layout):
    """CheXpert: train.csv, valid.csv, patientNNNNN/studyN/."""

    holds = "chest"

    @classmethod
    def recognises(cls, root: Path) -> bool:
        return any(_header(root / name) is not None for name in _TABLES)

    def rows(self) -> Iterator[Study | Refusal]:
        for name, split in _TABLES.items():
            header = _header(self.root / name)
            if header is None:
                continue
            column = {title: at for at, title in enumerate(header)}
            for number, row in read_table(self.root / name):
                if number == 0:
                    continue
                where = f"{name} row {number}"
                try:
                    if row is None or len(row) != len(header):
                        raise Refused(Reason.ROW_UNREADABLE)
                    values = {title: _field(row[at]) for title, at in column.items()}
                    inside = _inside(values["path"])
                    where = inside or where
                    yield self._study(inside, values, split)
                except Refused as refused:
                    yield Refusal(where, refused.reason)

    def _study(self, inside: str, values: Mapping[str, str], split: Split) -> Study:
        parts = PurePosixPath(inside).parts
        patient = next((part for part in parts if part.startswith("patient")), "")
        study = next((part for part in parts if part.startswith("study")), "")
        if not (patient and study):
            raise Refused(Reason.ID_MISSING)
        return Study(
            film_id=inside,
            study_id=f"{patient}/{study}",
            patient_id=patient,
            path=self.found(inside),
            view=_view(values.get("frontal/lateral", ""), values.get("ap/pa", "")),
            labels=positives([values.get(label.lower(), "") for label in LABELS]),
            age=age_of(values.get("age")),
            sex=sex_of(values.get("sex")),
            split=split,
        )


def positives(values: Sequence[str]) -> tuple[str, ...] | None:
    """Labels marked 1, None for a row without any mark."""
    if not any(value.strip() for value in values):
        return None
    return CHEST_LABELS.canonical(
        label for label, value in zip(LABELS, values, strict=True) if value.strip() in ("1", "1.0")
    )


def _view(side: str, projection: str) -> View | None:
    return "LATERAL" if side.lower() == "lateral" else view_of(projection)


def _inside(path: str) -> str:
    """The path below the data set's own folder: the table was written one folder up, under a name that may differ."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[1:] if parts and parts[0].lower().startswith("chexpert") else parts)


def _field(value: str) -> str:
    try:
        return checked_text(value).strip()
    except Refused:
        raise Refused(Reason.ROW_UNREADABLE) from None


def _header(path: Path) -> list[str] | None:
    """The lower-case header of a CheXpert table; None if the file is another one."""
    if not path.is_file():
        return None
    try:
        header = next(read_table(path), (0, None))[1] or []
    except BadSource:
        return None
    titles = [title.strip().lower() for title in header]
    return titles if {"path", "sex", "age", "no finding"} <= set(titles) else None
