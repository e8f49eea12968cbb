"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import errno
import os
from pathlib import Path


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
    """An error of the output as the user should read it; the operating system's text may hold a path, ours does not."""
    return OutputError(_ADVICE.get(error.errno or 0, f"the output cannot be written ({os.strerror(error.errno or 0)})"))


def write_bytes(path: Path, data: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Write ``data`` whole: a temporary file beside it, fsync, rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
        out.flush()
        if sync:
            os.fsync(out.fileno())
    os.replace(temporary, path)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
