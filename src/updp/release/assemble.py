"""From landed shards to a release: manifest, reports, evidence, card, checksums, signature; then one rename.

Everything here is a pure function of the shard records, so assembly that was interrupted is simply done again. Shards
are streamed; what grows with the number of films is seventeen bytes each.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from updp.keys import Key
from updp.policy import Policy
from updp.quarantine import Reason
from updp.release import card, manifest
from updp.release.files import OutputError, sync_folder, write_bytes
from updp.release.gate import Status, Verdict, judge
from updp.release.shard import ShardRecord
from updp.release.signature import checksum_line, file_sum, sign
from updp.screening import conformance


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    status: Status
    folder: Path  # OUT/release, or OUT/blocked
    released: int
    quarantined: dict[str, int] = field(default_factory=dict)  # reason -> studies
    skipped: int = 0  # lateral films passed over


def finished(out: Path) -> Outcome | None:
    """The outcome of a run that already ended at ``out``."""
    for name in ("release", "blocked"):
        try:
            evidence = json.loads((out / name / "evidence" / "evaluation.json").read_bytes())
            counts = evidence["counts"]
            return Outcome(evidence["gate"]["status"], out / name, counts["released"], counts["quarantined"])
        except (OSError, ValueError, KeyError):
            continue
    return None


def assemble(out: Path, policy: Policy, key: Key) -> Outcome:
    """Build the release from the shards that landed and put it in its place."""
    build = out / ".work" / "build"
    overview = _overview(out)
    tallies: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with _replacing(out / "quarantine.jsonl", mode=0o600) as quarantine:

        def rows() -> Iterator[dict[str, Any]]:
            for record in _records(out):
                tallies.update(record.tallies)
                kept_back = list(record.quarantine)
                for row, content, ref in zip(record.rows, record.content, record.refs, strict=True):
                    if content in overview.shared:
                        kept_back.append({"ref": ref, "station": "assembly", "reason": Reason.FILM_SHARED.value})
                    else:
                        yield row
                for entry in kept_back:
                    reasons[entry["reason"]] += 1
                    quarantine.write(json.dumps(entry).encode() + b"\n")

        released = manifest.write(build / "manifest.parquet", rows())
    if overview.shared:
        for record in _records(out):
            _drop(build, record, overview.shared)
    verdict = judge(policy.gate, released=released, quarantined=reasons.total(), disjoint=overview.disjoint)
    facts = _facts(policy, released, reasons, tallies, verdict)
    (build / "evidence").mkdir(exist_ok=True)
    texts = {
        "policy.toml": policy.to_toml(),
        "evidence/evaluation.json": json.dumps(facts, indent=2, sort_keys=True) + "\n",
        "evidence/conformance.md": conformance(policy),
        "evidence/report.html": card.evidence_page(facts, policy),
        "README.md": card.readme(facts, policy, key),
        "croissant.json": card.croissant(build, facts, policy),
    }
    for name, text in texts.items():
        write_bytes(build / name, text.encode())
    with _replacing(build / "checksums.sha256") as listing:
        for name in sorted([*texts, "manifest.parquet"]):
            listing.write(checksum_line(file_sum(build / name), name))
        for record in _records(out):
            for name, digest in _remaining(build, record, overview.shared):
                listing.write(checksum_line(digest, name))
    sign(build, key)
    folder = out / ("blocked" if verdict.status == "blocked" else "release")
    os.rename(build, folder)
    sync_folder(out)
    return Outcome(verdict.status, folder, released, dict(sorted(reasons.items())))


@contextmanager
def _replacing(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file that takes its place only when it is whole."""
    temporary = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)


def _records(out: Path) -> Iterator[ShardRecord]:
    for path in sorted((out / ".work" / "shards").glob("*.json")):
        record = ShardRecord.load(path)
        if record is None:
            raise OutputError("the record of a shard is damaged; run the same command again")
        yield record


@dataclass(frozen=True, slots=True)
class _Overview:
    """What only shows across shards."""

    shared: frozenset[str]  # content digests of films filed under more than one patient
    disjoint: bool  # every patient's films are in one split


def _overview(out: Path) -> _Overview:
    """Look across all shards, at seventeen bytes a film."""
    import numpy as np

    content, patient, split = array("Q"), array("Q"), array("B")
    for record in _records(out):
        for row, digest in zip(record.rows, record.content, strict=True):
            content.append(int(digest, 16))
            patient.append(_number(row["patient"]))
            split.append(("train", "val", "test").index(row["split"]))
    if not content:
        return _Overview(frozenset(), True)
    patients = np.frombuffer(patient, np.uint64)

    def several(left: Any, right: Any) -> Any:
        """Values of ``left`` that go with more than one value of ``right``."""
        couples = np.unique(np.stack([left, right], axis=1), axis=0)
        values, counts = np.unique(couples[:, 0], return_counts=True)
        return values[counts > 1]

    shared = several(np.frombuffer(content, np.uint64), patients)
    torn = several(patients, np.frombuffer(split, np.uint8).astype(np.uint64))
    return _Overview(frozenset(f"{value:016x}" for value in shared.tolist()), not len(torn))


def _number(pseudonym: str) -> int:
    """A 64-bit number of a pseudonym, to keep tables of patients small; it is keyed already."""
    return int.from_bytes(hashlib.blake2b(pseudonym.encode(), digest_size=8).digest(), "big")


def _drop(build: Path, record: ShardRecord, shared: frozenset[str]) -> None:
    """Take films out of a landed shard, with their reports; doing it twice changes nothing."""
    dropped = {}
    for row, content in zip(record.rows, record.content, strict=True):
        if content in shared:
            dropped[row["release_id"]] = build / row["file_name"]
    for path in dropped.values():
        path.unlink(missing_ok=True)
    folder = build / "images" / record.shard
    if dropped and folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
    reports = build / "reports" / f"{record.shard}.jsonl"
    if dropped and reports.exists():
        kept = [line for line in reports.read_bytes().splitlines(keepends=True)
                if json.loads(line)["release_id"] not in dropped]  # fmt: skip
        if kept:
            write_bytes(reports, b"".join(kept))
        else:
            reports.unlink()


def _remaining(build: Path, record: ShardRecord, shared: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Files of a shard with their sums; those taken when the films were written serve again."""
    touched = not shared.isdisjoint(record.content)
    for name, digest in record.sums.items():
        path = build / name
        if not touched:
            if not path.is_file():
                raise OutputError("a file of a landed shard is gone; run the same command again")
            yield name, digest
        elif path.is_file():
            yield name, file_sum(path)


def _facts(
    policy: Policy, released: int, reasons: Counter[str], tallies: Counter[str], verdict: Verdict
) -> dict[str, Any]:
    """Everything the evidence states, as data."""
    import updp

    return {
        "format": "updp-evaluation-1",
        "updp": updp.__version__,
        "method": policy.method.model_dump(mode="json"),
        "counts": {"released": released, "quarantined": dict(sorted(reasons.items()))},
        "tallies": dict(sorted(tallies.items())),
        "measurements": [],
        "gate": verdict.to_json(),
    }
