"""IU X-Ray as R2Gen distributes it (Chen et al., EMNLP 2020): ``annotation.json`` and ``images/<id>/<n>.png``.

The file maps each split to a list of entries with id, report and image paths. It is read entry by entry, since the
same layout carries MIMIC-CXR with hundreds of megabytes. A ``reports.csv`` beside it (id, MeSH headings, indication,
findings, impression) adds the sections R2Gen left out and the findings indexers found.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from updp.core.reasons import Reason, Refused
from updp.core.record import Report, Study
from updp.sources import mesh, sections
from updp.sources.base import Layout, Refusal
from updp.sources.fields import split_of
from updp.sources.files import MAX_LINE, BadSource, Rows, checked_text

_CHUNK = 2**16
_SECTIONS = ("indication", "findings", "impression")


class IUXray(Layout):
    """IU X-Ray as R2Gen has it: annotation.json, images/."""

    holds = "chest"

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self.table = root / "annotation.json"
        self.folder = "images" if (root / "images").is_dir() else ""
        next(entries(self.table), None)  # a file that is not an annotation file is refused at once

    @classmethod
    def recognises(cls, root: Path) -> bool:
        return (root / "annotation.json").is_file()

    def rows(self) -> Iterator[Study | Refusal]:
        beside = self.root / "reports.csv"
        reports = Rows(beside, "id") if beside.is_file() else None
        for number, (part, entry) in enumerate(entries(self.table), start=1):
            where = f"entry {number}"
            try:
                if not isinstance(entry, dict):
                    raise Refused(Reason.ROW_UNREADABLE)
                where = _text(entry.get("id")) or where
                yield from self._films(where, part, entry, reports)
            except Refused as refused:
                yield Refusal(where, refused.reason)

    def _films(
        self, where: str, part: str, entry: Mapping[str, Any], reports: Rows | None
    ) -> Iterator[Study | Refusal]:
        study_id = _text(entry.get("study_id")) or _text(entry.get("id"))
        if not study_id:
            raise Refused(Reason.ID_MISSING)
        # R2Gen's MIMIC-CXR names subjects; an IU report is one person's, and its number opens the id.
        number = re.match(r"CXR\d+", study_id)
        patient_id = _text(entry.get("subject_id")) or (number.group() if number else study_id)
        paths = entry.get("image_path")
        if isinstance(paths, str):
            paths = [paths]
        if not isinstance(paths, list):
            raise Refused(Reason.ROW_UNREADABLE if paths is not None else Reason.REPORT_ORPHAN)
        if not paths:
            raise Refused(Reason.REPORT_ORPHAN)
        row = reports.get(_text(entry.get("id"))) if reports else None
        report = _report(entry.get("report"), row)
        labels = mesh.findings(_prose(row.get("mesh_major")).split("|")) if row else None
        for at, path in enumerate(paths):
            film_id = where
            try:
                name = _text(path)
                if not name:
                    raise Refused(Reason.IMAGE_MISSING)
                # R2Gen's IU paths repeat the id; its MIMIC paths end in the film's own id.
                film_id = str(PurePosixPath(name).with_suffix("")) if PurePosixPath(name).name else where
                yield Study(
                    film_id=film_id,
                    study_id=study_id,
                    patient_id=patient_id,
                    path=self.found(os.path.join(self.folder, name)),
                    labels=labels,
                    report=report,
                    split=split_of(entry.get("split") or part),
                )
            except Refused as refused:
                yield Refusal(film_id if film_id != where else f"{where} film {at}", refused.reason)


def entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Entries of an annotation file with the split they stand under, one in memory at a time."""
    try:
        # Bytes that are not UTF-8 come out as lone surrogates and are refused with their entry.
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            yield from _Stream(file.read).entries()
    except OSError:
        raise BadSource("annotation.json cannot be read") from None


class _Stream:
    """A window on a JSON text that moves forward value by value."""

    def __init__(self, read: Callable[[int], str]) -> None:
        self.read = read
        self.text, self.at = "", 0
        self.decoder = json.JSONDecoder()

    def more(self) -> bool:
        chunk = self.read(_CHUNK)
        self.text, self.at = self.text[self.at :] + chunk, 0
        return bool(chunk)

    def broken(self) -> BadSource:
        return BadSource("annotation.json is no annotation file, or is damaged")

    def next(self, expected: str) -> str:
        """Step over white space and one of the ``expected`` characters."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
                self.at += 1
            if self.at < len(self.text):
                break
            if not self.more():
                raise self.broken()
        found = self.text[self.at]
        if found not in expected:
            raise self.broken()
        self.at += 1
        return found

    def peek(self, expected: str) -> bool:
        """Whether the next character is ``expected``; stays in front of it."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
                self.at += 1
            if self.at < len(self.text) or not self.more():
                break
        return self.text[self.at : self.at + 1] == expected

    def value(self) -> Any:
        """One whole value; more text is read until it is complete."""
        self.peek("")
        while True:
            try:
                value, end = self.decoder.raw_decode(self.text, self.at)
                if end < len(self.text):  # a number at the end of the window may go on in the next
                    self.at = end
                    return value
            except (ValueError, RecursionError):
                pass
            if len(self.text) - self.at > MAX_LINE or not self.more():
                raise self.broken()

    def entries(self) -> Iterator[tuple[str, Any]]:
        self.next("{")
        if self.peek("}"):
            return
        while True:
            part = self.value()
            self.next(":")
            self.next("[")
            if self.peek("]"):
                self.next("]")
            else:
                while True:
                    yield str(part), self.value()
                    if self.next(",]") == "]":
                        break
            if self.next(",}") == "}":
                return


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Refused(Reason.ROW_UNREADABLE)
    try:
        return checked_text(str(value)).strip()
    except Refused:
        raise Refused(Reason.ROW_UNREADABLE) from None


def _prose(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Refused(Reason.ROW_UNREADABLE)
    return checked_text(value)


def _report(written: object, row: Mapping[str, str] | None) -> Report | None:
    """The sections of ``reports.csv`` in reading order, and R2Gen's text where those say nothing."""
    beside = [(name, _prose(row.get(name))) for name in _SECTIONS] if row else []
    named = sections.gather(beside)
    parsed = sections.parse(_prose(written))
    for name, text in parsed.items():
        named.setdefault(name, text)
    return Report({name: named[name] for name in sorted(named, key=_place)}) if named else None


def _place(name: str) -> int:
    return _SECTIONS.index(name) if name in _SECTIONS else len(_SECTIONS)
