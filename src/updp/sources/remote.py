"""A source at an address: a partial copy of it here, and films that workers fetch one by one.

Layouts read folders. So the survey reads a partial copy of the source: every object is a file of its size and time.
Tables and reports are complete; of a DICOM file there is the header, of a picture nothing, and the rest of these files
is sparse: it takes no room on the disk. ``load`` fetches the film itself from the store.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from updp.core.reasons import Reason, Refused
from updp.core.record import Study
from updp.core.remote import Found, Remote, RemoteError
from updp.sources.files import INCOMING, SUFFIXES

if TYPE_CHECKING:
    from updp.domains.base import Domain
    from updp.sources.base import Refusal, Source

#: Names under which DICOM files lie.
_DICOM = {".dcm", ".dicom", ".ima", ""}
_PICTURES = set(SUFFIXES) - _DICOM


class RemoteSource:
    """The source at an address, read through its partial copy."""

    def __init__(self, remote: Remote, inner: Source) -> None:
        self.remote, self.inner = remote, inner
        self.layout = inner.layout
        self.root = inner.root
        self.domain: Domain = inner.domain
        self.skipped = 0

    def __iter__(self) -> Iterator[Study | Refusal]:
        yield from self.inner
        self.skipped = self.inner.skipped

    def load(self, study: Study) -> Study:
        with tempfile.TemporaryDirectory(prefix="updp-") as folder:
            film = self._fetched(study.path, Path(folder, "film"), Reason.IMAGE_MISSING)
            report = self._fetched(study.report_path, Path(folder, "report"), Reason.REPORT_UNREADABLE)
            loaded = self.inner.load(study.but(path=film, report_path=report))
        return loaded.but(path=study.path, report_path=study.report_path)

    def _fetched(self, path: Path | None, folder: Path, gone: Reason) -> Path | None:
        if path is None:
            return None
        name = os.path.relpath(path, os.path.realpath(self.root)).replace(os.sep, "/")
        folder.mkdir()
        try:
            self.remote.fetch(name, folder / path.name)
        except FileNotFoundError:
            raise Refused(gone) from None
        return folder / path.name


def make_likeness(remote: Remote, folder: Path) -> None:
    """Make or refresh the partial copy of a source; what is unchanged is not fetched again."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o700)
    empty = True
    for inside, files in remote.walk():
        if INCOMING in PurePosixPath(inside).parts:
            continue
        here = folder / inside
        here.mkdir(exist_ok=True)
        names = {PurePosixPath(found.name).name for found in files}
        for old in here.iterdir():
            if old.is_file() and old.name not in names:
                old.unlink()
        for found in files:
            empty = False
            _like(remote, found, folder / found.name)
    if empty:
        raise RemoteError("there is nothing at the address of the source; check it")


def _like(remote: Remote, found: Found, path: Path) -> None:
    if path.is_file():
        before = path.stat()
        if (before.st_size, before.st_mtime_ns) == (found.size, found.mtime_ns):
            return
    suffix = path.suffix.lower()
    try:
        if suffix in _PICTURES:
            _write_hole(path, b"", found.size)
        elif suffix in _DICOM and (head := _header(remote, found.name)) is not None:
            _write_hole(path, head, found.size)
        else:
            remote.fetch(found.name, path)
    except FileNotFoundError:  # removed since it was listed: the survey does not see it
        return
    os.utime(path, ns=(found.mtime_ns, found.mtime_ns))


def _write_hole(path: Path, head: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


def _header(remote: Remote, name: str) -> bytes | None:
    """A DICOM file up to its pixels; None if it is none, or one that has to be read whole to tell."""
    import pydicom

    with remote.reading(name) as file:
        if file.read(132)[128:] != b"DICM":
            return None
        file.seek(0)
        try:
            pydicom.dcmread(file, stop_before_pixels=True, specific_tags=[])
        except Exception:  # whatever a damaged file raises: it is fetched, and the source refuses it
            return None
        end = file.tell()
        file.seek(0)
        return bytes(file.read(end))
