"""Checksums and the Ed25519 signature over them: what makes a release tamper-evident.

``checksums.sha256`` lists every file but itself and the signature, in the format of ``sha256sum``. ``signature`` names
the release, its serial and its date, and holds the hospital's public key and its signature of all of that and of the
list. A release that is sealed anew keeps its name and gets the next serial, so an older state of it can be told. The
receiver pins the public key, or its fingerprint, which he was given by another way.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from updp.core.keys import Key
from updp.core.storage import write_bytes

_HEAD = "updp-signature-2"
UNLISTED = ("checksums.sha256", "signature")
#: Files handed to the threads that read them at a time.
_PART = 4096
#: Lines of the checksum list that are a release's content; all others are what it says of itself.
_CONTENT = ("manifest.parquet", "images/", "reports/")


class BadSignature(ValueError):
    """The signature is missing, malformed, or not valid for this list."""


class OtherSigner(BadSignature):
    """The signature is valid, and by another key than the expected one."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What a signature says beside that the files are whole."""

    release: str  # the same for every state of a release
    serial: int  # 1 as it was made, one more each time it is sealed anew
    date: dt.date
    signed_by: str = ""  # the public key

    def lines(self) -> str:
        return f"{_HEAD}\nrelease {self.release}\nserial {self.serial}\ndate {self.date.isoformat()}\n"


def public_key(key: Key) -> str:
    """The hospital's public key, to be handed to receivers."""
    return base64.b64encode(key.signer().public_key().public_bytes_raw()).decode()


def fingerprint(public: str) -> str:
    """A public key in a form that can be read out: 160 bits of its digest in groups of four letters."""
    text = base64.b32encode(hashlib.sha256(public.encode()).digest()[:20]).decode().lower()
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def is_of(public: str, trusted: str) -> bool:
    """Whether ``trusted`` names this public key: itself, or its fingerprint however it is spaced."""
    plain = re.sub(r"[\s-]", "", trusted)
    return plain == public or plain.lower() == fingerprint(public).replace(" ", "")


def file_sum(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def checksum_line(digest: str, name: str) -> bytes:
    """A line of the checksum list, in the format of ``sha256sum``."""
    return f"{digest}  {name}\n".encode()


def content_sum(release: Path) -> str:
    """A digest of the films, reports and manifest of a release, from its checksum list: what evidence is about."""
    running = hashlib.sha256()
    for line in sorted((release / "checksums.sha256").read_bytes().splitlines(keepends=True)):
        if line.partition(b"  ")[2].decode("utf-8", "replace").startswith(_CONTENT):
            running.update(line)
    return running.hexdigest()


def _statement(release: Path, stated: str) -> bytes:
    """What is signed: the lines above the signature, and the digest of the list, which may be of any length."""
    return f"{stated}{file_sum(release / 'checksums.sha256')}".encode()


def sign(release: Path, key: Key, seal: Seal) -> None:
    """Sign the checksum list of a release, with its name, serial and date."""
    stated = f"{seal.lines()}key {public_key(key)}\n"
    made = base64.b64encode(key.signer().sign(_statement(release, stated))).decode()
    write_bytes(release / "signature", f"{stated}signature {made}\n".encode())


_FORM = re.compile(
    rf"{_HEAD}\nrelease (?P<release>[a-z0-9]+)\nserial (?P<serial>[1-9][0-9]*)\ndate (?P<date>[0-9-]+)\n"
    r"key (?P<key>\S+)\nsignature (?P<signature>\S+)\n"
)


def check_signature(release: Path, trusted: str | None = None) -> Seal:
    """Check the signature of the checksum list; returns what it states."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        text = (release / "signature").read_text("ascii")
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError
        data = _statement(release, text[: text.rindex("signature ")])
        date = dt.date.fromisoformat(found["date"])
        verifier = Ed25519PublicKey.from_public_bytes(base64.b64decode(found["key"], validate=True))
        raw = base64.b64decode(found["signature"], validate=True)
    except (OSError, ValueError):
        raise BadSignature("the signature or the checksum list is missing, malformed or of another version") from None
    try:
        verifier.verify(raw, data)
    except InvalidSignature:
        raise BadSignature("the checksum list, or the name, serial or date of the release was altered") from None
    if trusted is not None and not is_of(found["key"], trusted):
        raise OtherSigner("the release was signed by another key than the one you trust")
    return Seal(found["release"], int(found["serial"]), date, found["key"])


class BadMemory(ValueError):
    """The file of remembered checksums cannot be used; the message says why."""


class Remembered:
    """Checksums of an earlier check, in a file outside the release: a file whose size, times and inode are as they were
    is not read again. Who can set the clock of this machine can deceive it: nothing is remembered unless asked for."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, list[str]] = {}
        self.seen: dict[str, list[str]] = {}
        if path is not None and path.exists():
            try:
                found = json.loads(path.read_bytes())
                if not isinstance(found, dict) or not all(isinstance(value, list) for value in found.values()):
                    raise ValueError
                self.known = found
            except (OSError, ValueError):
                raise BadMemory("the file of remembered checksums cannot be read; remove it to begin anew") from None

    def file_sum(self, path: Path) -> str:
        """The checksum of a file, by its content unless it is known to be unchanged."""
        if self.path is None:
            return file_sum(path)
        found = os.stat(path)
        state = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
        name = str(path.absolute())
        before = self.known.get(name)
        digest = before[1] if before is not None and before[0] == state else file_sum(path)
        self.seen[name] = [state, digest]
        return digest

    def keep(self) -> None:
        """Write down what was seen, beside what is known of other releases."""
        if self.path is not None:
            write_bytes(self.path, json.dumps(self.known | self.seen).encode(), mode=0o600)


def check_sums(release: Path, remembered: Remembered | None = None, workers: int | None = None) -> Iterator[str]:
    """What is wrong with the files of a release against its checksum list, one sentence each.

    Whatever lies in the folder has to be a listed file, or a folder that leads to one. Files are read by threads, one
    per core unless ``workers`` says otherwise.
    """
    memory = remembered or Remembered(None)
    try:
        text = (release / "checksums.sha256").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        yield "checksums.sha256 is missing or unreadable"
        return
    listed: dict[str, str] = {}
    for line in text.split("\n")[:-1] if text.endswith("\n") else [text]:
        digest, _, name = line.partition("  ")
        if not re.fullmatch("[0-9a-f]{64}", digest) or not _safe(name):
            yield "checksums.sha256: a line is malformed"
        elif name in listed:
            yield f"{_printable(name)}: in the checksum list twice"
        listed[name] = digest
    folders = {str(parent) for name in listed for parent in PurePosixPath(name).parents}
    seen = set()
    entries = _entries(release)
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        while part := list(islice(entries, _PART)):
            whole = [name for name, kind in part if stat.S_ISREG(kind) and name in listed]
            found = dict(zip(whole, pool.map(lambda name: memory.file_sum(release / name), whole), strict=True))
            for name, kind in part:
                seen.add(name)
                if stat.S_ISDIR(kind):
                    if name not in folders:
                        yield f"{_printable(name)}: a folder without listed files"
                elif not stat.S_ISREG(kind):
                    yield f"{_printable(name)}: a link or another special file"
                elif name in listed:
                    if found[name] != listed[name]:
                        yield f"{name}: altered"
                elif name not in UNLISTED:
                    yield f"{_printable(name)}: not in the checksum list"
    memory.keep()
    for name in sorted(listed.keys() - seen):
        yield f"{_printable(name)}: missing"


def _printable(name: str) -> str:
    """A name that somebody else chose, without what moves a cursor or ends a line."""
    return name if name.isprintable() else ascii(name)


def _safe(name: str) -> bool:
    """Whether a listed name stays inside the release and is written in one way only."""
    return bool(name) and name not in UNLISTED and PurePosixPath(name).as_posix() == name and not (
        name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts
    )  # fmt: skip


def _entries(release: Path, inside: str = "") -> Iterator[tuple[str, int]]:
    """Everything in a release, by name and kind; links are not followed."""
    with os.scandir(release / inside) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name = f"{inside}{entry.name}"
        kind = entry.stat(follow_symlinks=False).st_mode
        yield name, kind
        if stat.S_ISDIR(kind):
            yield from _entries(release, f"{name}/")
