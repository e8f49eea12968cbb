"""Checksums and the Ed25519 signature over them: what makes a release tamper-evident.

``checksums.sha256`` lists every file but itself and the signature, in the format of ``sha256sum``; ``signature`` holds
the hospital's public key and its signature of that list. The receiver pins the public key he was given by another way.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

from updp.core.keys import Key
from updp.core.storage import write_bytes

_HEAD = "updp-signature-1"
UNLISTED = ("checksums.sha256", "signature")


class BadSignature(ValueError):
    """The signature is missing, malformed, not valid for this list, or not by the expected key."""


def public_key(key: Key) -> str:
    """The hospital's public key, to be handed to receivers."""
    return base64.b64encode(key.signer().public_key().public_bytes_raw()).decode()


def file_sum(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def files_of(release: Path) -> Iterator[str]:
    """Every file of a release but the checksum list and the signature, as sorted relative paths."""
    for path in sorted(release.rglob("*")):
        name = path.relative_to(release).as_posix()
        if not path.is_dir() and name not in UNLISTED:
            yield name


def checksum_line(digest: str, name: str) -> bytes:
    """A line of the checksum list, in the format of ``sha256sum``."""
    return f"{digest}  {name}\n".encode()


def _statement(release: Path) -> bytes:
    """What is signed: the digest of the list, so that a list of any length can be signed."""
    return f"{_HEAD} {file_sum(release / 'checksums.sha256')}".encode()


def sign(release: Path, key: Key) -> None:
    """Sign the checksum list of a release."""
    made = base64.b64encode(key.signer().sign(_statement(release))).decode()
    write_bytes(release / "signature", f"{_HEAD}\n{public_key(key)}\n{made}\n".encode())


def check_signature(release: Path, trusted: str | None = None) -> str:
    """Check the signature of the checksum list; returns the public key it was made with."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        head, public, made = (release / "signature").read_text("ascii").splitlines()
        data = _statement(release)
        verifier = Ed25519PublicKey.from_public_bytes(base64.b64decode(public, validate=True))
        raw = base64.b64decode(made, validate=True)
    except (OSError, ValueError):
        raise BadSignature("the signature or the checksum list is missing or malformed") from None
    if head != _HEAD:
        raise BadSignature("the signature is of an unknown format")
    try:
        verifier.verify(raw, data)
    except InvalidSignature:
        raise BadSignature("the checksum list was altered after signing") from None
    if trusted is not None and public != trusted.strip():
        raise BadSignature("the release was signed by another key than the one you trust")
    return public


def check_sums(release: Path) -> Iterator[str]:
    """What is wrong with the files of a release against its checksum list, one sentence each."""
    try:
        text = (release / "checksums.sha256").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        yield "checksums.sha256 is missing or unreadable"
        return
    listed: dict[str, str] = {}
    for line in text.splitlines():
        digest, _, name = line.partition("  ")
        listed[name] = digest
    present = set(files_of(release))
    for name in sorted(present - listed.keys()):
        yield f"{name}: not in the checksum list"
    for name, digest in listed.items():
        if name not in present:
            yield f"{name}: missing"
        elif (release / name).is_symlink() or file_sum(release / name) != digest:
            yield f"{name}: altered"
