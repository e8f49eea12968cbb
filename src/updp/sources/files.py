"""Files of an export: paths that stay inside it, tables and reports read piece by piece.

Memory stays flat: nothing here holds a table.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import stat
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from updp.core.reasons import Reason, Refused
from updp.sources.encoding import encoding_of, recoded
from updp.sources.fields import number_of

#: Suffixes under which a film may lie that a table names by its stem.
SUFFIXES = (".png", ".jpg", ".jpeg", ".dcm", ".tif", ".tiff", ".webp", ".bmp", ".jp2")
#: Longest line of a table and longest report file that are read at all.
MAX_LINE = 16 * 2**20
MAX_REPORT_BYTES = 16 * 2**20
#: The folder of an export in which objects lie while they are received; it is no part of the export.
INCOMING = ".incoming"


class BadSource(ValueError):
    """The folder cannot be used as a source; the message may name the folder, never anything read from it."""


def find(root: Path, name: str | Path) -> Path:
    """``name`` under ``root`` as a real path inside ``root``; refuses ``..``, links and absolute paths leading out."""
    text = os.fspath(name)
    if not text.strip() or "\0" in text:
        raise Refused(Reason.IMAGE_MISSING if "\0" not in text else Reason.PATH_UNSAFE)
    real_root = _real(os.fspath(root))
    parent, last = os.path.split(os.path.join(real_root, text))
    if last in ("", ".", ".."):
        raise Refused(Reason.PATH_UNSAFE)
    real = os.path.join(_real(parent), last)
    try:
        if stat.S_ISLNK(os.lstat(real).st_mode):
            real = os.path.realpath(real)
            os.stat(real)
        missing = False
    except (OSError, ValueError):
        missing = True
    # Where a path leads is judged before whether it leads anywhere: a refusal never tells what lies outside.
    if real != real_root and not real.startswith(real_root.rstrip(os.sep) + os.sep):
        raise Refused(Reason.PATH_UNSAFE)
    if missing:
        raise Refused(Reason.IMAGE_MISSING)
    return Path(real)


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    """Folders repeat from row to row; resolving one asks the file system for every part of its path."""
    return os.path.realpath(folder)


class Stems:
    """Films by stem anywhere below a folder, whatever their suffix, without an index of them all.

    Tables list films in the order they are stored, so the folder and suffix of the last hit nearly always fit.
    """

    def __init__(self, root: Path) -> None:
        self.folders = sorted(os.path.relpath(folder, root) for folder, _, files in os.walk(root) if files)
        self.root = root
        suffixes = [*SUFFIXES, *(suffix.upper() for suffix in SUFFIXES)]
        self.places = [(folder, suffix) for folder in self.folders for suffix in suffixes]
        self.last = 0

    def find(self, stem: str) -> Path:
        if not stem or stem != os.path.basename(stem) or stem.startswith(".") or "\0" in stem:
            raise Refused(Reason.PATH_UNSAFE)
        for at in (self.last, *range(len(self.places))):
            if at >= len(self.places):
                break
            folder, suffix = self.places[at]
            if os.path.lexists(os.path.join(self.root, folder, stem + suffix)):
                self.last = at
                return find(self.root, os.path.join(folder, stem + suffix))
        raise Refused(Reason.IMAGE_MISSING)


def files_below(root: Path) -> Iterator[Path]:
    """Every file below ``root`` in sorted order, folder by folder; links to folders are not followed."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name != INCOMING)
        for name in sorted(files):
            yield Path(folder, name)


def read_report(path: Path) -> str:
    """A report file as text; only UTF-8 is certain to mean what it says."""
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refused(Reason.REPORT_UNREADABLE)
            raw = file.read(MAX_REPORT_BYTES + 1)
    except OSError:
        raise Refused(Reason.REPORT_UNREADABLE) from None
    if len(raw) > MAX_REPORT_BYTES:
        raise Refused(Reason.REPORT_TOO_LONG)
    try:
        return checked_text(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Refused(Reason.REPORT_ENCODING) from None


def checked_text(text: str) -> str:
    """Refuse text that was not UTF-8, or is binary (UTF-16 saved without a mark is full of NULs)."""
    if "\0" in text:
        raise Refused(Reason.REPORT_ENCODING)
    if not text.isascii():
        try:
            text.encode("utf-8")  # fails on the lone surrogates that bad bytes are read as
        except UnicodeEncodeError:
            raise Refused(Reason.REPORT_ENCODING) from None
    return text


def read_table(
    path: Path, delimiter: str = ",", *, any_encoding: bool = False
) -> Iterator[tuple[int, list[str] | None]]:
    """Rows of a CSV file, gzipped or not, with their number: the header is row 0, None stands for an unreadable line.

    Bytes that are not UTF-8 come out as lone surrogates, so that one bad row does not take the table with it.
    """
    with open_table(path, any_encoding=any_encoding) as raw:
        lines = _lines(raw)
        # strict: text after a closing quote means the quotes are out of step, and with them every later column.
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        number, seen = 0, 0
        for row in _parsed(reader):
            # A stray quote joins the lines after it. Each of them counts as one refused row, so that none is lost.
            rows = [None] * max(1, reader.line_num - seen) if row is None else [row] if row else []
            seen = reader.line_num
            for one in rows:
                yield number, one
                number += 1


def _next_row(reader: Iterator[list[str]]) -> list[str]:
    """The next row, of fields up to ``MAX_LINE``: a report may be longer than the csv module's limit for one field
    (PS3.5 UT values, pasted documents), which belongs to the whole process and is given back."""
    limit = csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))
    try:
        return next(reader)
    finally:
        csv.field_size_limit(limit)


def _parsed(reader: Iterator[list[str]]) -> Iterator[list[str] | None]:
    """The rows of a CSV reader; None stands for one that it cannot read."""
    while True:
        row: list[str] | None = None
        try:
            row = _next_row(reader)
        except StopIteration:
            return
        except csv.Error:
            pass
        yield row


def open_table(path: Path, *, any_encoding: bool = False, legacy: bool = True) -> BinaryIO:
    """A table for reading, unzipped on the way and in UTF-8; others are refused, or with ``any_encoding`` recoded."""
    try:
        raw: BinaryIO = open(path, "rb")  # noqa: SIM115 - handed to the caller
    except OSError:
        raise BadSource("the table of the source cannot be read; check its permissions") from None
    head = raw.read(4)
    raw.seek(0)
    if head[:2] == b"\x1f\x8b":
        raw = io.BufferedReader(gzip.GzipFile(fileobj=raw))
    elif not any_encoding and head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raw.close()
        raise BadSource("the table of the source is UTF-16; save it as UTF-8")
    if not any_encoding:
        return raw
    try:
        return recoded(raw, encoding_of(raw, legacy=legacy))
    except (OSError, EOFError, zlib.error):
        raw.close()
        raise BadSource("the table of the source is damaged") from None


def open_parquet(path: Path) -> Any:
    """A Parquet file for reading page by page."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pool = pa.default_memory_pool()
    # A reader keeps the pool it was made with. Arrow's own allocators hold on to pages long after they were read.
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        # No pre-buffering: it would hold a whole row group of raw bytes beside the decoded pages.
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=2**16)
    except (pa.ArrowException, OSError):
        raise BadSource("this is not a readable Parquet file") from None
    finally:
        pa.set_memory_pool(pool)


def raw_lines(raw: BinaryIO) -> Iterator[bytes]:
    """Lines of a table without its byte order mark; what exceeds ``MAX_LINE`` is cut, and its row will not parse."""
    first = True
    try:
        while line := raw.readline(MAX_LINE):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = raw.readline(MAX_LINE)
            yield line.removeprefix(b"\xef\xbb\xbf") if first else line
            first = False
    except (OSError, EOFError, zlib.error):  # a truncated or damaged gzip file
        raise BadSource("the table of the source is damaged") from None


def _lines(raw: BinaryIO) -> Iterator[str]:
    for line in raw_lines(raw):
        yield line.decode("utf-8", "surrogateescape")


class Rows:
    """Rows of a CSV file by key: sixteen bytes per row are kept, the row itself is read again when asked for."""

    def __init__(self, path: Path, key: str) -> None:
        self.file = open_table(path)
        self.header: list[str] = []
        self.table = Table(self._offsets(key))

    def _offsets(self, key: str) -> Iterator[tuple[str, int]]:
        reader = csv.reader(_lines(self.file))
        column, start = 0, 0
        for parsed in _parsed(reader):
            row = parsed or []
            if not self.header:
                self.header = [name.strip().lower() for name in row]
                if key not in self.header:
                    return
                column = self.header.index(key)
            elif len(row) == len(self.header):
                yield row[column], start
            start = self.file.tell()

    def get(self, key: str) -> dict[str, str] | None:
        start = self.table.get(key)
        if start is None:
            return None
        self.file.seek(start)
        row = _next_row(csv.reader(_lines(self.file)))
        return dict(zip(self.header, row, strict=True))


class Members:
    """A set of keys in eight bytes each: add all, then ask."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.numbers = array("q", (number_of(key) for key in keys))
        self.sorted = False

    def add(self, key: str) -> None:
        self.numbers.append(number_of(key))
        self.sorted = False

    def __contains__(self, key: str) -> bool:
        if not self.sorted:
            import numpy as np

            np.frombuffer(self.numbers, dtype=np.int64).sort()  # in place: no second copy, no million integers
            self.sorted = True
        number = number_of(key)
        at = bisect_left(self.numbers, number)
        return at < len(self.numbers) and self.numbers[at] == number


class Table:
    """A join in sixteen bytes per row: key to a number. Of a repeated key the first row counts."""

    def __init__(self, rows: Iterable[tuple[str, int]]) -> None:
        import numpy as np

        keys, values = array("q"), array("q")
        for key, value in rows:
            keys.append(number_of(key))
            values.append(value)
        numbers = np.frombuffer(keys, dtype=np.int64) if keys else np.empty(0, dtype=np.int64)
        order = np.argsort(numbers, kind="stable")
        self.keys = array("q", numbers[order].tobytes())
        self.values = array("q", (np.frombuffer(values, dtype=np.int64)[order] if keys else numbers).tobytes())

    def get(self, key: str) -> int | None:
        number = number_of(key)
        at = bisect_left(self.keys, number)
        return self.values[at] if at < len(self.keys) and self.keys[at] == number else None
