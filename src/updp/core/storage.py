"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO


class OutputError(OSError):
    """The output cannot be written; the message says what to do and names no patient."""


_ADVICE = {
    errno.ENOSPC: "no room left on the disk; free some and run the same command again, it resumes",
    errno.EDQUOT: "the disk quota is used up; free some room and run the same command again, it resumes",
    errno.EFBIG: "a file grew past the size limit of this process or file system",
    errno.EROFS: "the output is on a read-only file system",
    errno.EACCES: "the output is not writable",
    errno.EPERM: "the output is not writable",
}


def explain(error: OSError) -> OutputError:
    """An error of the output for the user, without the text of the operating system, which may hold a path."""
    return OutputError(_ADVICE.get(error.errno or 0, f"the output cannot be written ({os.strerror(error.errno or 0)})"))


@contextmanager
def writing(
    path: Path, *, mode: int = 0o644, sync: bool = True, fresh: bool = False, aside: Path | None = None
) -> Iterator[BinaryIO]:
    """A file that takes its place only when it is whole: a temporary file beside it, fsync, rename.

    ``fresh`` never takes the place of another file: ``FileExistsError``, also if it appeared meanwhile. ``aside`` is
    the folder of the temporary file, where a reader of the target's folder must not meet it.
    """
    temporary = (aside or path.parent) / f".{path.name}.{os.getpid()}.{threading.get_ident():x}"
    if fresh and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as out:
            yield out
            out.flush()
            if sync:
                os.fsync(out.fileno())
        _place_anew(temporary, path) if fresh else os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _place_anew(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # fails if there is one, on every file system that has links
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.rename(temporary, path)


def write_bytes(
    path: Path, data: bytes, *, mode: int = 0o644, sync: bool = True, fresh: bool = False, aside: Path | None = None
) -> None:
    """Write ``data`` whole or not at all (``writing``)."""
    with writing(path, mode=mode, sync=sync, fresh=fresh, aside=aside) as out:
        out.write(data)


def lock_folder(folder: Path, name: str, busy: Exception) -> AbstractContextManager[Any]:
    """Make a folder that only its owner may read and lock it until the ``with`` block ends; ``busy`` is raised at once
    where another process holds the lock."""
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
        return FileLock(folder / name, timeout=0, mode=0o600, thread_local=False).acquire()
    except Timeout:
        raise busy from None
    except OSError as error:
        raise explain(error) from None


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, where the system lets a folder be opened."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
