"""The hospital's secret and everything derived from it: one key, one identity in header, pixels and report.

Each use has its own sub-key (HKDF-SHA-256, RFC 5869), and each value is an HMAC-SHA-256 of the source's id under that
sub-key. Nobody without the key can go from a pseudonym back to a patient, not even by trying all record numbers, and
the same patient gets the same pseudonym, shift and random numbers whatever the order, worker or day.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hmac
import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from updp.core.record import Split, split_of
from updp.core.storage import sync_folder, write_bytes

if TYPE_CHECKING:
    import numpy as np
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PREFIX = "updp-key-1:"
_BYTES = 32

#: Dates move back by this many whole weeks; whole weeks keep a Monday a Monday.
SHIFT_WEEKS = (52, 520)


class BadKey(ValueError):
    """The key file cannot be used; the message says why and never shows the key."""


def default_path() -> Path:
    """Where the hospital's key lives unless the user says otherwise."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "updp" / "key"


@lru_cache(maxsize=4096)
def _subkey(secret: bytes, use: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt=None, info=b"updp/1/" + use.encode()).derive(secret)


def _base32(digest: bytes, length: int) -> str:
    return base64.b32encode(digest).decode().lower()[:length]


class Key:
    """The hospital's secret. Pseudonyms, date shifts, seeds and signatures are computed from it.

    ``repr`` never shows it. Pickling carries it to worker processes only.
    """

    __slots__ = ("_scope", "_secret")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _BYTES:
            raise BadKey(f"a key has {_BYTES} bytes, not {len(secret)}")
        self._secret = secret
        self._scope = secret  # what pseudonyms, shifts and random numbers are computed from

    def __repr__(self) -> str:
        return f"Key({self.fingerprint})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Key)
            and hmac.compare_digest(self._secret, other._secret)
            and hmac.compare_digest(self._scope, other._scope)
        )

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def for_recipient(self, name: str | None) -> Key:
        """This key for releases to one recipient: the same signature, vault and fingerprint, and other pseudonyms,
        shifts and random numbers than for anybody else. Two recipients cannot join what they received by them."""
        made = Key(self._secret)
        if name:
            made._scope = _subkey(self._secret, f"recipient/{name}")
        return made

    # -- files ---------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, secret: bytes | None = None) -> Key:
        """Put a new secret at ``path``, readable by its owner only, whole or not at all; never overwrites one.

        It is drawn at random unless one is given, as for an invented hospital that has nothing to hide.
        """
        made = cls(os.urandom(_BYTES) if secret is None else secret)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = _PREFIX + base64.b64encode(made._secret).decode() + "\n"
        try:
            write_bytes(path, text.encode(), mode=0o600, fresh=True)
        except FileExistsError:
            raise BadKey("a key file is already there; it is never overwritten") from None
        sync_folder(path.parent)
        return made

    @classmethod
    def load(cls, path: Path) -> Key:
        """Read a key file, refusing one that others on the machine may read."""
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            text = path.read_text("ascii").strip()
        except FileNotFoundError:
            raise BadKey(f"no key file at {path}") from None
        except (OSError, UnicodeDecodeError):
            raise BadKey(f"the key file at {path} cannot be read") from None
        if os.name == "posix" and mode & 0o077:  # elsewhere the mode says nothing of who may read
            raise BadKey(f"the key file is readable by others (mode {mode:04o}); run: chmod 600 {path}")
        if not text.startswith(_PREFIX):
            raise BadKey(f"{path} is not an updp key file")
        try:
            return cls(base64.b64decode(text.removeprefix(_PREFIX), validate=True))
        except (binascii.Error, ValueError):
            raise BadKey(f"the key file at {path} is damaged") from None

    @classmethod
    def load_or_create(cls, path: Path) -> tuple[Key, bool]:
        """The key at ``path``, and whether it had to be made."""
        if path.exists():
            return cls.load(path), False
        return cls.create(path), True

    # -- derivation ----------------------------------------------------------------------------------------------

    def digest(self, use: str, *parts: str | bytes) -> bytes:
        """A keyed hash of ``parts`` for one use; parts are length-prefixed, so ("ab","c") differs from ("a","bc")."""
        mac = hmac.new(_subkey(self._scope, use), digestmod="sha256")
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            mac.update(len(raw).to_bytes(8, "big") + raw)
        return mac.digest()

    @property
    def fingerprint(self) -> str:
        """A public name of this key: tells two keys apart, reveals neither."""
        return _base32(Key(self._secret).digest("fingerprint"), 12)

    def patient(self, patient_id: str) -> str:
        """The pseudonym of a patient: in the header, burned into the film, and in the manifest."""
        return "p" + _base32(self.digest("patient", patient_id), 15)

    def study(self, patient_id: str, study_id: str) -> str:
        """The pseudonym of an examination."""
        return "s" + _base32(self.digest("study", patient_id, study_id), 15)

    def film(self, film_id: str) -> str:
        """The release id of a film: its name in the release."""
        return "f" + _base32(self.digest("film", film_id), 19)

    def ref(self, film_id: str) -> str:
        """What a film is called in logs and the quarantine list; differs from its release id. It never leaves, so it is
        the same for every recipient."""
        return "q" + _base32(Key(self._secret).digest("ref", film_id), 15)

    def release(self, run: str) -> str:
        """The name of a release in every state it is sealed in; ``run`` is what makes it this one."""
        return "r" + _base32(self.digest("release", run), 15)

    def uid(self, uid: str) -> str:
        """A DICOM UID in place of another (the 2.25 root takes any 128-bit number, PS3.5 B.2)."""
        return f"2.25.{int.from_bytes(self.digest('uid', uid)[:16], 'big')}"

    def shift(self, patient_id: str) -> dt.timedelta:
        """How far back this patient's dates move."""
        low, high = SHIFT_WEEKS
        draw = int.from_bytes(self.digest("shift", patient_id)[:8], "big")
        return -dt.timedelta(weeks=low + draw % (high - low + 1))

    def seed(self, *parts: str) -> int:
        """A 128-bit seed of a named random stream."""
        return int.from_bytes(self.digest("seed", *parts)[:16], "big")

    def rng(self, *parts: str) -> np.random.Generator:
        """A named random stream, the same wherever and whenever it is asked for."""
        import numpy as np

        return np.random.Generator(np.random.PCG64(self.seed(*parts)))

    def password(self, release_id: str) -> bytes:
        """The password of one released film, for methods that can be turned back (HKDF, one per record)."""
        return _subkey(self._scope, f"password/{release_id}")

    def original_key(self) -> bytes:
        """The AES-256 key of the originals that a run keeps for audits."""
        return _subkey(self._secret, "originals")

    def split(self, patient_id: str) -> Split:
        """The split of a patient in a source that has no official one."""
        return split_of(patient_id, _subkey(self._scope, "split"))

    def signer(self) -> Ed25519PrivateKey:
        """The key that signs releases."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(_subkey(self._secret, "sign"))

    def vault_key(self) -> bytes:
        """The AES-256 key of the pseudonym vault."""
        return _subkey(self._secret, "vault")
