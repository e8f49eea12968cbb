"""`updp recover`: the original of one released record, with the hospital's key, and a log of every time.

Two originals can come back: what the method recovers from the released file itself, with the record's password, and the
exact source file from the vault. Before either is written, a line in ``vault/recovered.jsonl`` says which record, how,
by whom and why.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.storage import explain, write_bytes
from updp.release import manifest, vault
from updp.release.assemble import OWN_OPTIONS, located
from updp.release.signature import NotOwn, check_own

LOG = "recovered.jsonl"
How = Literal["password", "vault"]


class NotRecoverable(ValueError):
    """The original cannot be given back; the message says why and names no patient."""


@dataclass(frozen=True)
class Recovered:
    """An original, as the bytes of an image file, and how it came back."""

    data: bytes
    how: How


def recover(
    place: Path,
    record: str,
    key: Key,
    to: Path,
    *,
    how: How = "password",
    by: str = "",
    why: str = "",
    at: dt.datetime | None = None,
    folder: Path | None = None,
) -> Recovered:
    """Write the original of ``record`` of the release at ``place`` to ``to`` (0600, never overwriting a file).

    ``folder`` is the vault, if it is not beside the release.
    """
    release = located(place)
    kept = folder or release.parent / "vault"
    try:
        check_own(release, key)
    except NotOwn as bad:
        raise NotRecoverable(str(bad)) from None
    row = next((row for row in manifest.read(release) if row["release_id"] == record), None)
    if row is None:
        raise NotRecoverable("this release has no record of that name")
    if to.exists():
        raise NotRecoverable(f"{to} is already there; it is never overwritten")
    key = key.for_recipient(_recipient(kept, record, key))
    data = vault.original(kept, record, key) if how == "vault" else _recovered(release, kept, row, key)
    _note(kept, {"record": record, "how": how, "by": by, "why": why, "key": key.fingerprint}, at)
    try:
        write_bytes(to, data, mode=0o600, fresh=True)
    except OSError as error:
        raise explain(error) from None
    return Recovered(data, how)


def _recipient(folder: Path, record: str, key: Key) -> str | None:
    """For whom the record was made: passwords differ between recipients."""
    for link in vault.open_vault(folder, key):
        if link.get("release_id") == record:
            return link.get("recipient")
    raise NotRecoverable("the vault does not know this record; give the vault of its run with --vault")


def _recovered(release: Path, folder: Path, row: dict[str, Any], key: Key) -> bytes:
    import numpy as np
    from PIL import Image

    from updp.imaging.encode import encode_png
    from updp.methods import make_method
    from updp.methods.base import Reversible

    method = Policy.load(release / "policy.toml").method
    options = dict(method.options)
    if (folder / OWN_OPTIONS).is_file():
        options = json.loads((folder / OWN_OPTIONS).read_bytes())
    made = make_method(method.name, options)
    if not isinstance(made, Reversible):
        raise NotRecoverable(f"method {method.name!r} is not reversible; the vault has the original (--exact)")
    with Image.open(io.BytesIO((release / row["file_name"]).read_bytes())) as image:
        film = np.asarray(image.convert("RGB"))
    (original,) = made.recover([film], [key.password(row["release_id"])])
    return encode_png(original.astype(np.float32) / np.float32(255))


def _note(folder: Path, line: dict[str, str], at: dt.datetime | None) -> None:
    """Append to the log, on disk when this returns."""
    stamp = (at or dt.datetime.now(dt.UTC)).isoformat(timespec="seconds")
    try:
        log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(log, json.dumps({"at": stamp, **line}).encode() + b"\n")
            os.fsync(log)
        finally:
            os.close(log)
    except OSError as error:
        raise explain(error) from None
