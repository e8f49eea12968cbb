"""Recall: which released films are of a patient, and the signed list that takes them back.

The list holds release ids and pseudonyms, which receivers have already, and the newest serial of every release it was
made from. `updp verify` fails a release that still holds a listed film, or of which a newer state exists. Each list
contains the one before it; its serial grows by one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from updp.core.keys import Key
from updp.release import manifest
from updp.release.assemble import located
from updp.release.signature import Seal, check_signature, public_key
from updp.release.signed import Altered, Unreadable, read_signed, write_signed
from updp.release.vault import open_vault

FORMAT = "updp-revocations-1"
_KIND = "revocations"
#: The name under which `updp verify` looks for a list beside a release.
FILE = "revocations.json"


class BadRevocations(ValueError):
    """The list cannot be used; the message says why."""


class NothingToRecall(ValueError):
    """No released film is of this patient."""


@dataclass(frozen=True, slots=True)
class Revocations:
    """What a hospital has taken back up to a day."""

    serial: int = 0
    date: dt.date = dt.date.min
    films: frozenset[str] = frozenset()  # release ids
    patients: frozenset[str] = frozenset()  # pseudonyms: whatever else of them turns up is taken back too
    newest: Mapping[str, int] = field(default_factory=dict)  # release -> serial of its newest state
    signed_by: str = ""

    def of(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of a manifest is taken back."""
        return row["release_id"] in self.films or row["patient"] in self.patients

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "serial": self.serial,
            "date": self.date.isoformat(),
            "films": sorted(self.films),
            "patients": sorted(self.patients),
            "newest": dict(sorted(self.newest.items())),
        }


@dataclass(frozen=True, slots=True)
class Recalled:
    """The films of a patient in one release."""

    out: Path
    seal: Seal
    films: tuple[str, ...]  # release ids
    patients: tuple[str, ...]  # pseudonyms in this release


def read(path: Path, signer: str | None = None) -> Revocations:
    """A list as it was signed, by ``signer`` where one is expected."""
    try:
        stated, by = read_signed(path.read_bytes(), _KIND, FORMAT)
        found = Revocations(
            int(stated["serial"]),
            dt.date.fromisoformat(stated["date"]),
            frozenset(map(str, stated["films"])),
            frozenset(map(str, stated["patients"])),
            {str(name): int(serial) for name, serial in stated["newest"].items()},
            by,
        )
    except OSError:
        raise BadRevocations("the revocation list cannot be read") from None
    except (Unreadable, Altered) as bad:
        raise BadRevocations(f"the revocation list is not accepted: {bad}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadRevocations("the revocation list is malformed") from None
    if signer is not None and by != signer:
        raise BadRevocations("the revocation list is signed by another key than the release")
    return found


def films_of(patient: str, outs: Iterable[Path], key: Key) -> list[Recalled]:
    """The released films of a patient, by release; releases without any are in the list too."""
    out = []
    for place in outs:
        folder = located(place)
        seal = check_signature(folder, public_key(key))
        links = [link for link in open_vault(place / "vault", key) if link.get("source_patient_id") == patient]
        names = {link["release_id"] for link in links if "release_id" in link}
        found = [row for row in manifest.read(folder) if row["release_id"] in names]
        patients = tuple(sorted({row["patient"] for row in found}))
        out.append(Recalled(place, seal, tuple(row["release_id"] for row in found), patients))
    return out


def recall(
    patient: str, outs: Iterable[Path], to: Path, key: Key, today: dt.date
) -> tuple[Revocations, list[Recalled]]:
    """Take back a patient's films: the list at ``to``, with all that stood on it before."""
    before = read(to, public_key(key)) if to.exists() else Revocations()
    found = films_of(patient, outs, key)
    if not any(one.films for one in found):
        raise NothingToRecall("no film of this patient is in these releases; nothing was written")
    made = replace(
        before,
        serial=before.serial + 1,
        date=max(before.date, today),
        films=before.films.union(*(one.films for one in found)),
        patients=before.patients.union(*(one.patients for one in found)),
        newest={**before.newest, **{one.seal.release: one.seal.serial for one in found}},
        signed_by=public_key(key),
    )
    write_signed(to, _KIND, made.to_json(), key)
    return made, found
