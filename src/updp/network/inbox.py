"""Objects into an export: whole, once, on the disk before the sender is answered.

An object lands at ``EXPORT/<study>/<object>.dcm``, both named by UID. It is written under ``EXPORT/.incoming``, synced,
and linked to its place, so a reader of the export never sees half of one, and a program that is killed loses nothing
that it confirmed. What an export holds is found again from its names.
"""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import re
import shutil
import threading
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Any

from updp.core.global_state import quiet
from updp.core.storage import lock_folder, sync_folder, write_bytes
from updp.network.association import NetworkError
from updp.sources.files import INCOMING

log = logging.getLogger("updp.network")

#: UIDs as they may become names (PS3.5 9.1).
_UID = re.compile(r"[0-9]+(\.[0-9]+)*")


_UNDEFINED = 0xFFFFFFFF
#: Bytes of an element beyond which it is passed over: who asks for ids and ends needs no copy of the pixels.
_LARGE = 65_536


class Landing(StrEnum):
    """What became of an object; the value is what logs and metrics say."""

    STORED = "stored"
    PRESENT = "present-already"
    DIFFERENT = "different-under-the-same-uid"
    NOT_WHOLE = "not-whole"
    UNSAFE = "uid-missing-or-unsafe"
    NO_ROOM = "no-room"
    UNWRITABLE = "not-writable"


#: The status of a C-STORE (PS3.4 B.2.3, PS3.7 C).
STATUS = {
    Landing.STORED: 0x0000,
    Landing.PRESENT: 0x0000,
    Landing.DIFFERENT: 0x0111,
    Landing.NOT_WHOLE: 0xC000,
    Landing.UNSAFE: 0xA900,
    Landing.NO_ROOM: 0xA700,
    Landing.UNWRITABLE: 0xA700,
}


class Inbox:
    """An export that objects arrive in; threads may share it, processes may not."""

    def __init__(self, export: Path, *, keep_free: int = 0) -> None:
        self.export, self.keep_free = export, keep_free
        self.aside = export / INCOMING
        busy = NetworkError("another `updp receive` or `updp fetch` writes to this export; end it first")
        self._owned = ExitStack()
        self._owned.enter_context(lock_folder(self.aside, "lock", busy))
        for left in self.aside.glob(".*.dcm.*"):  # of a program that was killed; no sender got an answer for them
            left.unlink(missing_ok=True)
        self._lock = threading.Lock()
        self._studies = {path.stem: path.parent.name for path in export.glob("*/*.dcm")}

    def close(self) -> None:
        """Let another program write to the export."""
        self._owned.close()

    def __len__(self) -> int:
        return len(self._studies)

    def __contains__(self, uid: object) -> bool:
        return uid in self._studies

    def path(self, uid: str) -> Path | None:
        """Where an object is."""
        study = self._studies.get(uid)
        return None if study is None else self.export / study / f"{uid}.dcm"

    def free(self) -> int:
        """Bytes that may still be written."""
        return shutil.disk_usage(self.export).free - self.keep_free

    def take(self, data: bytes, uid: str) -> Landing:
        """Land an object that a peer announced under this UID. ``data`` is a whole file of PS3.10."""
        landing = self._take(data, uid)
        log.info("object", extra={"facts": {"landing": landing.value, "bytes": len(data)}})
        return landing

    def _take(self, data: bytes, uid: str) -> Landing:
        found = _identified(data)
        if found is None:
            return Landing.NOT_WHOLE
        own, study = found
        if own != uid or not _safe(own) or not _safe(study):
            return Landing.UNSAFE
        with self._lock:
            known = self._studies.setdefault(uid, study)
        path = self.export / known / f"{uid}.dcm"
        try:
            if known == study and not path.exists():
                if len(data) > self.free():
                    return self._forgotten(uid, path, Landing.NO_ROOM)
                new = not path.parent.exists()
                path.parent.mkdir(mode=0o700, exist_ok=True)
                try:
                    write_bytes(path, data, mode=0o600, fresh=True, aside=self.aside)
                    sync_folder(path.parent)
                    if new:
                        sync_folder(self.export)
                    return Landing.STORED
                except FileExistsError:
                    pass  # two senders at once: whoever was first is compared with
            if known != study or not _same(path, data):
                return Landing.DIFFERENT
            sync_folder(path.parent)  # the one who was first may not have come so far
            return Landing.PRESENT
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return self._forgotten(uid, path, Landing.NO_ROOM if full else Landing.UNWRITABLE)

    def _forgotten(self, uid: str, path: Path, landing: Landing) -> Landing:
        with self._lock:
            if not path.exists():
                self._studies.pop(uid, None)
        return landing


def _safe(uid: str) -> bool:
    return len(uid) <= 64 and _UID.fullmatch(uid) is not None


def _same(path: Path, data: bytes) -> bool:
    """Whether the file holds the same object: the same bytes after the meta information, which names the sender."""
    return hashlib.sha256(_content(path.read_bytes())).digest() == hashlib.sha256(_content(data)).digest()


def _content(data: bytes) -> bytes:
    """A file of PS3.10 without its meta information, and with its transfer syntax."""
    import pydicom

    file = io.BytesIO(data)
    with quiet():
        meta = pydicom.filereader.read_partial(file, stop_when=lambda tag, _vr, _length: True).file_meta
    end = 128 + 4 + 12 + int(meta.FileMetaInformationGroupLength)
    return str(meta.TransferSyntaxUID).encode() + data[end:]


def _identified(data: bytes) -> tuple[str, str] | None:
    """The UIDs of object and study; None where the object does not end where its last element does."""
    import pydicom
    from pydicom.dataelem import RawDataElement

    try:
        with quiet():
            found = pydicom.dcmread(io.BytesIO(data), defer_size=_LARGE)
            tags = found.keys()  # iterating over the object itself would decode values
            elements: list[Any] = [found.get_item(tag, keep_deferred=True) for tag in tags]
            last = max((one for one in elements if isinstance(one, RawDataElement)), key=lambda one: one.value_tell)
            deflated = found.file_meta.TransferSyntaxUID.is_deflated  # pydicom has checked its stream
            # An element of undefined length ends with a delimiter, without which pydicom raises an error.
            plain = not deflated and elements[-1] is last and last.length != _UNDEFINED
            if plain and last.value_tell + last.length != len(data):
                return None
            return str(found.get("SOPInstanceUID", "")), str(found.get("StudyInstanceUID", ""))
    except Exception:  # pydicom raises anything on damaged input, and quotes it
        return None
