"""Checksums and the Ed25519 signature over them: what makes a release tamper-evident.

``checksums.sha256`` lists every file but itself and the signature, in the format of ``sha256sum``. A large release has
a tree of lists: ``checksums/<shard>.sha256`` lists the films and reports of a shard, and ``checksums.sha256`` these
lists and all other files, so that a list stays short and every shard can be checked by itself. ``signature`` names the
release, its serial and its date, and holds the hospital's public key and its signature of all of that and of the list.

A release that is sealed again keeps its name and gets the next serial, which shows older states. The receiver pins the
public key, or its fingerprint, which came by another way.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import os
import re
import sqlite3
import stat
import threading
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from updp.core.keys import Key
from updp.core.manifest_files import manifest_files
from updp.core.storage import write_bytes

_HEAD = "updp-signature-2"
UNLISTED = ("checksums.sha256", "signature")
#: Files handed to the threads that read them at a time.
_PART = 4096
#: Lines of the checksum list that are a release's content; all others are what it says of itself.
_CONTENT = ("manifest", "images/", "reports/", "checksums/")
#: The list of a shard.
_LIST = re.compile(r"checksums/([0-9]{5,})\.sha256")


class BadSignature(ValueError):
    """The signature is missing, malformed, or not valid for this list."""


class OtherSigner(BadSignature):
    """The signature is valid, and by another key than the expected one."""


class NotOwn(ValueError):
    """No release, one of another key, or one that was edited after signing; the message says which."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What a signature says beside that the files are whole."""

    release: str  # the same for every state of a release
    serial: int  # 1 as it was made, one more each time it is sealed again
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


def shard_list(shard: str) -> str:
    """The name of the checksum list of a shard, in a release that has a tree of lists."""
    return f"checksums/{shard}.sha256"


def listed_sums(release: Path) -> Iterator[tuple[str, str]]:
    """Name and checksum of every listed file of a release, whose lists have been checked."""
    lists = ["checksums.sha256"]
    for name in lists:
        with (release / name).open(encoding="utf-8") as lines:
            for line in lines:
                digest, _, listed = line.rstrip("\n").partition("  ")
                yield listed, digest
                if _LIST.fullmatch(listed):
                    lists.append(listed)


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
        self.base: sqlite3.Connection | None = None
        self.lock = threading.Lock()
        if path is None:
            return
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self.base = sqlite3.connect(path, check_same_thread=False)
            self.base.execute("CREATE TABLE IF NOT EXISTS sums (name TEXT PRIMARY KEY, state TEXT, digest TEXT)")
            self.base.execute("SELECT name, state, digest FROM sums LIMIT 1")
        except (OSError, sqlite3.Error):
            raise BadMemory("the file of remembered checksums cannot be read; remove it to start again") from None

    def file_sum(self, path: Path) -> str:
        """The checksum of a file, by its content unless it is known to be unchanged."""
        if self.base is None:
            return file_sum(path)
        found = os.stat(path)
        state = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
        name = str(path.absolute())
        with self.lock:
            before = self.base.execute("SELECT digest FROM sums WHERE name = ? AND state = ?", (name, state)).fetchone()
        if before is not None:
            return str(before[0])
        digest = file_sum(path)
        with self.lock:
            self.base.execute("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", (name, state, digest))
        return digest

    def keep(self) -> None:
        """Write down what was seen, beside what is known of other releases."""
        if self.base is not None:
            try:
                self.base.commit()
            except sqlite3.Error:
                raise BadMemory("the file of remembered checksums cannot be written; is the disk full?") from None
            self.base.close()


def check_sums(release: Path, remembered: Remembered | None = None, workers: int | None = None) -> Iterator[str]:
    """What is wrong with the files of a release against its checksum lists, one sentence each.

    Whatever lies in the folder has to be a listed file, or a folder that leads to one. Files are read by threads, one
    per core unless ``workers`` says otherwise. Of a tree of lists one is held at a time.
    """
    memory = remembered or Remembered(None)
    listed: dict[str, str] = {}
    yield from _read_list(release, "checksums.sha256", listed)
    if not listed:
        return
    shards = [found[1] for name in listed if (found := _LIST.fullmatch(name))]
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:

        def check(
            listed: dict[str, str], entries: Iterator[tuple[str, int]], others: Container[str] = ()
        ) -> Iterator[str]:
            """Compare what lies in a part of the release with its list; ``others`` are in other parts."""
            folders = {str(parent) for name in listed for parent in PurePosixPath(name).parents}
            if others:
                folders |= {"images", "reports"}
            seen = set()
            while part := list(islice(entries, _PART)):
                whole = [name for name, kind in part if stat.S_ISREG(kind) and name in listed]
                found = dict(zip(whole, pool.map(lambda name: memory.file_sum(release / name), whole), strict=True))
                for name, kind in part:
                    seen.add(name)
                    if name in others:
                        continue
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
            for name in sorted(listed.keys() - seen):
                yield f"{_printable(name)}: missing"

        if not shards:
            yield from check(listed, _entries(release))
        else:
            if any(name.startswith(("images/", "reports/")) for name in listed):
                yield "checksums.sha256: a line is malformed"
            parts = {*(f"images/{shard}" for shard in shards), *(f"reports/{shard}.jsonl" for shard in shards)}
            yield from check(listed, _entries(release, within=parts), parts)
            for shard in shards:
                own: dict[str, str] = {}
                if (release / shard_list(shard)).is_file():  # a list that is missing was said above
                    yield from _read_list(release, shard_list(shard), own)
                if any(not name.startswith(f"images/{shard}/") and name != f"reports/{shard}.jsonl" for name in own):
                    yield f"{shard_list(shard)}: a line is malformed"
                yield from check(own, _shard_entries(release, shard))
    memory.keep()


def _read_list(release: Path, name: str, listed: dict[str, str]) -> Iterator[str]:
    """Fill ``listed`` from a checksum list; yields what is wrong with it."""
    try:
        text = (release / name).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        yield f"{name} is missing or unreadable"
        return
    for line in text.split("\n")[:-1] if text.endswith("\n") else [text]:
        digest, _, file = line.partition("  ")
        if not re.fullmatch("[0-9a-f]{64}", digest) or not _safe(file):
            yield f"{name}: a line is malformed"
        elif file in listed:
            yield f"{_printable(file)}: in the checksum list twice"
        listed[file] = digest


def _printable(name: str) -> str:
    """A name that somebody else chose, without what moves a cursor or ends a line."""
    return name if name.isprintable() else ascii(name)


def _safe(name: str) -> bool:
    """Whether a listed name stays inside the release and is written in one way only."""
    return bool(name) and name not in UNLISTED and PurePosixPath(name).as_posix() == name and not (
        name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts
    )  # fmt: skip


def _entries(release: Path, inside: str = "", within: Container[str] = ()) -> Iterator[tuple[str, int]]:
    """Everything in a release, by name and kind; links are not followed. Of a folder ``images/…`` or a file
    ``reports/…`` that is ``within`` only the name is given."""
    with os.scandir(release / inside) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name = f"{inside}{entry.name}"
        kind = entry.stat(follow_symlinks=False).st_mode
        yield name, kind
        if stat.S_ISDIR(kind) and not (name in within and name.startswith("images/")):
            yield from _entries(release, f"{name}/", within)


def _shard_entries(release: Path, shard: str) -> Iterator[tuple[str, int]]:
    """What lies in a shard: its folder of films, and its file of reports."""
    for name in (f"images/{shard}", f"reports/{shard}.jsonl"):
        try:
            kind = os.lstat(release / name).st_mode
        except OSError:
            continue
        yield name, kind
        if name.startswith("images/") and stat.S_ISDIR(kind):
            yield from _entries(release, f"{name}/")


def check_own(release: Path, key: Key) -> None:
    """Whether a release is as it was signed, and signed with this key; `NotOwn` otherwise."""
    if not manifest_files(release):
        raise NotOwn(f"{release} is not a release: it has no manifest.parquet")
    try:
        check_signature(release, public_key(key))
    except OtherSigner:
        raise NotOwn("the release was made with another key; give its own with --key") from None
    except BadSignature as bad:
        raise NotOwn(str(bad)) from None
    if faults := list(check_sums(release)):
        more = f" and {len(faults) - 1} more files" if len(faults) > 1 else ""
        raise NotOwn(f"the release was edited after signing ({faults[0]}{more}); make it again")
