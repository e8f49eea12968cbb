"""The receiver's check of a release: signature, checksums, schema, splits, residual PHI, gate.

It trusts only the given key: every file is read again, and reports are scanned by a detector that shares no
code with the one that cleaned them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from updp.core.policy import BadPolicy, Policy
from updp.core.questions import Outcome
from updp.release import manifest
from updp.release.gate import Check, plain
from updp.release.signature import BadSignature, check_signature, check_sums

#: Faults listed of one kind before the rest is only counted.
_SHOWN = 5


class NotARelease(ValueError):
    """The folder is not a release."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What the receiver may rely on."""

    folder: Path
    checks: tuple[Check, ...]
    status: str  # of the gate, as the release states it
    signed_by: str | None

    @property
    def intact(self) -> bool:
        """Whether everything that can be checked here holds. A gate that measured nothing is said, not failed."""
        return not any(check.outcome is Outcome.FAILED for check in self.checks)


def verify(folder: str | Path, *, trusted: str | None = None) -> Verification:
    """Check signature, checksums, schema, reports and gate of a release.

    ``trusted`` is the sending hospital's public key. Get it separately from the release.
    """
    release = Path(folder)
    if not (release / "manifest.parquet").is_file():
        raise NotARelease(f"{folder} is not a release: it has no manifest.parquet")
    checks: list[Check] = []
    signed_by: str | None = None
    try:
        signed_by = check_signature(release, trusted)
        by = "the key you trust" if trusted else f"{signed_by} (compare it with the key you were given)"
        checks.append(plain("signature", True, f"signed by {by}"))
    except BadSignature as bad:
        checks.append(plain("signature", False, str(bad)))
    checks.append(_check("checksums", check_sums(release), "every file is as it was signed"))
    checks.append(_check("schema", _schema_faults(release), "manifest, films and reports agree"))
    checks.append(_check("residual PHI", _residual(release), "the second detector found nothing in the reports"))
    status = "unknown"
    try:
        gate = json.loads((release / "evidence" / "evaluation.json").read_bytes())["gate"]
        status = str(gate["status"])
        missing = [check["name"] for check in gate["checks"] if check["outcome"] == Outcome.NOT_ASKED]
        outcome = {"passed": Outcome.HELD, "not-measured": Outcome.NOT_ASKED}.get(status, Outcome.FAILED)
        checks.append(Check("gate", outcome, f"{status}; never asked: {', '.join(missing)}" if missing else status))
    except (OSError, ValueError, KeyError, TypeError):
        checks.append(plain("gate", False, "evidence/evaluation.json is missing or unreadable"))
    return Verification(release, tuple(checks), status, signed_by)


def _check(name: str, faults: Iterator[str], good: str) -> Check:
    shown, count = [], 0
    for fault in faults:
        count += 1
        if count <= _SHOWN:
            shown.append(fault)
    if count > _SHOWN:
        shown.append(f"and {count - _SHOWN} more")
    return plain(name, count == 0, "; ".join(shown) or good)


def _schema_faults(release: Path) -> Iterator[str]:
    import pyarrow.parquet as pq

    try:
        Policy.load(release / "policy.toml")
    except BadPolicy:
        yield "policy.toml is missing or not a policy"
    try:
        found = pq.read_schema(release / "manifest.parquet")
    except (OSError, ValueError):
        yield "manifest.parquet cannot be read"
        return
    if not found.equals(manifest.schema()):
        yield "manifest.parquet has other columns than this version of updp writes"
        return
    seen: set[str] = set()
    split_of: dict[str, str] = {}
    with_report: dict[str, set[str]] = {}
    for row in manifest.read(release / "manifest.parquet"):
        if row["release_id"] in seen:
            yield f"{row['release_id']}: listed twice"
        seen.add(row["release_id"])
        if split_of.setdefault(row["patient"], row["split"]) != row["split"]:
            yield f"{row['patient']}: in two splits"
        place = Path(row["file_name"])
        if place.is_absolute() or ".." in place.parts or not (release / place).is_file():
            yield f"{row['release_id']}: its film is missing"
        if row["has_report"]:
            with_report.setdefault(row["shard"], set()).add(row["release_id"])
    yield from _report_faults(release, with_report)


def _report_faults(release: Path, wanted: dict[str, set[str]]) -> Iterator[str]:
    for shard, ids in sorted(wanted.items()):
        found: set[str] = set()
        for _, line in _report_lines(release / "reports" / f"{shard}.jsonl"):
            if line is None:
                yield f"reports/{shard}.jsonl: a line cannot be read"
            elif line["release_id"] not in ids:
                yield f"reports/{shard}.jsonl: a report of a film that is not in the manifest"
            else:
                found.add(line["release_id"])
        if found != ids:
            yield f"reports/{shard}.jsonl: {len(ids - found)} reports are missing"


def _report_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    try:
        with path.open("rb") as source:
            for number, raw in enumerate(source, start=1):
                try:
                    line = json.loads(raw)
                    sections = line["sections"]
                    good = isinstance(line["release_id"], str) and all(isinstance(t, str) for t in sections.values())
                    yield number, line if good else None
                except (ValueError, KeyError, TypeError, AttributeError):
                    yield number, None
    except OSError:
        yield 0, None


def _residual(release: Path) -> Iterator[str]:
    """Places (never the words) where the second detector sees PHI in a released report."""
    from updp.release.residual import residual_spans

    mode: Literal["surrogate", "tag"] = "tag"
    try:  # shifted dates and surrogate names are expected where the policy says so, and only there
        if Policy.load(release / "policy.toml").report.mode == "surrogate":
            mode = "surrogate"
    except BadPolicy:
        pass
    for path in sorted((release / "reports").glob("*.jsonl")):
        for number, line in _report_lines(path):
            if line is None:
                continue
            for name, text in line["sections"].items():
                for span in residual_spans(text, mode=mode):
                    yield f"reports/{path.name}:{number} {name}[{span.start}:{span.end}] looks like {span.category}"
