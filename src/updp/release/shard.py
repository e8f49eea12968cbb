"""One shard of a release: films and reports of a fixed set of studies, landed whole or not at all.

While a run is under way its output looks like this::

    OUT/.work/run.json  lock          what the run is, and that it is running
    OUT/.work/shards/00012.json       written last: shard 12 has landed, and what is in it
    OUT/.work/build/images/00012/     the release as far as it is built
    OUT/.work/build/reports/00012.jsonl
    OUT/vault/00012.vault             which study was which; stays in the hospital

A shard without its record is done again from scratch, so a run may be killed at any moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from updp.keys import Key
from updp.quarantine import Quarantined
from updp.release import vault
from updp.release.files import replace_folder, write_bytes
from updp.study import Report


@dataclass(frozen=True, slots=True)
class Film:
    """A film ready to be written: its bytes, its report, and its row of the manifest."""

    data: bytes
    suffix: str  # "png" or "dcm"
    report: Report | None
    row: Mapping[str, Any]
    content: str  # keyed digest of the source film: the same film under two patients shows
    ref: str  # what the quarantine list would call it


@dataclass(slots=True)
class ShardRecord:
    """What landed in a shard. No value in it comes from a patient but under the hospital's key."""

    shard: str
    members: str  # keyed digest of the member ids: a source that changed between runs shows
    rows: list[dict[str, Any]] = field(default_factory=list)
    content: list[str] = field(default_factory=list)  # beside rows, as are refs
    refs: list[str] = field(default_factory=list)
    quarantine: list[dict[str, str]] = field(default_factory=list)
    sums: dict[str, str] = field(default_factory=dict)  # file in the release -> SHA-256
    tallies: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> ShardRecord | None:
        """The record at ``path``, or None if the shard has not landed."""
        try:
            return cls(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None


def shard_name(index: int) -> str:
    return f"{index:05d}"


def land(
    out: Path,
    shard: str,
    members: str,
    films: list[Film],
    quarantined: list[Quarantined],
    links: list[dict[str, Any]],
    tallies: Mapping[str, int],
    key: Key,
) -> ShardRecord:
    """Write a shard: files, vault, and last of all the record that says it is there."""
    work = out / ".work"
    record = ShardRecord(
        shard,
        members,
        rows=[dict(film.row) for film in films],
        content=[film.content for film in films],
        refs=[film.ref for film in films],
        quarantine=[asdict(q) for q in quarantined],
        tallies=dict(tallies),
    )
    temporary = work / f"tmp-{shard}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    lines = []
    for film in films:
        name = f"{film.row['release_id']}.{film.suffix}"
        # Records name every file with its checksum and assembly checks sizes, so the films themselves need no fsync
        # each: a film lost to a power cut is noticed and its shard done again.
        (temporary / name).write_bytes(film.data)
        record.sums[f"images/{shard}/{name}"] = hashlib.sha256(film.data).hexdigest()
        if film.report is not None:
            line = {
                "release_id": film.row["release_id"],
                "patient": film.row["patient"],
                "study": film.row["study"],
                "sections": dict(film.report.sections),
            }
            lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    if films:
        replace_folder(temporary, work / "build" / "images" / shard)
    else:
        temporary.rmdir()
    reports = work / "build" / "reports" / f"{shard}.jsonl"
    if lines:
        data = "".join(lines).encode()
        write_bytes(reports, data)
        record.sums[f"reports/{shard}.jsonl"] = hashlib.sha256(data).hexdigest()
    else:
        reports.unlink(missing_ok=True)
    vault.seal(out / "vault" / f"{shard}.vault", links, key)
    write_bytes(work / "shards" / f"{shard}.json", json.dumps(asdict(record)).encode(), mode=0o600)
    return record
