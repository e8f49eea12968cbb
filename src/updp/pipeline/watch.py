"""`updp watch`: studies that arrive in a folder become dated releases.

A study is a folder (or a file) at the top of the watched folder. Once nothing in it has changed for a time, its new
files are linked into a batch under ``OUT/arrived``, and the batch is de-identified as any other source::

    OUT/arrived/2026-03-04/<study>/…   what went into the batch; stays in the hospital
    OUT/2026-03-04/                    the run of that batch: release, quarantine, vault

The batch takes its name in one rename, and a run can be killed at any moment, so the whole can be. What the batches
hold is what has been taken; nothing else is remembered. An object that comes late goes into a later batch, alone. How
long a study has been unchanged is measured by the clock of the watch, so clocks of other computers do not matter.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from updp.core.keys import Key
from updp.core.metrics import Metrics, families
from updp.core.policy import Policy
from updp.core.storage import explain, lock_folder, sync_folder
from updp.pipeline.run import RunError, check_apart, deidentify
from updp.pipeline.stations import whereabouts
from updp.release.assemble import Outcome, finished
from updp.sources.files import BadSource, files_below

log = logging.getLogger("updp.watch")

ARRIVED = "arrived"
#: Seconds until a batch that could not be made is tried again: at first, and at most.
_RETRY, _RETRY_MOST = 60.0, 3600.0

METRICS = families("watch")


class State(NamedTuple):
    """What tells that a file changed."""

    size: int
    changed: int


@dataclass(slots=True)
class _Arrival:
    """The new files of a study as they were last seen, and since when."""

    files: dict[str, State]
    since: float


@dataclass(slots=True)
class _Held:
    """A batch that could not be made: when to try again, and how long to wait after that."""

    again: float
    wait: float = _RETRY


@dataclass(slots=True)
class Watch:
    """A folder under watch. ``look`` does all that is due now."""

    source: Path
    out: Path
    quiet: float  # seconds without a change after which a study is complete
    at_least: int = 1  # studies of a batch
    policy: Policy = field(default_factory=Policy)
    key: Key | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # further arguments of a run: workers, engine, seed
    metrics: Metrics = field(default_factory=lambda: Metrics(METRICS))
    clock: Callable[[], float] = time.monotonic
    today: Callable[[], dt.date] = dt.date.today
    _arrivals: dict[str, _Arrival] = field(default_factory=dict)
    _taken: dict[str, State] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)  # batches whose run is not finished
    _held: dict[str, _Held] = field(default_factory=dict)

    @contextmanager
    def owned(self) -> Iterator[Watch]:
        """Begin: lock the output, and go on where the last watch was."""
        if not self.source.is_dir():
            raise BadSource("the folder to watch is not there; `updp receive` makes it, or mount it")
        check_apart(self.source.absolute(), self.out.absolute())
        busy = RunError("another watch writes to this output; end it or choose another folder")
        with lock_folder(self.out / ARRIVED, ".lock", busy):
            self._recall()
            yield self

    def _recall(self) -> None:
        for batch in sorted((self.out / ARRIVED).iterdir()):
            if not batch.is_dir():
                continue
            if batch.name.startswith("."):  # killed before it had its name
                shutil.rmtree(batch)
                continue
            self._taken |= dict(_states(batch))
            if finished(self.out / batch.name) is None or (self.out / batch.name / ".work").exists():
                self._open.append(batch.name)

    @property
    def idle(self) -> bool:
        """Whether nothing waits: no study, no batch."""
        return not self._arrivals and not self._open

    @property
    def failing(self) -> bool:
        """Whether a batch could not be made."""
        return bool(self._held)

    def look(self) -> list[Outcome]:
        """Look at the folder once and make what is due; the outcomes of the batches that were made."""
        self.metrics.set("updp_watch_last_look_seconds", time.time())
        try:
            self._note_arrivals()
            if batch := self._claim():
                self._open.append(batch)
        except OSError as error:
            self._failed("", explain(error))
        self.metrics.set("updp_watch_waiting_studies", len(self._arrivals))
        made = [outcome for batch in list(self._open) if (outcome := self._make(batch)) is not None]
        self.metrics.set("updp_watch_held_batches", len(self._held))
        return made

    def _note_arrivals(self) -> None:
        now, changed = self.clock(), 0
        found: dict[str, dict[str, State]] = {}
        for name, state in _states(self.source):
            before = self._taken.get(name)
            if before is None:
                found.setdefault(name.partition(os.sep)[0], {})[name] = state
            elif before != state:
                changed += 1
        self.metrics.set("updp_watch_changed_files", changed)
        for study in self._arrivals.keys() - found.keys():
            del self._arrivals[study]
        for study, files in found.items():
            seen = self._arrivals.get(study)
            if seen is None or seen.files != files:
                self._arrivals[study] = _Arrival(files, now)

    def _claim(self) -> str | None:
        """Put the studies that are quiet into a batch of today."""
        now = self.clock()
        due = {study: seen.files for study, seen in sorted(self._arrivals.items()) if now - seen.since >= self.quiet}
        if len(due) < self.at_least or not due:
            return None
        name = self._name()
        building = self.out / ARRIVED / f".{name}"
        shutil.rmtree(building, ignore_errors=True)  # of a claim that found no room
        building.mkdir(mode=0o700)
        for files in due.values():
            for inside in files:
                target = building / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(self.source / inside, target)
        for folder in {path.parent for path in files_below(building)}:
            sync_folder(folder)
        os.rename(building, self.out / ARRIVED / name)
        sync_folder(self.out / ARRIVED)
        for study, files in due.items():
            self._taken |= files
            del self._arrivals[study]
        log.info("batch", extra={"facts": {"batch": name, "studies": len(due), "files": sum(map(len, due.values()))}})
        return name

    def _name(self) -> str:
        day = self.today().isoformat()
        names = (day if n == 1 else f"{day}-{n:02d}" for n in range(1, 10_000))
        return next(n for n in names if not (self.out / ARRIVED / n).exists() and not (self.out / n).exists())

    def _make(self, batch: str) -> Outcome | None:
        """Run a batch to its end, unless it failed lately."""
        if (held := self._held.get(batch)) is not None and self.clock() < held.again:
            return None
        try:
            outcome = deidentify(
                self.out / ARRIVED / batch, self.out / batch,
                policy=self.policy, key=self.key, layout="dicom", **self.settings,
            )  # fmt: skip
        except Exception as error:
            self._failed(batch, error)
            return None
        self._open.remove(batch)
        self._held.pop(batch, None)
        self.metrics.add("updp_watch_batches_total", status=outcome.status)
        self.metrics.add("updp_watch_films_total", outcome.released)
        for reason, count in outcome.quarantined.items():
            self.metrics.add("updp_watch_quarantined_total", count, reason=reason)
        facts = {"status": outcome.status, "released": outcome.released, "quarantined": dict(outcome.quarantined)}
        log.info("release", extra={"facts": {"batch": batch, **facts}})
        return outcome

    def _failed(self, batch: str, error: Exception) -> None:
        """Note why, and when to try again. Only messages of this package are noted: others may quote the data."""
        ours = type(error).__module__.startswith("updp.")
        self.metrics.add("updp_watch_failures_total")
        facts = {"batch": batch, "error": str(error) if ours else whereabouts(error)}
        log.warning("failed", extra={"facts": facts})
        if batch:
            wait = min(2 * self._held[batch].wait, _RETRY_MOST) if batch in self._held else _RETRY
            self._held[batch] = _Held(self.clock() + wait, wait)


def _states(root: Path) -> Iterator[tuple[str, State]]:
    """Every file below a folder that is no part of a transfer under way, with its state."""
    for path in files_below(root):
        if path.name.startswith("."):
            continue
        try:
            found = path.stat()
        except OSError:  # gone meanwhile, or a link that leads nowhere
            continue
        yield str(path.relative_to(root)), State(found.st_size, found.st_mtime_ns)


def _link(source: Path, target: Path) -> None:
    """The same file at a second place: a link, or on another file system a copy that is synced."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
        with target.open("rb") as copied:
            os.fsync(copied.fileno())
