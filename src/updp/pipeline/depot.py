"""An output at an address: what a run keeps there, and the folder here that stands for it.

Workers make a shard in a folder of their own, put its films and its part of the vault into the store, and last its
record. The driver has a partial copy of the output: records and texts whole, films as sparse files of their size, so
that resume and assembly are those of a local run. A finished release is copied to its place within the store, and its
signature is put last, if there is none: a folder without a signature is no release.

    ADDRESS/.work/lock-00001            that a driver is running; it beats
    ADDRESS/.work/shards/00012.json     work shard 12 has landed
    ADDRESS/.work/build/images/         films that landed
    ADDRESS/vault/, run.json, release/  as in a local output
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from updp.core.remote import Remote, RemoteError
from updp.release.assemble import FOLDERS
from updp.release.shard import ShardRecord

#: Seconds between two beats of a lock, and beats after which one that does not change is that of a driver that died.
BEAT, BEATS = 10.0, 3
#: Files that are put or copied at a time.
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Depot:
    """An output at an address."""

    remote: Remote

    # -- workers -----------------------------------------------------------------------------------------------------

    def land(self, made: Path, record: ShardRecord) -> None:
        """Put what a worker made of a shard: films, vault, and last its record."""
        build = made / ".work" / "build"
        names = [film["row"]["file_name"] for film in record.films]
        self._put_all([(f".work/build/{name}", build / name) for name in names])
        for sealed in sorted((made / "vault").iterdir()):
            self.remote.put(f"vault/{sealed.name}", sealed)
        self.remote.put(f".work/shards/{record.shard}.json", made / ".work" / "shards" / f"{record.shard}.json")

    # -- the driver --------------------------------------------------------------------------------------------------

    def pull(self, folder: Path) -> None:
        """Make ``folder`` a likeness of the output. A release whose signature was never put is left out."""
        for name in FOLDERS.values():
            if self.remote.exists(f"{name}/README.md") and not self.remote.exists(f"{name}/signature"):
                self.remote.remove(name)
        for inside, files in self.remote.walk():
            if inside.split("/")[0] == "vault":  # sealed, and only ever added to
                continue
            (folder / inside).mkdir(parents=True, exist_ok=True)
            for found in files:
                path = folder / found.name
                if "/images/" in f"/{found.name}":
                    hole(path, found.size)
                elif not PurePosixPath(found.name).name.startswith("lock-"):
                    self.remote.fetch(found.name, path)

    def note(self, folder: Path, record: ShardRecord) -> None:
        """Enter into the likeness what a worker landed."""
        for film in record.films:
            path = folder / ".work" / "build" / film["row"]["file_name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            hole(path, film["size"])
        fields = {name: getattr(record, name) for name in record.__slots__}
        (folder / ".work" / "shards" / f"{record.shard}.json").write_text(json.dumps(fields))

    def push(self, folder: Path, names: Iterable[str]) -> None:
        """Put files of the likeness, those that are there."""
        self._put_all([(name, folder / name) for name in names if (folder / name).is_file()])

    def publish(self, folder: Path, release: Path) -> None:
        """Put a release that was assembled in the likeness into its place, and clear away what only a run needs."""
        name = release.name
        if self.remote.exists(f"{name}/signature"):
            raise RemoteError("another run has put a release at this address; choose another")
        self.remote.remove(name)
        inside = sorted(path.relative_to(release).as_posix() for path in release.rglob("*") if path.is_file())
        films = [one for one in inside if one.startswith("images/")]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda film: self.remote.copy(f".work/build/{film}", f"{name}/{film}"), films))
        others = [one for one in inside if not one.startswith("images/") and one != "signature"]
        self._put_all([(f"{name}/{one}", release / one) for one in others])
        kept = [path.relative_to(folder).as_posix() for path in (folder / "records").rglob("*") if path.is_file()]
        self.push(folder, [*sorted(kept), "quarantine.jsonl", "run.json", *self._options(folder)])
        if not self.remote.create(f"{name}/signature", (release / "signature").read_bytes()):
            raise RemoteError("another run has put a release at this address; choose another")
        self.remote.remove(".work/build")
        self.remote.remove(".work/shards")

    @staticmethod
    def _options(folder: Path) -> list[str]:
        return [f"vault/{path.name}" for path in (folder / "vault").glob("*.json")]

    def _put_all(self, files: list[tuple[str, Path]]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda one: self.remote.put(*one), files))


class Lock:
    """A lock at an address, of which one driver at most is the holder.

    The holder writes a new value into its lock at every beat. Who finds a lock waits whether it beats: no clocks are
    compared. If it does not, the next lock in number is put if there is none: of several drivers one succeeds, and a
    holder that only slept finds that it is none any more.
    """

    def __init__(self, remote: Remote, busy: Exception) -> None:
        self.remote, self.busy = remote, busy
        self.number, self.lost = 0, False
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._beat, daemon=True)

    @staticmethod
    def _name(number: int) -> str:
        return f".work/lock-{number:05d}"

    def _newest(self) -> int:
        files = next(iter(self.remote.walk(".work")))[1]
        found = [PurePosixPath(one.name).name for one in files]
        return max((int(name.removeprefix("lock-")) for name in found if name.startswith("lock-")), default=0)

    def _value(self, number: int) -> bytes:
        try:
            return self.remote.read(self._name(number))
        except FileNotFoundError:
            return b""

    def __enter__(self) -> Lock:
        newest = self._newest()
        if newest and (first := self._value(newest)):
            for _ in range(BEATS):
                time.sleep(BEAT)
                if self._newest() != newest or self._value(newest) not in (first, b""):
                    raise self.busy
        self.number = newest + 1
        if not self.remote.create(self._name(self.number), uuid.uuid4().bytes):
            raise self.busy
        if newest:
            self.remote.remove(self._name(newest))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        if not self.lost:
            self.remote.remove(self._name(self.number))

    def check(self) -> None:
        """Raise if another driver took this one for dead."""
        if self.lost:
            raise self.busy

    def _beat(self) -> None:
        while not self.done.wait(BEAT):
            try:
                if self._newest() != self.number:
                    self.lost = True
                    return
                self.remote.put(self._name(self.number), uuid.uuid4().bytes)
            except OSError:  # the store is away for a while: the run itself says so, or goes on
                continue


def hole(path: Path, size: int) -> None:
    """A file of a size that takes no room."""
    with path.open("wb") as file:
        file.truncate(size)


def made_apart(work: Any, depot: Depot) -> Any:
    """Call ``work`` with a fresh output folder of this worker, and land in the store what it returns."""
    folder = Path(tempfile.mkdtemp(prefix="updp-"))
    try:
        for name in (".work/shards", ".work/ticks", ".work/build/images", "vault"):
            (folder / name).mkdir(parents=True)
        record = work(folder)
        if isinstance(record, ShardRecord):
            depot.land(folder, record)
        return record
    finally:
        shutil.rmtree(folder, ignore_errors=True)
