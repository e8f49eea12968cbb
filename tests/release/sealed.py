"""A release that passed the gate, made without measuring: tests of the receiver's check forge it."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path

from tests.conftest import PLAIN, Hospital
from tests.release.test_gate import GOOD
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.pipeline.run import deidentify
from updp.release import manifest
from updp.release.assemble import restate
from updp.release.evidence import Content, judge_release
from updp.release.signature import Seal, check_signature, checksum_line, content_sum, file_sum, public_key, sign

HOSPITAL, STRANGER = Key(bytes(range(32))), Key(bytes(32))
PUBLIC = public_key(HOSPITAL)
DAY = dt.date(2026, 3, 4)


def made(root: Path, films: int = 8) -> Path:
    """An unmeasured release of an invented hospital."""
    source = Hospital(root / "export", films=films).write()
    return deidentify(source, root / "out", key=HOSPITAL, policy=Policy.parse(PLAIN), workers=1).folder


def passed(release: Path, evidence=GOOD) -> Path:
    """The same release with figures that hold, sealed anew."""
    facts, policy = facts_of(release), Policy.load(release / "policy.toml")
    measured = [replace(m, question=name) for name, found in evidence.items() for m in found]
    rows = list(manifest.read(release))
    content = Content(len(rows), sum(row["has_report"] for row in rows), disjoint=True)
    verdict = judge_release(policy, content, 0, facts["tallies"], measured)
    facts |= {
        "measurements": [m.to_json() for m in measured],
        "evaluation": {"content_sha256": content_sum(release)},
        "gate": verdict.to_json(),
    }
    return restate(release, facts, policy, HOSPITAL, "<html></html>", DAY)


def facts_of(release: Path) -> dict:
    return json.loads((release / "evidence/evaluation.json").read_bytes())


def list_anew(release: Path) -> None:
    """A checksum list of the regular files that are there."""
    names = sorted(p.relative_to(release).as_posix() for p in release.rglob("*") if p.is_file() and not p.is_symlink())
    lines = [checksum_line(file_sum(release / n), n) for n in names if n not in ("checksums.sha256", "signature")]
    (release / "checksums.sha256").write_bytes(b"".join(lines))


def reseal(release: Path, key: Key) -> None:
    """List and sign what is there, as whoever holds ``key`` can."""
    try:
        seal = check_signature(release)
    except ValueError:
        seal = Seal("r" + "a" * 15, 1, DAY)
    list_anew(release)
    sign(release, key, seal)
