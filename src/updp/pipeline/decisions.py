"""The privacy officer's decisions on single studies: a log inside the hospital, and an input of the run.

``OUT/review/decisions.jsonl`` is only ever added to. Every line names the digest of the line before, and is signed with
the hospital's key, so that a line that was altered, removed or moved shows. What an officer writes, and strings that
identify, are encrypted under the key of the vault. A run reads the log as it reads its policy: shards with a study
whose decision changed are made again, the others stay as they are, and the release is assembled anew.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.reasons import Reason
from updp.core.storage import explain

#: The digest before the first line: nothing was decided yet.
NOTHING = "0" * 64


class BadDecision(ValueError):
    """A decision that cannot be taken, or a log that was altered."""


class Kind(StrEnum):
    """What an officer can decide of a study."""

    KEEP_BACK = "keep back"
    RELEASE = "release as is"
    REDO = "redo"
    PHI = "PHI found"
    WITHDRAW = "withdraw"  # what was decided of this study before does not hold any more


class Way(StrEnum):
    """How a study leaves in spite of what kept it back."""

    NO_REPORT = "without its report"
    PAINTED = "with the doubtful marks painted over"


#: Reasons that an officer may overrule, and how the study then leaves. A study that was not read or made never leaves.
OVERRULED: Mapping[Reason, Way] = {
    **dict.fromkeys(
        (
            Reason.REPORT_MISSING,
            Reason.REPORT_ENCODING,
            Reason.REPORT_TOO_LONG,
            Reason.REPORT_LANGUAGE,
            Reason.REPORT_UNREADABLE,
            Reason.REPORT_RESIDUAL,
        ),
        Way.NO_REPORT,
    ),
    Reason.BURNED_IN_DOUBT: Way.PAINTED,
}


@dataclass(frozen=True, slots=True)
class Override:
    """What the run does otherwise for one study."""

    keep_back: bool = False
    way: Way | None = None
    seed: int | None = None
    strength: float | None = None
    block: tuple[str, ...] = ()

    def policy(self, policy: Policy) -> Policy:
        """The policy that this study is treated under."""
        report, burned_in, method = policy.report, policy.burned_in, policy.method
        if self.way is Way.NO_REPORT:
            report = report.model_copy(update={"mode": "withhold", "required": False})
        if self.way is Way.PAINTED:
            burned_in = burned_in.model_copy(update={"doubt": "paint"})
        if self.block:
            report = report.model_copy(update={"block": (*report.block, *self.block)})
        if self.strength is not None:
            method = method.model_copy(update={"strength": self.strength})
        return policy.model_copy(update={"report": report, "burned_in": burned_in, "method": method})

    @property
    def said(self) -> str:
        """What the manifest says of a film that left under this decision."""
        return "overruled" if self.way else "redone" if self.seed is not None or self.strength is not None else "kept"

    def digest(self, key: Key) -> bytes:
        parts = (self.keep_back, self.way, self.seed, self.strength, *self.block)
        return key.digest("override", *map(str, parts))


@dataclass(frozen=True, slots=True)
class Decision:
    """One line of the log."""

    kind: Kind
    ref: str  # the study, as the quarantine list calls it
    by: str
    words: str = ""  # the officer's reason
    text: str = ""  # a string that identifies
    affected: tuple[str, ...] = ()  # studies whose released text has that string
    way: Way | None = None
    seed: int | None = None
    strength: float | None = None
    at: str = ""


@dataclass(frozen=True)
class Decisions:
    """A log that was read and found whole: its lines, and what a run takes from them."""

    lines: tuple[Decision, ...] = ()
    head: str = NOTHING  # digest of the last line
    overrides: Mapping[str, Override] = field(default_factory=dict)

    @property
    def block(self) -> tuple[str, ...]:
        """Every string that was found to identify."""
        return tuple(dict.fromkeys(line.text for line in self.lines if line.kind is Kind.PHI))

    def last(self, ref: str) -> Decision | None:
        """What was decided of a study last."""
        return next((line for line in reversed(self.lines) if line.ref == ref), None)


def log_of(out: Path) -> Path:
    return out / "review" / "decisions.jsonl"


def decide(out: Path, key: Key, decision: Decision) -> Decision:
    """Append a decision to the log at ``out``; returns it with its time."""
    from filelock import FileLock

    _check(decision)
    path = log_of(out)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with FileLock(path.with_suffix(".lock"), timeout=10, mode=0o600):
            head = read_decisions(out, key).head  # also refuses to add to a log that was altered
            made = replace(decision, at=decision.at or dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
            _append(path, sum(len(line) + 1 for line in raw_lines(out)), _line(made, head, key) + b"\n")
    except OSError as error:
        raise explain(error) from None
    return made


def _append(path: Path, whole: int, line: bytes) -> None:
    """Put a line behind the first ``whole`` bytes, on disk when this returns; if it does not fit, they stay alone."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        try:
            os.ftruncate(log, whole)
            os.lseek(log, whole, os.SEEK_SET)
            while line:
                line = line[os.write(log, line) :]
            os.fsync(log)
        except OSError:
            os.ftruncate(log, whole)
            raise
    finally:
        os.close(log)


def _check(decision: Decision) -> None:
    if decision.kind is Kind.RELEASE and (decision.way is None or len(decision.words.strip()) < 3):
        raise BadDecision("a study is released as is only with a written reason, where its reason code allows it")
    if decision.kind is Kind.REDO and decision.seed is None and decision.strength is None:
        raise BadDecision("give the seed or strength with which the film is made again")
    if decision.strength is not None and not 0 <= decision.strength <= 1:
        raise BadDecision("a strength lies between 0 and 1")
    if decision.kind is Kind.PHI and len(decision.text.strip()) < 2:
        raise BadDecision("give the text that identifies the patient, at least two characters")


def _line(decision: Decision, previous: str, key: Key) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(12)
    secret = json.dumps({"words": decision.words, "text": decision.text}).encode()
    sealed = nonce + AESGCM(key.vault_key()).encrypt(nonce, secret, b"updp-decision-1" + previous.encode())
    body = {
        "at": decision.at,
        "by": decision.by,
        "kind": decision.kind.value,
        "ref": decision.ref,
        "affected": list(decision.affected),
        "way": decision.way,
        "seed": decision.seed,
        "strength": decision.strength,
        "sealed": base64.b64encode(sealed).decode(),
        "previous": previous,
    }
    signature = base64.b64encode(key.signer().sign(_signed(body))).decode()
    return json.dumps(body | {"signature": signature}, sort_keys=True).encode()


def _signed(body: Mapping[str, Any]) -> bytes:
    return b"updp-decision-1\n" + json.dumps(body, sort_keys=True).encode()


def read_decisions(out: Path, key: Key) -> Decisions:
    """The log of a run; refuses one that was altered or cut. Without a log nothing was decided."""
    raw = raw_lines(out)
    lines = tuple(_read(raw, key))
    if pending(out) is None:
        raise BadDecision("the log of decisions was cut: the release has decisions that are not in it")
    overrides: dict[str, Override] = {}
    for line in lines:
        before = overrides.get(line.ref, Override())
        if line.kind is Kind.PHI:
            for ref in {line.ref, *line.affected}:
                now = overrides.get(ref, Override())
                overrides[ref] = replace(now, block=(*now.block, line.text))
        else:
            made = Override(block=before.block)
            if line.kind is Kind.KEEP_BACK:
                made = replace(made, keep_back=True)
            elif line.kind in (Kind.RELEASE, Kind.REDO):
                made = replace(made, way=line.way, seed=line.seed, strength=line.strength)
            overrides[line.ref] = made
    head = hashlib.sha256(raw[-1]).hexdigest() if raw else NOTHING
    return Decisions(lines, head, {ref: made for ref, made in overrides.items() if made != Override()})


def raw_lines(out: Path) -> list[bytes]:
    """The lines of the log as they are on disk; one that a killed process left unfinished was not taken."""
    try:
        return log_of(out).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise explain(error) from None


def applied(out: Path) -> str:
    """The digest of the last decision that the release at ``out`` has."""
    try:
        return (out / "records" / "applied").read_text("ascii")
    except OSError:
        return NOTHING


def pending(out: Path) -> int | None:
    """How many decisions the release does not have yet; None if it has one that is not in the log."""
    heads = [NOTHING, *(hashlib.sha256(line).hexdigest() for line in raw_lines(out))]
    last = applied(out)
    return len(heads) - 1 - heads.index(last) if last in heads else None


def _read(raw: list[bytes], key: Key) -> Iterator[Decision]:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    verifier, cipher, previous = key.signer().public_key(), AESGCM(key.vault_key()), NOTHING
    for line in raw:
        try:
            body = json.loads(line)
            signature = base64.b64decode(body.pop("signature"), validate=True)
            verifier.verify(signature, _signed(body))
            if body["previous"] != previous:
                raise BadDecision("a line of the log of decisions is missing or was moved")
            sealed = base64.b64decode(body["sealed"], validate=True)
            secret = json.loads(cipher.decrypt(sealed[:12], sealed[12:], b"updp-decision-1" + previous.encode()))
            yield Decision(
                Kind(body["kind"]),
                body["ref"],
                body["by"],
                secret["words"],
                secret["text"],
                tuple(body["affected"]),
                None if body["way"] is None else Way(body["way"]),
                body["seed"],
                body["strength"],
                body["at"],
            )
        except BadDecision:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, InvalidSignature, InvalidTag):
            raise BadDecision(
                "the log of decisions was altered, or is of another key; it is not used"
            ) from None
        previous = hashlib.sha256(line).hexdigest()
