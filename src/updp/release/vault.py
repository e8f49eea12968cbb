"""The pseudonym vault: which study a release id or a quarantine entry was. It stays in the hospital.

One AES-256-GCM file per shard, beside the release and never inside it, readable by its owner only. With the key, the
hospital can recall a patient, answer an audit, or find the study behind a reason code. Where the method can be turned
back, the exact source files are kept here too, one encrypted file each.
"""

from __future__ import annotations

import codecs
import csv
import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from updp.core.keys import Key
from updp.core.storage import write_bytes, writing

_MAGIC = b"updp-vault-1\n"
COLUMNS = (
    "ref", "release_id", "patient", "study", "recipient", "source_film_id", "source_study_id", "source_patient_id",
    "reason",
)  # fmt: skip
#: In the vault: source files that methods which can be turned back keep for audits.
ORIGINALS = "originals"
#: A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


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


def keep_original(folder: Path, release_id: str, source: Path, key: Key) -> None:
    """Keep the bytes of a source file, encrypted, under the release id they left as."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    place = folder / ORIGINALS / f"{release_id}.vault"
    place.parent.mkdir(mode=0o700, exist_ok=True)
    nonce = os.urandom(12)
    box = AESGCM(key.original_key()).encrypt(nonce, source.read_bytes(), _MAGIC + release_id.encode())
    write_bytes(place, _MAGIC + nonce + box, mode=0o600)


def original(folder: Path, release_id: str, key: Key) -> bytes:
    """The bytes that ``keep_original`` kept."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        raw = (folder / ORIGINALS / f"{release_id}.vault").read_bytes()
    except OSError:
        raise BadVault("the vault holds no original of this record") from None
    body = raw.removeprefix(_MAGIC)
    try:
        return AESGCM(key.original_key()).decrypt(body[:12], body[12:], _MAGIC + release_id.encode())
    except InvalidTag:
        raise BadVault("the original does not open with this key, or was altered") from None


def export(out: Path, key: Key, to: Path) -> int:
    """Write all links of the run at ``out`` as CSV, readable by its owner only; returns how many.

    Films that were kept back have a reason and no release id. See ``cell`` for what is written of a formula.
    """
    reasons = _reasons(out / "quarantine.jsonl")
    links = open_vault(out / "vault", key)
    first = next(links, None)  # opens the first file: a wrong key leaves no CSV behind
    count = 0
    try:  # whole or not at all
        with writing(to, mode=0o600, fresh=True) as file:
            table = csv.DictWriter(codecs.getwriter("utf-8")(file), COLUMNS)
            table.writeheader()
            for link in chain([] if first is None else [first], links):
                reason = reasons.get(link["ref"], "")
                if reason:
                    link.pop("release_id", None)
                table.writerow({name: cell(value) for name, value in {**link, "reason": reason}.items()})
                count += 1
    except FileExistsError:
        raise BadVault(f"{to} is already there; it is never overwritten") from None
    return count


def cell(value: str) -> str:
    """A value for a CSV file: what a spreadsheet would run as a formula begins with an apostrophe, which it hides."""
    return f"'{value}" if value.startswith(_FORMULA) else value


def _reasons(path: Path) -> dict[str, str]:
    try:
        entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    except OSError:  # the run is not finished
        return {}
    return {entry["ref"]: entry["reason"] for entry in entries}
