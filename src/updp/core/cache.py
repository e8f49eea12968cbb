"""Where costly arrays are kept: each is named by a digest of everything it was made from.

Features of the real films, and attackers trained on them, serve every later release of the same source. Files are
arrays without pickles, since a cache folder may be shared, and only their owner reads them, since they hold patients.
diskcache and joblib read pickles, and a pickle in a shared folder can run code.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

#: Part of every key: raise it when the meaning of a cached array changes.
EDITION = "1"


#: What lies in a cache folder; nothing else in it is ever removed.
PARTS = ("films", "learned", "made")


def default_folder() -> Path:
    """Where films and what attackers learned from them are kept unless the user says otherwise: never in a release."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "updp" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "updp"


def size_of(folder: Path) -> int:
    """Bytes that a cache folder holds."""
    return sum(path.stat().st_size for part in PARTS for path in (folder / part).rglob("*") if path.is_file())


def clear(folder: Path) -> int:
    """Remove what a cache folder holds; returns how many bytes that were."""
    held = size_of(folder)
    for part in PARTS:
        shutil.rmtree(folder / part, ignore_errors=True)
    return held


def key_of(*parts: Any) -> str:
    """A key for what is made from these parts; arrays count by content."""
    running = hashlib.sha256(EDITION.encode())
    for part in parts:
        if isinstance(part, np.ndarray):
            running.update(f"array{part.shape}{part.dtype.str}".encode())
            running.update(np.ascontiguousarray(part).tobytes())
        else:
            text = repr(part)
            running.update(f"{len(text)}:{text}".encode())
    return running.hexdigest()


class Cache(Protocol):
    """A store of arrays by the digest of what they were made from."""

    def get(self, key: str) -> dict[str, NDArray[Any]] | None: ...

    def put(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> None: ...


def kept_once(cache: Cache, key: str, make: Callable[[], Mapping[str, NDArray[Any]]]) -> Mapping[str, NDArray[Any]]:
    """What the cache has under ``key``; else what ``make`` gives, which is kept."""
    found = cache.get(key)
    if found is not None:
        return found
    made = make()
    cache.put(key, made)
    return made


class FolderCache:
    """One uncompressed ``.npz`` per key; a file lands whole or not at all, and a damaged one counts as absent."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def _file(self, key: str) -> Path:
        if not key or not all(c.isalnum() or c in "-_" for c in key):
            raise ValueError("a cache key consists of letters, digits, '-' and '_'")
        return self.path / f"{key}.npz"

    def get(self, key: str) -> dict[str, NDArray[Any]] | None:
        import zipfile

        file = self._file(key)
        if not file.is_file():
            return None
        try:
            with np.load(file, allow_pickle=False) as held:
                return {name: held[name] for name in held.files}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None

    def put(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        file = self._file(key)
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Features of real films are patient data: the file is readable by its owner alone (mkstemp's mode).
        handle, part = tempfile.mkstemp(dir=self.path, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                np.savez(out, allow_pickle=False, **dict(arrays))
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, file)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise


class MemoryCache:
    """What attacks of one evaluation share; the oldest goes when ``most`` bytes are held."""

    def __init__(self, most: int = 1_500_000_000) -> None:
        self.most, self._held = most, OrderedDict[str, dict[str, NDArray[Any]]]()

    def get(self, key: str) -> dict[str, NDArray[Any]] | None:
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return dict(self._held[key])

    def put(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._held[key] = dict(arrays)
        self._held.move_to_end(key)
        while len(self._held) > 1 and sum(a.nbytes for held in self._held.values() for a in held.values()) > self.most:
            self._held.popitem(last=False)


class Layered:
    """A fast cache before a lasting one."""

    def __init__(self, fast: Cache, lasting: Cache | None) -> None:
        self.fast, self.lasting = fast, lasting

    def get(self, key: str) -> dict[str, NDArray[Any]] | None:
        found = self.fast.get(key)
        if found is None and self.lasting is not None and (found := self.lasting.get(key)) is not None:
            self.fast.put(key, found)
        return found

    def put(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.fast.put(key, arrays)
        if self.lasting is not None:
            self.lasting.put(key, arrays)
