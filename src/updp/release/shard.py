"""Shards: the unit of work, and the unit of storage. They are not the same studies.

A *work shard* is a run of consecutive studies of the source; it lands whole or not at all. A *release shard* is a
folder of films and a file of reports, chosen for each film by its release id, which is a keyed hash: films that stood
side by side in the source are scattered, so the order of the release says nothing about the order of patients. For the
same reason every file carries the same time stamp.

During a run its output looks like this::

    OUT/run.json                       what the run is
    OUT/.work/lock                     that it is running
    OUT/.work/shards/00012.json        written last: work shard 12 has landed, and what is in it
    OUT/.work/build/images/00007/      the release as far as it is built
    OUT/vault/00012.vault              which study was which; stays in the hospital

A shard without its record is done again; its films come out the same, byte for byte, so a run may be killed at any
moment.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from updp.core.keys import Key
from updp.core.reasons import Quarantined
from updp.core.record import Report
from updp.core.storage import write_bytes
from updp.release import vault

#: The time stamp of released files, 1980-01-01: the earliest that every archive format can hold.
STAMP = 315_532_800


@dataclass(frozen=True, slots=True)
class Film:
    """A film ready to be written: its bytes, its report, and its row of the manifest."""

    data: list[bytes]  # in parts that follow each other
    report: Report | None
    row: Mapping[str, Any]
    content: str  # keyed digest of the source film: the same film under two patients shows
    ref: str  # what the quarantine list would call it


@dataclass(slots=True)
class ShardRecord:
    """What landed in a work shard. No value in it comes from a patient but cleaned or under the hospital's key."""

    shard: str
    members: str  # keyed digest of the members as they were: a source that changed between runs shows
    films: list[dict[str, Any]] = field(default_factory=list)  # row, report, content, ref, sum, size
    quarantine: list[dict[str, str]] = field(default_factory=list)
    tallies: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> ShardRecord | None:
        """The record at ``path``, or None if the shard has not landed."""
        try:
            return cls(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def present(self, build: Path) -> bool:
        """Whether its films are really there: a power cut can lose a file whose record survived."""
        try:
            return all((build / f["row"]["file_name"]).stat().st_size == f["size"] for f in self.films)
        except OSError:
            return False


def shard_name(index: int) -> str:
    return f"{index:05d}"


def release_shard(release_id: str, count: int) -> str:
    """The folder a film is stored in, one of ``count``."""
    return shard_name(int.from_bytes(hashlib.blake2b(release_id.encode(), digest_size=8).digest(), "big") % count)


def place_film(out: Path, film: Film) -> dict[str, Any]:
    """Write a film to where it will lie in the release; returns what the record of its shard says of it."""
    path = out / ".work" / "build" / film.row["file_name"]
    path.parent.mkdir(exist_ok=True)
    # No fsync a film: the record holds every size and checksum, and a film that a power cut lost is made again.
    running = hashlib.sha256()
    with path.open("wb") as out_file:
        for part in film.data:
            out_file.write(part)
            running.update(part)
    os.utime(path, (STAMP, STAMP))
    return {
        "row": dict(film.row),
        "report": None if film.report is None else dict(film.report.sections),
        "content": film.content,
        "ref": film.ref,
        "sum": running.hexdigest(),
        "size": sum(map(len, film.data)),
    }


def land(
    out: Path,
    shard: str,
    members: str,
    films: list[dict[str, Any]],
    quarantined: list[Quarantined],
    links: list[dict[str, Any]],
    tallies: Mapping[str, int],
    key: Key,
) -> ShardRecord:
    """Land a shard whose films are placed: the vault, and last of all the record that says they are there."""
    record = ShardRecord(shard, members, films, [asdict(q) for q in quarantined], dict(tallies))
    vault.seal(out / "vault" / f"{shard}.vault", links, key)
    # Field by field: dataclasses.asdict would copy every row of the shard once more.
    fields = {name: getattr(record, name) for name in record.__slots__}
    write_bytes(out / ".work" / "shards" / f"{shard}.json", json.dumps(fields).encode(), mode=0o600)
    return record
