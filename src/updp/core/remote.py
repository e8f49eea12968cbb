"""Files at an address, ``s3://bucket/folder``: any file system that fsspec knows (extra ``remote``).

Where a store has no rename, an object appears whole when it is put; elsewhere a file is written beside its place and
renamed. Credentials come from where the driver of the scheme looks for them, never from this package, and no message
quotes an address beyond its scheme.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from updp.core.storage import OutputError

#: Schemes of stores in which an object appears whole or not at all.
_OBJECTS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"}
#: A scheme has two letters or more: one is a drive of Windows. A path has lost the second slash.
_ADDRESS = re.compile(r"([a-z][a-z0-9+.]+):/{1,2}(?=[^/])(.*)", re.DOTALL)
#: Under which names file systems tell when a file was written.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


class RemoteError(OutputError):
    """A place cannot be read or written; the message says what to do."""


def address_of(place: str | Path) -> str | None:
    """The address that ``place`` is, or None for a path of this machine."""
    found = _ADDRESS.fullmatch(os.fspath(place))
    return None if found is None or found[1] == "file" else f"{found[1]}://{found[2].rstrip('/')}"


def local_path(place: str | Path) -> Path:
    """A path of this machine, also where it is written as ``file:///…``."""
    text = os.fspath(place)
    return Path("/" + text.removeprefix("file:").lstrip("/")) if text.startswith("file:/") else Path(text)


@lru_cache(maxsize=8)
def _system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the root in it; made once a process."""
    scheme = address.partition("://")[0]
    try:
        import fsspec

        # Listings that are remembered would hide what other workers have written.
        system, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
        return system, str(root).rstrip("/")
    except ImportError:
        raise RemoteError(f"{scheme}:// needs its driver: pip install 'updp[remote]'") from None
    except ValueError:
        raise RemoteError(f"{scheme}:// is not a scheme that fsspec knows; see docs/how-to/cluster.md") from None
    except Exception:  # drivers raise what they like, and quote the address
        raise RemoteError(
            f"{scheme}:// cannot be opened; check address and network, and what its driver needs beside Python"
        ) from None


@dataclass(frozen=True, slots=True)
class Found:
    """A file at an address, by its path below it."""

    name: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Remote:
    """A folder at an address. Workers get the address, and open it themselves."""

    address: str

    @property
    def _scheme(self) -> str:
        return self.address.partition("://")[0]

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[Any, str]]:
        """File system and full path; an error of a driver becomes one of this package, which quotes no name."""
        system, root = _system(self.address)
        try:
            yield system, f"{root}/{name}" if name else root
        except RemoteError:
            raise
        except FileNotFoundError:
            raise FileNotFoundError("there is no such file at the address") from None
        except FileExistsError:
            raise FileExistsError("there is a file of that name at the address") from None
        except PermissionError:
            raise RemoteError(f"{self._scheme}:// refuses access; check credentials and permissions") from None
        except Exception:
            raise RemoteError(
                f"{self._scheme}:// does not answer correctly; check address and network, then run the "
                "same command again to resume"
            ) from None

    def walk(self, folder: str = "") -> Iterator[tuple[str, list[Found]]]:
        """Every folder below ``folder`` and its files, both in sorted order; one folder is held at a time."""
        with self._open(folder) as (system, place):
            try:
                listed = system.ls(place, detail=True)
            except FileNotFoundError:
                listed = []
        files, folders = [], []
        for entry in sorted(listed, key=lambda entry: str(entry["name"])):
            last = str(entry["name"]).rstrip("/").rpartition("/")[2]
            name = f"{folder}/{last}" if folder else last
            if str(entry["name"]).rstrip("/") == place.lstrip("/") or not last:
                continue  # some stores list a folder in itself
            if last in (".", "..") or "\0" in last or "\\" in last:
                raise RemoteError("a name at the address is not a file name; remove or rename that object")
            if entry["type"] == "directory":
                folders.append(name)
            else:
                files.append(Found(name, int(entry["size"] or 0), _time_of(entry)))
        yield folder, files
        for name in folders:
            yield from self.walk(name)

    def exists(self, name: str) -> bool:
        with self._open(name) as (system, place):
            return bool(system.exists(place))

    def read(self, name: str) -> bytes:
        with self._open(name) as (system, place):
            return bytes(system.cat_file(place))

    def fetch(self, name: str, to: Path) -> None:
        """Copy a file here; it takes its place when it is whole."""
        part = to.with_name(f".{to.name}.part")
        with self._open(name) as (system, place):
            try:
                system.get_file(place, str(part))
                os.replace(part, to)
            finally:
                part.unlink(missing_ok=True)

    @contextmanager
    def reading(self, name: str) -> Iterator[Any]:
        """A file for reading parts of it."""
        with self._open(name) as (system, place), system.open(place, "rb", block_size=2**17) as file:
            yield file

    def put(self, name: str, data: bytes | Path) -> None:
        """Write a file whole; it takes the place of another."""
        with self._open(name) as (system, place):
            whole = self._scheme in _OBJECTS
            target = place if whole else f"{place.rpartition('/')[0]}/.{uuid.uuid4().hex}"
            if not whole:
                system.makedirs(place.rpartition("/")[0], exist_ok=True)
            system.put_file(str(data), target) if isinstance(data, Path) else system.pipe_file(target, data)
            if not whole:
                system.mv(target, place)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one; returns whether it was written. Of several at once one succeeds."""
        with self._open(name) as (system, place):
            try:
                if self._scheme not in _OBJECTS:
                    system.makedirs(place.rpartition("/")[0], exist_ok=True)
                system.pipe_file(place, data, mode="create")
            except FileExistsError:
                return False
            return True

    def copy(self, name: str, to: str) -> None:
        """Copy a file within the store."""
        with self._open(name) as (system, place), self._open(to) as (_, target):
            if self._scheme not in _OBJECTS:
                system.makedirs(target.rpartition("/")[0], exist_ok=True)
            system.cp_file(place, target)

    def remove(self, name: str) -> None:
        """Remove a file or a folder; one that is not there is no fault."""
        with self._open(name) as (system, place):
            try:
                system.rm(place, recursive=True)
            except FileNotFoundError:
                return


def _time_of(entry: dict[str, Any]) -> int:
    for name in _TIMES:
        value = entry.get(name)
        if isinstance(value, dt.datetime):
            return int(value.timestamp() * 1e6) * 1000
        if isinstance(value, int | float):
            return int(value * 1e9)
    return 0
