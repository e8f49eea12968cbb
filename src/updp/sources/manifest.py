"""A plain manifest: one table that names films, ids and whatever else is known (CSV, TSV, JSONL or Parquet).

The layout for exports that follow no layout of their own. Columns are found by name in any case, or as a mapping says
(``mapping.py``); delimiter and encoding are found out. Paths are relative to the manifest's folder, may be written as
Windows does, and may not lead out of it. A bad row is refused alone, with the reason.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from updp.core.confidential import Confidential
from updp.core.manifest_files import is_manifest
from updp.core.policy import SourcePolicy
from updp.core.reasons import Reason, Refused
from updp.core.record import Report, Study
from updp.sources import sections
from updp.sources.base import Layout, Refusal
from updp.sources.encoding import delimiter_of
from updp.sources.fields import age_of, birth_of, date_of, number_of, sex_of, split_of
from updp.sources.files import BadSource, checked_text, find, open_parquet, open_table, raw_lines, read_table
from updp.sources.mapping import BESIDE, IDENTIFIERS, SECTIONS, Columns, beside, shipped, text_of

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")

_PLAIN = Columns()
_BATCH = 512  # rows of Parquet held at a time
_LOOK = 20  # lines looked at to tell a manifest
_SHORTEST_ID = 5  # shorter ids are words and measurements of reports too
_DRIVE = re.compile(r"^(?:[A-Za-z]:)?[\\/]|^[A-Za-z]:")


class Manifest(Layout):
    """A manifest.csv, .tsv, .jsonl or .parquet that names films, or a table that a mapping describes."""

    def __init__(self, root: Path, *, mapping: SourcePolicy | None = None, **options: Any) -> None:
        self.table, mapping = _resolved(root, mapping)
        super().__init__(root if root.is_dir() else root.parent, **options)
        self.columns = Columns(mapping)
        self.excluded = 0
        if missing := self.columns.missing(_names(self.table)):
            raise BadSource(
                f"the manifest lacks a column: {'; '.join(missing)}. `updp init` writes a mapping of columns"
            )

    @classmethod
    def recognises(cls, root: Path) -> bool:
        if not root.exists():
            return False
        return bool(_tables(root)) or has_mapping(root)

    def rows(self) -> Iterator[Study | Refusal]:
        self.excluded, self._prefix = 0, ""
        votes = self._votes() if self.columns.rows != "one" else None
        seen: set[int] = set()
        for number, record in read_records(self.table, self.columns.known):
            where = f"row {number}"
            if record is None:
                yield Refusal(where, Reason.ROW_UNREADABLE)
                continue
            try:
                if not self.columns.wanted(record):
                    self.excluded += 1
                    continue
                film_id = self._film_id(record)
                where = film_id or where
                labels = self._labels(record)
                if votes is not None and film_id:
                    film = number_of(film_id)
                    if film in seen:
                        continue  # said with the film's first row
                    seen.add(film)
                    labels = votes[film].labels(self.columns.rows) if film in votes else labels
                yield self._study(record, film_id, labels)
            except Refused as refused:
                yield Refusal(where, refused.reason)

    def _votes(self) -> dict[int, _Votes]:
        """What all rows of a film say of its labels."""
        out: dict[int, _Votes] = {}
        for _, record in read_records(self.table, self.columns.known):
            try:
                if record is not None and self.columns.wanted(record) and (film_id := self._film_id(record)):
                    out.setdefault(number_of(film_id), _Votes()).add(self._labels(record))
            except Refused:
                continue  # its row is refused when it is read for good
        return out

    def _film_id(self, record: Mapping[str, object]) -> str:
        """A table without film ids names films by their files."""
        columns = self.columns
        return text_of(columns.first(record, "film_id" if columns.has(record, "film_id") else "image"))

    def _labels(self, record: Mapping[str, object]) -> tuple[str, ...] | None:
        columns = self.columns
        if columns.findings:
            cells = [(name, record.get(column)) for column, name in columns.findings.items()]
            said = [(name, marked) for name, cell in cells if (marked := _marked(cell)) is not None]
            names = [name for name, marked in said if marked] if said else None
        else:
            names = _listed(columns.first(record, "labels"))
        if names is None:
            return None
        # A value may stand for several labels, or, if it is empty, for none that is known.
        meant = [part for name in names for part in columns.means("labels", name).split("|")]
        return None if names and not any(meant) else self.domain.labels.canonical(meant)

    def _study(self, record: Mapping[str, object], film_id: str, labels: tuple[str, ...] | None) -> Study:
        first = self.columns.first
        image = text_of(first(record, "image"))
        # A table without study ids has one film per study.
        study_id = text_of(first(record, "study_id")) if self.columns.has(record, "study_id") else film_id
        patient_id = text_of(first(record, "patient_id"))
        report = self._report(record)
        report_name = text_of(first(record, "report_path"))
        if not image:
            raise Refused(Reason.REPORT_ORPHAN if report or report_name else Reason.IMAGE_MISSING)
        if not (film_id and study_id and patient_id):
            raise Refused(Reason.ID_MISSING)
        date = date_of(first(record, "date"))
        age = age_of(text_of(first(record, "age")))
        return Study(
            film_id=film_id,
            study_id=study_id,
            patient_id=patient_id,
            path=self.found(image),
            view=self.domain.view(text_of(first(record, "view"))),
            labels=labels,
            report=report,
            report_path=self._report_path(report_name) if report_name and not report else None,
            age=birth_of(first(record, "birth_date"), date) if age is None else age,
            sex=sex_of(text_of(first(record, "sex"))),
            date=date,
            split=split_of(text_of(first(record, "split"))),
            identifiers=self._identifiers(record, (patient_id, study_id)),
        )

    def _identifiers(self, record: Mapping[str, object], ids: tuple[str, ...]) -> dict[str, str]:
        """What the row calls the patient and other people, by DICOM keyword; several of a kind are kept apart."""
        out = {f"PatientID {n}": words for n, words in enumerate(ids) if len(words) >= _SHORTEST_ID}
        for name, (keyword, _) in IDENTIFIERS.items():
            for n, words in enumerate(self.columns.all(record, name)):
                out[f"{keyword} {name} {n}"] = words
        return out

    def load(self, study: Study) -> Study:
        """The study with report and pixels; stations that look for its patient know what the table calls them."""
        known = known_words(study.identifiers)
        return super().load(study.but(identifiers={}, known=Confidential(known) if known else None))

    def found(self, name: str | Path) -> Path:
        """The file of this name. One written as Windows does is looked for by its path below the manifest's folder."""
        words = str(name)
        try:
            return super().found(words)
        except Refused as refused:
            if "\\" not in words:
                raise
            first = refused
        plain = words.replace("\\", "/")
        if not _DRIVE.match(words):
            return super().found(plain)
        # The export lay elsewhere when it was listed. What stood before it is the same in every row, so that two rows
        # never mean one file by leaving out different parts.
        if self._prefix:
            if not plain.startswith(self._prefix):
                raise Refused(Reason.PATH_UNSAFE)
            return super().found(plain.removeprefix(self._prefix))
        parts = plain.split("/")
        for cut in range(1, len(parts)):
            try:
                path = super().found("/".join(parts[cut:]))
            except Refused:
                continue
            self._prefix = "/".join(parts[:cut]) + "/"
            return path
        raise first

    _prefix = ""

    def _report_path(self, name: str) -> Path:
        try:
            return self.found(name)
        except Refused as refused:
            raise Refused(
                Reason.REPORT_UNREADABLE if refused.reason is Reason.IMAGE_MISSING else refused.reason
            ) from None

    def _report(self, record: Mapping[str, object]) -> Report | None:
        named = {name: text for name in SECTIONS if (text := self.columns.first(record, name))}
        whole = self.columns.first(record, "report")
        if isinstance(whole, dict):
            named = {**{sections.section_name(str(name)) or "other": text for name, text in whole.items()}, **named}
            whole = None
        pieces = list(sections.parse(_prose(whole)).items()) if whole is not None else []
        given = {name: _prose(text) for name, text in named.items()}
        # A column of its own is more certain than a heading found in running text.
        out = sections.gather([(name, text) for name, text in pieces if not given.get(name)] + list(given.items()))
        return Report(out) if out else None


class _Votes:
    """How many rows of a film there are, and how many name each label."""

    __slots__ = ("count", "names")

    def __init__(self) -> None:
        self.count = 0  # rows that say anything of labels
        self.names: Counter[str] = Counter()

    def add(self, labels: tuple[str, ...] | None) -> None:
        if labels is not None:
            self.count += 1
            self.names.update(labels)

    def labels(self, rows: str) -> tuple[str, ...] | None:
        if not self.count:
            return None
        return tuple(name for name, said in self.names.items() if rows == "any" or said * 2 > self.count)


def known_words(identifiers: Mapping[str, str]) -> list[str]:
    """Every form in which these identifiers may stand in a report or on a film."""
    if not identifiers:
        return []
    from pydicom import Dataset

    from updp.screening.identifiers import identifiers as forms

    out: dict[str, None] = {}
    for name, words in identifiers.items():
        keyword = name.partition(" ")[0]
        header = Dataset()
        born = date_of(words) if keyword == "PatientBirthDate" else None
        if keyword == "PatientBirthDate" and born is None:
            keyword = "OtherPatientIDs"  # a date in a form of its own is looked for as it is written
        if keyword == "OtherPatientIDs" and words.isdigit() and len(words) < _SHORTEST_ID:
            continue  # a year of birth stands for many things
        header.add_new(keyword, _VR[keyword], born.strftime("%Y%m%d") if born else words.replace("\\", " "))
        out.update(dict.fromkeys(forms(header)))
    return sorted(out, key=lambda word: (-len(word), word))


#: Value representations that take any text; those of the standard refuse long or unusual values.
_VR = {keyword: "PN" if keyword.endswith("Name") and keyword != "InstitutionName" else "LO"
       for keyword, _ in IDENTIFIERS.values()} | {"PatientID": "LO", "PatientBirthDate": "DA"}  # fmt: skip


# -- which file ------------------------------------------------------------------------------------------------------


def _tables(root: Path, *, mapped: bool = False) -> list[Path]:
    """Manifests at ``root``: the file itself, or tables in the folder that are called manifest or have the columns.
    Where a mapping says what the columns mean, a table may have any."""
    if root.is_file():
        return [root] if root.suffix.lower() in SUFFIXES and not _is_release(root) else []
    if not root.is_dir():
        return []
    out = []
    for path in sorted(root.iterdir()):
        if path.suffix.lower() not in SUFFIXES or not path.is_file() or _is_release(path):
            continue
        if path.stem.lower() == "manifest" or mapped or _names_films(path):
            out.append(path)
    return out


def fitting(root: Path) -> list[str]:
    """Names of the shipped mappings whose table is in this folder, with all columns they name."""
    out = []
    for name, mapping in shipped().items():
        try:
            if root.is_dir() and mapping.table and not Columns(mapping).missing(_names(find(root, mapping.table))):
                out.append(name)
        except (Refused, BadSource):
            continue
    return out


def has_mapping(root: Path) -> bool:
    """Whether a mapping lies in this folder, or one that ships fits."""
    return root.is_dir() and ((root / BESIDE).is_file() or bool(fitting(root)))


def _resolved(root: Path, mapping: SourcePolicy | None) -> tuple[Path, SourcePolicy | None]:
    """The table of a source and how it is to be read."""
    mapping = mapping or beside(root)
    if mapping is None and root.is_dir() and not _tables(root) and (names := fitting(root)):
        if len(names) > 1:
            raise BadSource(f"several mappings fit ({', '.join(names)}); choose one: updp init SOURCE --mapping NAME")
        mapping = shipped()[names[0]]
    if mapping is None or not mapping.table or not root.is_dir():
        return _table(root, mapped=mapping is not None), mapping
    try:
        return find(root, mapping.table), mapping
    except Refused:
        raise BadSource("the table that [source] table names is not in this folder") from None


def _table(root: Path, *, mapped: bool = False) -> Path:
    tables = _tables(root, mapped=mapped)
    if not tables:
        raise BadSource(f"no manifest was found; it is a {', '.join(SUFFIXES)} file")
    if len(tables) > 1:
        raise BadSource(f"{len(tables)} manifests in one folder; give the path of one of them instead")
    return tables[0]


def _names_films(path: Path) -> bool:
    try:
        columns = _names(path)
    except BadSource:
        return False
    return all(set(_PLAIN.sources[name]) & columns for name in ("film_id", "patient_id", "image"))


def _is_release(path: Path) -> bool:
    if not is_manifest(path.name):
        return False
    try:
        return "release_id" in _names(path)
    except BadSource:
        return False


def column_names(path: Path) -> list[str]:
    """The columns of a table as it spells them; raises if the file is broken."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        with open_parquet(path) as file:
            return list(file.schema_arrow.names)
    if kind == ".jsonl":
        return _keys(path)
    header = next(_table_rows(path, _PLAIN.known), (0, None))[1]
    if header is None:
        raise BadSource("the manifest has no header line")
    return header


def _names(path: Path) -> set[str]:
    return {name.strip().lower() for name in column_names(path)}


def _keys(path: Path) -> list[str]:
    """Names used in the first rows of a JSONL file."""
    names: dict[str, None] = {}
    with open_table(path, any_encoding=True, legacy=False) as raw:
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


def read_records(path: Path, known: Collection[str]) -> Iterator[tuple[int, dict[str, object] | None]]:
    kind = path.suffix.lower()
    if kind == ".parquet":
        return _parquet_records(path, known)
    return _json_records(path) if kind == ".jsonl" else _csv_records(path, known)


def _table_rows(path: Path, known: Collection[str]) -> Iterator[tuple[int, list[str] | None]]:
    """Rows of a CSV or TSV file, whatever its delimiter and encoding."""
    with open_table(path, any_encoding=True) as raw:
        lines = [line.decode("utf-8", "replace") for _, line in zip(range(_LOOK), raw_lines(raw), strict=False)]
    delimiter = delimiter_of(lines, known, "\t" if path.suffix.lower() == ".tsv" else ",")
    return read_table(path, delimiter, any_encoding=True)


def _csv_records(path: Path, known: Collection[str]) -> Iterator[tuple[int, dict[str, object] | None]]:
    names: list[str] | None = None
    for number, row in _table_rows(path, known):
        if names is None:
            names = [name.strip().lower() for name in row or []]
        elif row is None or len(row) != len(names):
            yield number, None  # a comma too many shifts every later column: nothing in this row is certain
        else:
            yield number, {name: value for name, value in zip(names, row, strict=True) if name in known}


def _json_records(path: Path) -> Iterator[tuple[int, dict[str, object] | None]]:
    with open_table(path, any_encoding=True, legacy=False) as raw:
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


def _parquet_records(path: Path, known: Collection[str]) -> Iterator[tuple[int, dict[str, object] | None]]:
    import pyarrow as pa

    with open_parquet(path) as file:
        columns = [name for name in file.schema_arrow.names if name.strip().lower() in known]
        names = [name.strip().lower() for name in columns]
        number = 0
        try:
            for batch in file.iter_batches(batch_size=_BATCH, columns=columns, use_threads=False):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    number += 1
                    yield number, dict(zip(names, values, strict=True))
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise BadSource("the Parquet manifest is damaged") from None


# -- fields ----------------------------------------------------------------------------------------------------------


def _prose(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str):
        raise Refused(Reason.ROW_UNREADABLE)
    return checked_text(value)


def _marked(cell: object) -> bool | None:
    """Whether the cell of a finding says that it is there; None for a blank."""
    words = "" if cell is None or cell != cell else str(cell).strip().lower()
    if not words:
        return None
    try:
        return float(words) >= 1
    except ValueError:
        if words in ("yes", "y", "true", "x", "positive", "present"):
            return True
        if words in ("no", "n", "false", "negative", "absent"):
            return False
        raise Refused(Reason.ROW_UNREADABLE) from None


def _listed(value: object) -> list[str] | None:
    """Findings from a list, a list in text as JSON or Python write it, or names between pipes, semicolons or commas."""
    if value is None:
        return None
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = _python_list(value)
    if isinstance(value, str):
        value = value.split(next((sign for sign in "|;," if sign in value), "|"))
    if not isinstance(value, list):
        raise Refused(Reason.ROW_UNREADABLE)
    return [text_of(name) for name in value]


def _python_list(text: object) -> object:
    try:
        return ast.literal_eval(str(text))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise Refused(Reason.ROW_UNREADABLE) from None
