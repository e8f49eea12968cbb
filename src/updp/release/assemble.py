"""From landed shards to a release: manifest, reports, evidence, card, checksums, signature; then one rename.

Everything here is a pure function of the shard records, so assembly that was interrupted is simply done again. Shards
are streamed; memory does not grow with the number of films. A release of more films than one file of the manifest holds
has a tree of checksum lists (``signature``).
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from updp.core.keys import Key
from updp.core.manifest_files import manifest_files
from updp.core.pairs import Pairs, number_of
from updp.core.policy import Policy
from updp.core.reasons import Reason
from updp.core.storage import OutputError, sync_folder, write_bytes, writing
from updp.release import card, certificate, manifest
from updp.release.evidence import Content, judge_release
from updp.release.gate import Status, Verdict
from updp.release.shard import STAMP, ShardRecord
from updp.release.signature import Seal, check_signature, checksum_line, file_sum, public_key, shard_list, sign
from updp.screening import conformance

#: What a verdict calls its folder: only what passed on evidence is a release.
FOLDERS: dict[Status, str] = {"passed": "release", "not-measured": "unmeasured", "blocked": "blocked"}
#: Films held before they are written to the sorter's files.
_HELD = 4096


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    status: Status
    folder: Path  # OUT/release, OUT/unmeasured or OUT/blocked
    released: int
    quarantined: dict[str, int] = field(default_factory=dict)  # reason -> studies
    skipped: int = 0  # lateral films passed over
    address: str = ""  # where the folder is, if it is not on this machine


def finished(out: Path) -> Outcome | None:
    """The outcome of a run that already ended at ``out``."""
    for name in FOLDERS.values():
        try:
            evidence = json.loads((out / name / "evidence" / "evaluation.json").read_bytes())
            counts = evidence["counts"]
            return Outcome(evidence["gate"]["status"], out / name, counts["released"], counts["quarantined"])
        except (OSError, ValueError, KeyError):
            continue
    return None


def located(place: Path) -> Path:
    """The folder of films and evidence at ``place``: itself, or the one a run at ``place`` ended with."""
    if manifest_files(place):
        return place
    return next((place / name for name in FOLDERS.values() if manifest_files(place / name)), place)


#: In the vault: options of the method that say where the hospital keeps its packs.
OWN_OPTIONS = "method-options.json"


def assemble(out: Path, policy: Policy, key: Key, stated: Seal) -> Outcome:
    """Build the release from the shards that landed and put it in its place, under this name, serial and date."""
    build = out / ".work" / "build"
    certified = certificate.find(policy, stated.date)
    own, policy = policy, policy.public()
    if own.method.options != policy.method.options:  # the hospital measures with packs the release does not locate
        write_bytes(out / "vault" / OWN_OPTIONS, json.dumps(own.method.options).encode(), mode=0o600)
    _begin_anew(build)
    overview = _overview(out, policy.gate.min_cell)
    tallies: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with writing(out / "quarantine.jsonl", mode=0o600) as quarantine, _Sorter(out / ".work" / "sort") as sorter:
        for record in _records(out):
            tallies.update(record.tallies)
            kept_back = list(record.quarantine)
            for film in record.films:
                if reason := overview.fault(film):
                    (build / film["row"]["file_name"]).unlink(missing_ok=True)
                    kept_back.append({"ref": film["ref"], "station": "assembly", "reason": reason.value})
                else:
                    tallies["reports"] += film["report"] is not None
                    sorter.add(film["row"]["shard"], film)
            for entry in kept_back:
                reasons[entry["reason"]] += 1
                quarantine.write(json.dumps(entry).encode() + b"\n")
        with writing(out / ".work" / "sums") as sums:
            released = sorter.added
            manifest.write(build, _rows(build, sorter, sums, tree=released > manifest.MOST), released)
    for part in ("images", "reports"):
        if not any((build / part).iterdir()):
            (build / part).rmdir()
    content = Content(released, tallies["reports"], overview.disjoint)
    verdict = judge_release(policy, content, reasons.total(), tallies, certified=certified.proofs)
    facts = _facts(policy, released, reasons, tallies, verdict) | certified.to_json()
    with (out / ".work" / "sums").open("rb") as lines:
        page = card.evidence_page(facts, policy)
        seal(build, facts, policy, key, lines, page, stated)
    folder = out / FOLDERS[verdict.status]
    os.rename(build, folder)
    sync_folder(out)
    return Outcome(verdict.status, folder, released, dict(sorted(reasons.items())))


def seal(
    folder: Path, facts: dict[str, Any], policy: Policy, key: Key, sums: Iterable[bytes], page: str, stated: Seal
) -> None:
    """Write what a release says of itself and sign the whole; ``sums`` are the checksum lines of all other files."""
    (folder / "evidence").mkdir(exist_ok=True)
    texts = {
        "policy.toml": policy.to_toml(),
        "evidence/evaluation.json": json.dumps(facts, indent=2, sort_keys=True) + "\n",
        "evidence/conformance.md": conformance(policy),
        "evidence/report.html": page,
        "README.md": card.readme(facts, policy, key),
        "croissant.json": card.croissant(folder, facts, policy),
    }
    for name, text in texts.items():
        write_bytes(folder / name, text.encode())
    own = sorted([*texts, *(path.name for path in manifest_files(folder))])
    with writing(folder / "checksums.sha256") as listing:
        for name in own:
            listing.write(checksum_line(file_sum(folder / name), name))
        listing.writelines(line for line in sums if line.rstrip(b"\n").partition(b"  ")[2].decode() not in own)
    sign(folder, key, stated)
    for name in (*own, "checksums.sha256", "signature"):
        os.utime(folder / name, (STAMP, STAMP))


def restate(release: Path, facts: dict[str, Any], policy: Policy, key: Key, page: str, today: dt.date) -> Path:
    """The same release with new evidence, under the name its verdict gives it; a reader never sees half of it.

    It gets the next serial and the day's date. Films are linked, not copied. The caller has checked the release against
    its checksums.
    """
    status: Status = facts["gate"]["status"]
    renamed = status == "blocked" or release.name in FOLDERS.values()  # a name the hospital chose stays, while it may
    target = release.with_name(FOLDERS[status]) if renamed else release
    if target != release and target.exists():
        raise OutputError(f"there is already a folder named {target.name} beside this release; move it away")
    made, superseded = release.with_name(".restated"), release.with_name(".superseded")
    for stale in (made, superseded):
        shutil.rmtree(stale, ignore_errors=True)
    shutil.copytree(release, made, copy_function=_link)
    before = check_signature(release, public_key(key))
    with (release / "checksums.sha256").open("rb") as sums:
        seal(made, facts, policy, key, sums, page, replace(before, serial=before.serial + 1, date=today))
    os.rename(release, superseded)
    os.rename(made, target)
    sync_folder(release.parent)
    shutil.rmtree(superseded, ignore_errors=True)
    return target


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def _begin_anew(build: Path) -> None:
    """Remove what a killed assembly left behind, half-written files among it; films stay, they have landed."""
    for left in build.iterdir():
        if left.name != "images":
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    (build / "reports").mkdir()


def _rows(build: Path, sorter: _Sorter, sums: BinaryIO, *, tree: bool) -> Iterator[dict[str, Any]]:
    """Rows of the manifest by shard and release id, writing report files and checksums on the way: those of a shard
    into ``sums``, or with ``tree`` into a list of its own."""
    if tree:
        (build / "checksums").mkdir()
    for folder in (build / "images").iterdir():
        if folder.name not in sorter.shards:
            shutil.rmtree(folder)
    for shard, films in sorter:
        landed = {Path(film["row"]["file_name"]).name for film in films}
        for stray in set(os.listdir(build / "images" / shard)) - landed:  # left by a shard that was done again
            (build / "images" / shard / stray).unlink()
        lines: list[str] = []
        listed: list[bytes] = []
        for film in films:
            row = film["row"]
            listed.append(checksum_line(film["sum"], row["file_name"]))
            if film["report"] is not None:
                line = {name: row[name] for name in ("release_id", "patient", "study")}
                lines.append(json.dumps({**line, "sections": film["report"]}, ensure_ascii=False) + "\n")
            yield row
        if lines:
            path = build / "reports" / f"{shard}.jsonl"
            write_bytes(path, "".join(lines).encode())
            os.utime(path, (STAMP, STAMP))
            listed.append(checksum_line(file_sum(path), f"reports/{shard}.jsonl"))
        if tree:
            path = build / shard_list(shard)
            write_bytes(path, b"".join(listed), sync=False)
            os.utime(path, (STAMP, STAMP))
            listed = [checksum_line(file_sum(path), shard_list(shard))]
        sums.writelines(listed)


class _Sorter:
    """Films by release shard, through files on disk: the set of all films never has to fit into memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shards: set[str] = set()
        self.held: dict[str, list[bytes]] = {}
        self.count = self.added = 0

    def __enter__(self) -> _Sorter:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, shard: str, film: dict[str, Any]) -> None:
        self.shards.add(shard)
        self.held.setdefault(shard, []).append(json.dumps(film).encode() + b"\n")
        self.count += 1
        self.added += 1
        if self.count == _HELD:
            self._spill()

    def _spill(self) -> None:
        for shard, lines in self.held.items():
            with (self.folder / shard).open("ab") as out:
                out.writelines(lines)
        self.held.clear()
        self.count = 0

    def __iter__(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        self._spill()
        for path in sorted(self.folder.iterdir()):
            films = [json.loads(line) for line in path.read_bytes().splitlines()]
            yield path.name, sorted(films, key=lambda film: film["row"]["release_id"])


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
    rare: frozenset[str]  # published records that fewer patients share than the policy asks

    def fault(self, film: Mapping[str, Any]) -> Reason | None:
        """Why a film that landed does not leave."""
        if film["content"] in self.shared:
            return Reason.FILM_SHARED
        rare = self.rare and manifest.record_of(film["row"]) in self.rare
        return Reason.RECORD_RARE if rare else None


def _overview(out: Path, min_cell: int) -> _Overview:
    """Look across all shards."""
    with Pairs() as contents, Pairs() as splits:
        for record in _records(out):
            for film in record.films:
                patient = number_of(film["row"]["patient"])
                contents.add(int(film["content"], 16), patient)
                splits.add(patient, ("train", "val", "test").index(film["row"]["split"]))
        shared = frozenset(f"{value:016x}" for value in contents.several())
        return _Overview(shared, not splits.several(), _rare(out, shared, min_cell) if min_cell > 1 else frozenset())


def _rare(out: Path, shared: frozenset[str], min_cell: int) -> frozenset[str]:
    """Published records of fewer than ``min_cell`` patients. A record is kept back whole, so no other gets rarer."""
    patients: dict[str, set[str]] = {}
    for record in _records(out):
        for film in record.films:
            if film["content"] not in shared:
                known = patients.setdefault(manifest.record_of(film["row"]), set())
                if len(known) < min_cell:
                    known.add(film["row"]["patient"])
    return frozenset(record for record, known in patients.items() if len(known) < min_cell)


def _facts(
    policy: Policy, released: int, reasons: Counter[str], tallies: Counter[str], verdict: Verdict
) -> dict[str, Any]:
    """Everything the evidence states, as data."""
    from updp.core import version

    return {
        "format": "updp-evaluation-1",
        "updp": version.__version__,
        "method": policy.method.model_dump(mode="json"),
        "counts": {"released": released, "quarantined": dict(sorted(reasons.items()))},
        "tallies": dict(sorted(tallies.items())),
        "measurements": [],
        "gate": verdict.to_json(),
    }
