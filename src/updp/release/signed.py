"""Small signed documents: a JSON statement, the public key of who signed it, and the signature."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from updp.core.keys import Key
from updp.core.storage import write_bytes
from updp.release.signature import public_key


class Unreadable(ValueError):
    """The file is not a signed document of the wanted kind."""


class Altered(ValueError):
    """The document is not as it was signed."""


def write_signed(path: Path, kind: str, stated: Mapping[str, Any], key: Key) -> None:
    """Sign a statement, whose ``format`` names its version, and write it."""
    made = base64.b64encode(key.signer().sign(_digest(stated))).decode()
    whole = {kind: stated, "signed_by": public_key(key), "signature": made}
    write_bytes(path, (json.dumps(whole, indent=1, sort_keys=True) + "\n").encode())


def read_signed(raw: bytes, kind: str, form: str) -> tuple[dict[str, Any], str]:
    """A statement that is as it was signed, and the public key of who signed it: whether to trust him is not decided
    here."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        whole = json.loads(raw)
        stated, signer = whole[kind], str(whole["signed_by"])
        if stated["format"] != form:
            raise ValueError
        verifier = Ed25519PublicKey.from_public_bytes(base64.b64decode(signer, validate=True))
        signature = base64.b64decode(whole["signature"], validate=True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # whatever a wrong shape raises
        raise Unreadable(f"it cannot be read as a signed {kind}") from None
    try:
        verifier.verify(signature, _digest(stated))
    except InvalidSignature:
        raise Altered("it was altered after signing") from None
    return stated, signer


def _digest(stated: Mapping[str, Any]) -> bytes:
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"))
    return f"{stated['format']} {hashlib.sha256(text.encode()).hexdigest()}".encode()
