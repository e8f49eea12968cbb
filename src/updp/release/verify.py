"""The receiver's check of a release: signature, signer, checksums, schema, residual PHI, gate, revocations.

It trusts only the given key: every file is read again, reports are scanned by a detector that shares no code with the
one that cleaned them, and the verdict is computed anew from the evidence and the policy inside.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from updp.core.manifest_files import manifest_files
from updp.core.pairs import Pairs, number_of
from updp.core.policy import BadPolicy, Policy
from updp.core.questions import Outcome
from updp.release import manifest, revocation
from updp.release.evidence import BadEvidence, Content, rejudged
from updp.release.gate import Check, plain
from updp.release.revocation import Revocations
from updp.release.signature import (
    BadMemory,
    BadSignature,
    Remembered,
    Seal,
    check_signature,
    check_sums,
    content_sum,
    fingerprint,
    is_of,
)

#: Faults listed of one kind before the rest is only counted.
_SHOWN = 5
_ASK = "ask the hospital, by telephone or in writing, for the output of `updp key fingerprint`, and give it to --trust"


class NotARelease(ValueError):
    """The folder is not a release."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What the receiver may rely on."""

    folder: Path
    checks: tuple[Check, ...]
    status: str  # of the gate, computed anew; "unknown" where it cannot be
    seal: Seal | None  # name, serial, date and signer of the release, where its signature holds

    @property
    def intact(self) -> bool:
        """Whether everything that can be checked here holds, and the signer is known or was accepted unknown. A gate
        that measured nothing is stated and is no failure."""
        return not any(check.outcome in (Outcome.FAILED, Outcome.UNANSWERED) for check in self.checks)

    def check(self, name: str) -> Check | None:
        """The check of this name, if it was made."""
        return next((check for check in self.checks if check.name == name), None)


def verify(
    folder: str | Path,
    *,
    trusted: str | None = None,
    accept_unknown_signer: bool = False,
    revocations: str | Path | None = None,
    remember: str | Path | None = None,
) -> Verification:
    """Check signature, signer, checksums, schema, reports and gate of a release, and whether it was taken back.

    ``trusted`` is the sending hospital's public key or its fingerprint. Get it separately from the release: without it
    the release is not accepted, since anybody can sign. ``revocations`` is the hospital's list of what it took back;
    one named ``revocations.json`` beside the release is found by itself. ``remember`` is a file outside the release for
    the checksums that are found: the next check reads only files that changed since, by size, times or inode.
    """
    release = Path(folder)
    if not manifest_files(release):
        raise NotARelease(f"{folder} is not a release: it has no manifest.parquet, nor all parts of one")
    checks: list[Check] = []
    seal: Seal | None = None
    try:
        seal = check_signature(release)
        words = f"release {seal.release}, serial {seal.serial}, {seal.date.isoformat()}"
        checks.append(plain("signature", True, words))
        checks.append(_signer(seal, trusted, accept_unknown_signer))
    except BadSignature as bad:
        checks.append(plain("signature", False, str(bad)))
    memory = _memory(release, remember)
    checks.append(_check("checksums", check_sums(release, memory), "every file is as it was signed"))
    policy = _policy(release)
    listed = _revocations(release, revocations)
    rows = _Rows(release, Revocations() if listed is None else listed[0])
    checks.append(_check("schema", rows.faults(policy), "manifest, films and reports agree"))
    found_nothing = "the second detector found nothing in the reports"
    checks.append(_check("residual PHI", _residual(release, policy), found_nothing))
    status, gate = _gate(release, policy, rows, seal)
    checks.append(gate)
    if listed is not None and (recalled := _recalled(rows, seal, listed[1], revocations is not None)) is not None:
        checks.append(recalled)
    return Verification(release, tuple(checks), status, seal)


def _memory(release: Path, remember: str | Path | None) -> Remembered:
    if remember is not None and release.resolve() in Path(remember).resolve().parents:
        raise BadMemory("keep remembered checksums outside the release: what lies in it comes from the sender")
    return Remembered(None if remember is None else Path(remember))


def _signer(seal: Seal, trusted: str | None, accept: bool) -> Check:
    if trusted is not None:
        known = is_of(seal.signed_by, trusted)
        return plain("signer", known, "the key you trust" if known else "another key than the one you trust")
    words = f"unknown here, fingerprint {fingerprint(seal.signed_by)}"
    return Check("signer", Outcome.NOT_ASKED, words) if accept else Check(
        "signer", Outcome.UNANSWERED, f"{words}; anybody can sign: {_ASK}"
    )  # fmt: skip


def _check(name: str, faults: Iterator[str], good: str) -> Check:
    shown, count = [], 0
    for fault in faults:
        count += 1
        if count <= _SHOWN:
            shown.append(fault)
    if count > _SHOWN:
        shown.append(f"and {count - _SHOWN} more")
    return plain(name, count == 0, "; ".join(shown) or good)


def _policy(release: Path) -> Policy | None:
    try:
        return Policy.load(release / "policy.toml")
    except BadPolicy:
        return None


@dataclass(slots=True)
class _Rows:
    """The manifest, read shard by shard: what is wrong with it, and what it counts to."""

    release: Path
    recalled: Revocations
    films: int = 0
    reports: int = 0
    disjoint: bool = True
    readable: bool = False
    taken: int = 0  # films that were recalled
    taken_patients: set[str] = field(default_factory=set)

    def faults(self, policy: Policy | None) -> Iterator[str]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if policy is None:
            yield "policy.toml is missing or not a policy"
        seen: set[str] = set()
        try:
            for path in manifest_files(self.release):
                if not pq.read_schema(path).equals(manifest.schema()):
                    yield f"{path.name} has other columns than this version of updp writes"
                    return
            with Pairs() as shards, Pairs() as splits:
                for shard, rows in groupby(manifest.read(self.release), key=lambda row: row["shard"]):
                    if shard in seen:
                        yield f"{shard}: its rows do not stand together"
                    seen.add(shard)
                    yield from self._shard(shard, rows, shards, splits)
                if double := len(shards.several()):
                    yield f"{double} films: listed twice"
                if torn := len(splits.several()):
                    self.disjoint = False
                    yield f"{torn} patients: in two splits"
        except (OSError, ValueError, TypeError, KeyError, AttributeError, pa.ArrowException):
            yield "the manifest cannot be read"
            return
        self.readable = True
        for stray in sorted({path.stem for path in (self.release / "reports").glob("*.jsonl")} - seen):
            yield from self._reports(stray, {})

    def _shard(self, shard: str, rows: Iterable[dict[str, Any]], shards: Pairs, splits: Pairs) -> Iterator[str]:
        ids: set[str] = set()
        wanted: dict[str, tuple[str, str]] = {}
        for row in rows:
            self.films += 1
            name, patient = row["release_id"], row["patient"]
            if name in ids:
                yield f"{name}: listed twice"
            ids.add(name)
            shards.add(number_of(name), number_of(shard))
            splits.add(number_of(patient), number_of(row["split"]))
            self.taken += name in self.recalled.films
            if patient in self.recalled.patients:
                self.taken_patients.add(patient)
            place = PurePosixPath(row["file_name"])
            if place.parts[:-1] != ("images", shard) or place.stem != name:
                yield f"{name}: its file has another name"
            elif not (self.release / place).is_file():
                yield f"{name}: its film is missing"
            if row["labels_from"] not in ((None,) if row["labels"] is None else ("source", "report")):
                yield f"{name}: does not say where its labels come from"
            if row["has_report"]:
                wanted[name] = (patient, row["study"])
        self.reports += len(wanted)
        if wanted or (self.release / "reports" / f"{shard}.jsonl").exists():
            yield from self._reports(shard, wanted)

    def _reports(self, shard: str, wanted: Mapping[str, tuple[str, str]]) -> Iterator[str]:
        found = set()
        for _, line in _report_lines(self.release / "reports" / f"{shard}.jsonl"):
            if line is None:
                yield f"reports/{shard}.jsonl: a line cannot be read"
            elif line["release_id"] in found:
                yield f"reports/{shard}.jsonl: two reports of one film"
            elif wanted.get(line["release_id"]) != (line.get("patient"), line.get("study")):
                yield f"reports/{shard}.jsonl: a report of a film or patient that is not in the manifest"
            else:
                found.add(line["release_id"])
        if found != wanted.keys():
            yield f"reports/{shard}.jsonl: {len(wanted.keys() - found)} reports are missing"


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


def _residual(release: Path, policy: Policy | None) -> Iterator[str]:
    """Places (never the words) where the second detector sees PHI in a released report."""
    from updp.release.residual import residual_spans

    # Shifted dates and surrogate names are expected where the policy says so, and only there.
    surrogate = policy is not None and policy.report.mode == "surrogate"
    mode: Literal["surrogate", "tag"] = "surrogate" if surrogate else "tag"
    for path in sorted((release / "reports").glob("*.jsonl")):
        for number, line in _report_lines(path):
            if line is None:
                continue
            for name, text in line["sections"].items():
                for span in residual_spans(text, mode=mode):
                    yield f"reports/{path.name}:{number} {name}[{span.start}:{span.end}] looks like {span.category}"


def _gate(release: Path, policy: Policy | None, rows: _Rows, seal: Seal | None) -> tuple[str, Check]:
    """The verdict, computed anew. A release whose signature does not hold has no date, and no verdict to speak of."""
    if policy is None or seal is None or not rows.readable:
        return "unknown", plain("gate", False, "without signature, policy and manifest there is no verdict")
    try:
        facts = json.loads((release / "evidence" / "evaluation.json").read_bytes())
        content = Content(rows.films, rows.reports, rows.disjoint, content_sum(release))
        verdict = rejudged(facts, policy, content, seal.date)
    except BadEvidence as bad:
        return "unknown", plain("gate", False, str(bad))
    except (OSError, ValueError, TypeError, AttributeError):
        return "unknown", plain("gate", False, "evidence/evaluation.json is missing or unreadable")
    missing = [check.name for check in verdict.checks if check.outcome is Outcome.NOT_ASKED]
    outcome = {"passed": Outcome.HELD, "not-measured": Outcome.NOT_ASKED}.get(verdict.status, Outcome.FAILED)
    words = f"{verdict.status}; never asked: {', '.join(missing)}" if missing else verdict.status
    return verdict.status, Check("gate", outcome, words)


def _revocations(release: Path, given: str | Path | None) -> tuple[Revocations, str] | None:
    """The hospital's revocation list and what is wrong with it; None where there is none."""
    path = Path(given) if given is not None else release.absolute().parent / revocation.FILE
    if given is None and not path.is_file():
        return None
    try:
        return revocation.read(path), ""
    except revocation.BadRevocations as bad:
        return Revocations(), str(bad)


def _recalled(rows: _Rows, seal: Seal | None, fault: str, given: bool) -> Check | None:
    """What the hospital's revocation list says of this release; None where there is no list of this hospital."""
    found = rows.recalled
    if fault:
        return plain("revocations", False, fault)
    if seal is None or found.signed_by != seal.signed_by:
        words = "the revocation list is not signed by the key that signed the release"
        return plain("revocations", False, words) if given else None
    if rows.taken or rows.taken_patients:
        return plain("revocations", False, f"films of {len(rows.taken_patients)} patients were recalled")
    newest = found.newest.get(seal.release, seal.serial)
    if newest > seal.serial:
        return plain("revocations", False, f"a newer state of this release exists: serial {newest}")
    return plain("revocations", True, f"none of list {found.serial}, {found.date.isoformat()}")
