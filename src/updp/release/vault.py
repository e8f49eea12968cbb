"""The pseudonym vault: which study a release id or a quarantine entry was. It stays in the hospital.

One AES-256-GCM file per shard, beside the release and never inside it, readable by its owner only. With the key, the
hospital can recall a patient, answer an audit, or find the study behind a reason code.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from updp.core.keys import Key
from updp.core.storage import write_bytes

_MAGIC = b"updp-vault-1\n"
COLUMNS = (
    "ref", "release_id", "patient", "study", "source_film_id", "source_study_id", "source_patient_id", "reason",
)  # fmt: skip


class BadVault(ValueError):
    """The vault cannot be opened; the message says why and shows nothing of it."""


def seal(path: Path, links: list[dict[str, Any]], key: Key) -> None:
    """Write one shard's links, encrypted; the shard's name is bound in, so that files cannot be swapped."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(12)
    box = AESGCM(key.vault_key()).encrypt(nonce, json.dumps(links).encode(), _MAGIC + path.stem.encode())
    write_bytes(path, _MAGIC + nonce + box, mode=0o600)


def open_vault(folder: Path, key: Key) -> Iterator[dict[str, Any]]:
    """Every link of a run, shard by shard."""
    files = sorted(folder.glob("*.vault"))
    if not files:
        raise BadVault("there is no vault at this output")
    for path in files:
        yield from unseal(path, key)


def unseal(path: Path, key: Key) -> list[dict[str, Any]]:
    """What ``seal`` wrote at ``path``."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    raw = path.read_bytes()
    if not raw.startswith(_MAGIC):
        raise BadVault(f"{path.name} is not an updp vault file")
    body = raw[len(_MAGIC) :]
    try:
        plain = AESGCM(key.vault_key()).decrypt(body[:12], body[12:], _MAGIC + path.stem.encode())
    except InvalidTag:
        raise BadVault(f"{path.name} does not open with this key, or was altered") from None
    found: list[dict[str, Any]] = json.loads(plain)
    return found


def export(out: Path, key: Key, to: Path) -> int:
    """Write all links of the run at ``out`` as CSV, readable by its owner only; returns how many.

    Films that were kept back have a reason and no release id.
    """
    reasons = _reasons(out / "quarantine.jsonl")
    links = open_vault(out / "vault", key)
    first = next(links, None)  # opens the first file: a wrong key leaves no CSV behind
    try:
        handle = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadVault(f"{to} is already there; it is never overwritten") from None
    count = 0
    try:
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as table_file:
            table = csv.DictWriter(table_file, COLUMNS)
            table.writeheader()
            for link in chain([] if first is None else [first], links):
                reason = reasons.get(link["ref"], "")
                if reason:
                    link.pop("release_id", None)
                table.writerow({**link, "reason": reason})
                count += 1
    except BaseException:
        to.unlink(missing_ok=True)  # half a list of patients is of no use to anyone
        raise
    return count


def _reasons(path: Path) -> dict[str, str]:
    try:
        entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    except OSError:  # the run is not finished
        return {}
    return {entry["ref"]: entry["reason"] for entry in entries}
