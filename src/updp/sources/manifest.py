"""A plain manifest: one table that names films, ids and whatever else is known (CSV, TSV, JSONL or Parquet).

The layout for exports that follow no public data set. Columns are found by name in any case; paths are relative to the
manifest's folder and may not lead out of it. A bad row is refused alone, with the reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from updp.core.reasons import Reason, Refused
from updp.core.record import Report, Study
from updp.sources import sections
from updp.sources.base import Layout, Refusal
from updp.sources.fields import age_of, date_of, sex_of, split_of
from updp.sources.files import BadSource, checked_text, open_parquet, open_table, raw_lines, read_table

#: Our name of a column, and the names it may have in a manifest; the first that is filled counts.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "film_id": ("film_id", "image_id", "dicom_id"),
    "study_id": ("study_id",),
    "patient_id": ("patient_id", "subject_id"),
    "image": ("image", "path", "image_path", "file_name", "filename"),
    "report": ("report", "text"),
    "report_path": ("report_path", "report_file"),
    "view": ("view", "view_position", "viewposition"),
    "labels": ("labels", "finding_labels", "appearance"),
    "age": ("age", "patient_age"),
    "sex": ("sex", "gender", "patient_sex"),
    "date": ("date", "study_date"),
    "split": ("split",),
}
#: Columns that are a section of the report each.
SECTIONS = ("examination", "indication", "history", "comparison", "technique", "findings", "impression")
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")

_KNOWN = {name for names in COLUMNS.values() for name in names} | set(SECTIONS)
_BATCH = 512  # rows of Parquet held at a time
_LOOK = 20  # lines of JSONL looked at to tell a manifest


class Manifest(Layout):
    """A table that names films."""

    layout = "manifest"
    description = "a manifest.csv, .tsv, .jsonl or .parquet that names films"

    def __init__(self, root: Path, **options: Any) -> None:
        self.table = _table(root)
        super().__init__(self.table.parent, **options)
        columns = _columns(self.table)
        missing = [name for name in ("patient_id", "image") if not set(COLUMNS[name]) & columns]
        if missing:
            wanted = "; ".join(" or ".join(COLUMNS[name]) for name in missing)
            raise BadSource(f"the manifest lacks a column: {wanted}")

    @classmethod
    def recognises(cls, root: Path) -> bool:
        return bool(_tables(root))

    def rows(self) -> Iterator[Study | Refusal]:
        for number, record in _records(self.table):
            where = f"row {number}"
            if record is None:
                yield Refusal(where, Reason.ROW_UNREADABLE)
                continue
            try:
                where = _text(_first(record, "film_id")) or where
                yield self._study(record)
            except Refused as refused:
                yield Refusal(where, refused.reason)

    def _study(self, record: Mapping[str, object]) -> Study:
        image = _text(_first(record, "image"))
        # A table without film ids names films by their files, one without study ids has one film per study.
        film_id = _text(_first(record, "film_id")) if _has(record, "film_id") else image
        study_id = _text(_first(record, "study_id")) if _has(record, "study_id") else film_id
        patient_id = _text(_first(record, "patient_id"))
        report = _report(record)
        report_name = _text(_first(record, "report_path"))
        if not image:
            raise Refused(Reason.REPORT_ORPHAN if report or report_name else Reason.IMAGE_MISSING)
        if not (film_id and study_id and patient_id):
            raise Refused(Reason.ID_MISSING)
        labels = _labels(_first(record, "labels"))
        return Study(
            film_id=film_id,
            study_id=study_id,
            patient_id=patient_id,
            path=self.found(image),
            view=self.domain.view(_text(_first(record, "view"))),
            labels=None if labels is None else self.domain.labels.canonical(labels),
            report=report,
            report_path=self._report_path(report_name) if report_name and not report else None,
            age=age_of(_text(_first(record, "age"))),
            sex=sex_of(_text(_first(record, "sex"))),
            date=date_of(_first(record, "date")),
            split=split_of(_text(_first(record, "split"))),
        )

    def _report_path(self, name: str) -> Path:
        try:
            return self.found(name)
        except Refused as refused:
            raise Refused(
                Reason.REPORT_UNREADABLE if refused.reason is Reason.IMAGE_MISSING else refused.reason
            ) from None


# -- which file ------------------------------------------------------------------------------------------------------


def _tables(root: Path) -> list[Path]:
    """Manifests at ``root``: the file itself, or tables in the folder that are called manifest or have the columns."""
    if root.is_file():
        return [root] if root.suffix.lower() in SUFFIXES and not _is_release(root) else []
    if not root.is_dir():
        return []
    out = []
    for path in sorted(root.iterdir()):
        if path.suffix.lower() not in SUFFIXES or not path.is_file() or _is_release(path):
            continue
        if path.stem.lower() == "manifest" or _names_films(path):
            out.append(path)
    return out


def _table(root: Path) -> Path:
    tables = _tables(root)
    if not tables:
        raise BadSource(f"no manifest was found; it is a {', '.join(SUFFIXES)} file")
    if len(tables) > 1:
        raise BadSource(f"{len(tables)} manifests in one folder; give the path of one of them instead")
    return tables[0]


def _names_films(path: Path) -> bool:
    try:
        columns = _columns(path)
    except BadSource:
        return False
    return all(set(COLUMNS[name]) & columns for name in ("film_id", "patient_id", "image"))


def _is_release(path: Path) -> bool:
    if path.name != "manifest.parquet":
        return False
    try:
        return "release_id" in _columns(path, known=False)
    except BadSource:
        return False


def _columns(path: Path, *, known: bool = True) -> set[str]:
    """Columns of a manifest in lower case; raises if the file is broken."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        with open_parquet(path) as file:
            names = list(file.schema_arrow.names)
    elif kind == ".jsonl":
        names = _keys(path)
    else:
        header = next(read_table(path, _delimiter(path)), (0, None))[1]
        if header is None:
            raise BadSource("the manifest has no header line")
        names = header
    found = {name.strip().lower() for name in names}
    return found & _KNOWN if known else found


def _keys(path: Path) -> list[str]:
    """Names used in the first rows of a JSONL file."""
    names: dict[str, None] = {}
    with open_table(path) as raw:
        for number, line in enumerate(raw_lines(raw)):
            row = _json(line)
            if isinstance(row, dict):
                names.update(dict.fromkeys(row))
            if number + 1 == _LOOK:
                break
    if not names:
        raise BadSource("no JSON object in the first lines of the manifest")
    return list(names)


# -- rows ------------------------------------------------------------------------------------------------------------


def _records(path: Path) -> Iterator[tuple[int, dict[str, object] | None]]:
    kind = path.suffix.lower()
    if kind == ".parquet":
        return _parquet_records(path)
    return _json_records(path) if kind == ".jsonl" else _csv_records(path)


def _csv_records(path: Path) -> Iterator[tuple[int, dict[str, object] | None]]:
    names: list[str] | None = None
    for number, row in read_table(path, _delimiter(path)):
        if names is None:
            names = [name.strip().lower() for name in row or []]
        elif row is None or len(row) != len(names):
            yield number, None  # a comma too many shifts every later column: nothing in this row is certain
        else:
            yield number, {name: value for name, value in zip(names, row, strict=True) if name in _KNOWN}


def _json_records(path: Path) -> Iterator[tuple[int, dict[str, object] | None]]:
    with open_table(path) as raw:
        number = 0
        for line in raw_lines(raw):
            if not line.strip():
                continue
            number += 1
            row = _json(line)
            if isinstance(row, dict):
                yield number, {name.strip().lower(): value for name, value in row.items()}
            else:
                yield number, None


def _json(line: bytes) -> object:
    try:
        return json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _parquet_records(path: Path) -> Iterator[tuple[int, dict[str, object] | None]]:
    import pyarrow as pa

    with open_parquet(path) as file:
        columns = [name for name in file.schema_arrow.names if name.strip().lower() in _KNOWN]
        names = [name.strip().lower() for name in columns]
        number = 0
        try:
            for batch in file.iter_batches(batch_size=_BATCH, columns=columns, use_threads=False):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    number += 1
                    yield number, dict(zip(names, values, strict=True))
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise BadSource("the Parquet manifest is damaged") from None


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


# -- fields ----------------------------------------------------------------------------------------------------------


def _has(record: Mapping[str, object], name: str) -> bool:
    return any(column in record for column in COLUMNS[name])


def _first(record: Mapping[str, object], name: str) -> object:
    for column in COLUMNS[name]:
        value = record.get(column)
        if (
            value is not None and value != "" and value == value
        ):  # NaN, a blank in a column of numbers, is unlike itself
            return value
    return None


def _text(value: object) -> str:
    """A field as text; a number that spreadsheets turned into ``17.0`` is 17 again."""
    if value is None:
        return ""
    if isinstance(value, str) and value.isascii() and "\0" not in value:
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Refused(Reason.ROW_UNREADABLE)
    try:
        return checked_text(str(value)).strip()
    except Refused:
        raise Refused(Reason.ROW_UNREADABLE) from None


def _report(record: Mapping[str, object]) -> Report | None:
    named = {name: record[name] for name in SECTIONS if record.get(name)}
    whole = _first(record, "report")
    if isinstance(whole, dict):
        named = {**{sections.section_name(str(name)) or "other": text for name, text in whole.items()}, **named}
        whole = None
    pieces = list(sections.parse(_prose(whole)).items()) if whole is not None else []
    given = {name: _prose(text) for name, text in named.items()}
    # A column of its own is more certain than a heading found in running text.
    out = sections.gather([(name, text) for name, text in pieces if not given.get(name)] + list(given.items()))
    return Report(out) if out else None


def _prose(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str):
        raise Refused(Reason.ROW_UNREADABLE)
    return checked_text(value)


def _labels(value: object) -> list[str] | None:
    """Findings from a list, a JSON list in text, or names between pipes."""
    if value is None:
        return None
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise Refused(Reason.ROW_UNREADABLE) from None
    names = value.split("|") if isinstance(value, str) else value
    if not isinstance(names, list):
        raise Refused(Reason.ROW_UNREADABLE)
    return [_text(name) for name in names]
