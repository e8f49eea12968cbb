"""MIMIC-CXR-JPG and MIMIC-CXR (Johnson et al., 2019): ``mimic-cxr-2*-*.csv[.gz]`` and ``files/p1x/p<subject>/``.

The metadata table lists the films; splits and CheXpert labels are joined through indexes of sixteen bytes per row.
Reports are beside the studies as ``files/p1x/p<subject>/s<study>.txt`` and are read with the film.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from updp.core.reasons import Reason, Refused
from updp.core.record import Split, Study
from updp.domains.chest.labels import LABELS as CHEST_LABELS
from updp.domains.chest.views import view_of
from updp.sources.base import Layout, Refusal
from updp.sources.chexpert import LABELS
from updp.sources.fields import date_of, split_of
from updp.sources.files import BadSource, Members, Table, checked_text, files_below, read_table

_SPLITS: tuple[Split, ...] = ("train", "val", "test")
_SUFFIXES = (".jpg", ".dcm", ".png")
_MENTIONED = 1 << len(LABELS)  # the study has a row in the label table


class MimicCXR(Layout):
    """MIMIC-CXR(-JPG): mimic-cxr-2*-metadata.csv, files/p1x/."""

    holds = "chest"

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        table = _table(root, "metadata")
        if table is None:
            raise BadSource("no mimic-cxr-2*-metadata.csv or .csv.gz")
        self.table = table
        header = _header(table)
        if not {"dicom_id", "subject_id", "study_id"} <= set(header):
            raise BadSource("the header is not that of the MIMIC-CXR metadata")

    @classmethod
    def recognises(cls, root: Path) -> bool:
        return root.is_dir() and _table(root, "metadata") is not None

    def rows(self) -> Iterator[Study | Refusal]:
        splits, labels, seen = self._splits(), self._labels(), Members()
        last = ""
        suffixes = list(_SUFFIXES)
        for number, record in _records(self.table):
            where = f"row {number}"
            try:
                if record is None:
                    raise Refused(Reason.ROW_UNREADABLE)
                film_id, subject, study = record["dicom_id"], record["subject_id"], record["study_id"]
                where = film_id or where
                if not (film_id and subject and study):
                    raise Refused(Reason.ID_MISSING)
                if study != last:
                    seen.add(study)
                    last = study
                folder = f"files/p{subject[:2]}/p{subject}"
                place = splits.get(film_id)
                yield Study(
                    film_id=film_id,
                    study_id=study,
                    patient_id=subject,
                    path=self._film(f"{folder}/s{study}/{film_id}", suffixes),
                    view=view_of(record.get("viewposition")),
                    labels=_named(labels.get(study)),
                    report_path=self._report(f"{folder}/s{study}.txt"),
                    date=date_of(record.get("studydate")),
                    split=None if place is None else _SPLITS[place],
                )
            except Refused as refused:
                yield Refusal(where, refused.reason)
        yield from self._orphans(seen)

    def _film(self, stem: str, suffixes: list[str]) -> Path:
        for at, suffix in enumerate(suffixes):
            try:
                path = self.found(stem + suffix)
            except Refused as refused:
                if refused.reason is not Reason.IMAGE_MISSING:
                    raise
                continue
            if at:  # a copy has films of one kind: ask for that kind first from now on
                suffixes.insert(0, suffixes.pop(at))
            return path
        raise Refused(Reason.IMAGE_MISSING)

    def _report(self, name: str) -> Path | None:
        try:
            return self.found(name)
        except Refused as refused:
            if refused.reason is Reason.PATH_UNSAFE:
                raise
            return None

    def _orphans(self, seen: Members) -> Iterator[Refusal]:
        for path in files_below(self.root / "files"):
            if path.suffix == ".txt" and path.name.startswith("s") and path.stem[1:] not in seen:
                yield Refusal(path.stem, Reason.REPORT_ORPHAN)

    def _splits(self) -> Table:
        def rows() -> Iterator[tuple[str, int]]:
            for _, record in _records(_table(self.root, "split")):
                place = split_of(record.get("split")) if record else None
                if record and place is not None:
                    yield record.get("dicom_id", ""), _SPLITS.index(place)

        return Table(rows())

    def _labels(self) -> Table:
        def rows() -> Iterator[tuple[str, int]]:
            for _, record in _records(_table(self.root, "chexpert")):
                if record:
                    marked = [record.get(label.lower(), "") for label in LABELS]
                    bits = sum(1 << at for at, value in enumerate(marked) if value in ("1", "1.0"))
                    yield record.get("study_id", ""), bits | (_MENTIONED if any(marked) else 0)

        return Table(rows())


def _named(bits: int | None) -> tuple[str, ...] | None:
    if not bits:
        return None
    return CHEST_LABELS.canonical(label for at, label in enumerate(LABELS) if bits >> at & 1)


def _table(root: Path, kind: str) -> Path | None:
    found = sorted(path for end in ("csv", "csv.gz") for path in root.glob(f"mimic-cxr-2*-{kind}.{end}"))
    return found[0] if found else None


def _header(path: Path) -> list[str]:
    return [title.strip().lower() for title in next(read_table(path), (0, None))[1] or []]


def _records(path: Path | None) -> Iterator[tuple[int, Mapping[str, str] | None]]:
    if path is None:
        return
    header: list[str] = []
    for number, row in read_table(path):
        if number == 0:
            header = [title.strip().lower() for title in row or []]
        elif row is None or len(row) != len(header):
            yield number, None
        else:
            try:
                yield number, {title: checked_text(value).strip() for title, value in zip(header, row, strict=True)}
            except Refused:
                yield number, None
