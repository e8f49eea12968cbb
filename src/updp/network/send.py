"""`updp send`: the films of a release, as DICOM, to a PACS or a receiver (PS3.4 B).

Only what passed the gate leaves, and every film is compared with the signed checksums before it does. What the peer
took is noted beside the release, so that a transfer that was cut goes on where it was.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from updp.core.storage import explain
from updp.network.association import NetworkError, Peer, associated, status_of
from updp.release.signature import listed_sums
from updp.release.verify import verify

log = logging.getLogger("updp.network")

#: Presentation contexts of one association at most (PS3.8 9.3.2.2).
_CONTEXTS = 128
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Sent:
    """What a transfer came to."""

    films: int  # in the release
    sent: int  # taken now
    before: int  # taken by an earlier call


def send(release: Path, peer: Peer, *, trusted: str, progress: Progress | None = None) -> Sent:
    """Send every film of a release that ``trusted`` signed and that passed the gate."""
    checked = verify(release, trusted=trusted)
    if not checked.intact or checked.status != "passed":
        raise NetworkError(
            "not a release that passed the gate under the key you trust, so nothing is sent; `updp verify` says why"
        )
    sums = _sums(release)
    if not sums:
        raise NetworkError("the release holds no DICOM films; make one with policy [image] format = 'dicom'")
    journal = release.absolute().parent / f"sent-{_name(peer)}.txt"
    done = _taken(journal)
    waiting = [name for name in sums if name not in done]
    before = len(sums) - len(waiting)
    if progress:
        progress(before, len(sums))
    try:
        with journal.open("a", encoding="ascii") as noted:
            os.chmod(journal, 0o600)
            sent = _send(release, peer, waiting, sums, lambda name: noted.write(f"{sums[name]}  {name}\n"),
                         (lambda count: progress(before + count, len(sums))) if progress else None)  # fmt: skip
    except OSError as error:
        raise explain(error) from None
    log.info("sent", extra={"facts": {"films": len(sums), "sent": sent, "before": before}})
    return Sent(len(sums), sent, before)


def _name(peer: Peer) -> str:
    """A file name for a peer, whatever its title holds."""
    return hashlib.blake2b(f"{peer.called}@{peer.host}:{peer.port}".encode(), digest_size=6).hexdigest()


def _sums(release: Path) -> dict[str, str]:
    """The signed checksum of every DICOM film."""
    return {name: value for name, value in listed_sums(release) if name.startswith("images/") and name.endswith(".dcm")}


def _taken(journal: Path) -> set[str]:
    try:
        lines = journal.read_text("ascii").splitlines()
    except FileNotFoundError:
        return set()
    except (OSError, ValueError):
        raise NetworkError("the list of films sent before is damaged; remove sent-*.txt beside the release") from None
    return {line.partition("  ")[2] for line in lines if len(line.partition("  ")[0]) == 64}


def _send(
    release: Path,
    peer: Peer,
    names: list[str],
    sums: dict[str, str],
    note: Callable[[str], Any],
    progress: Callable[[int], None] | None,
) -> int:
    import pydicom

    kinds: dict[tuple[str, str], None] = {}
    for name in names:
        meta = pydicom.filereader.read_file_meta_info(release / name)
        kinds[str(meta.MediaStorageSOPClassUID), str(meta.TransferSyntaxUID)] = None
    if not names:
        return 0
    with associated(peer, [(kind, (syntax,)) for kind, syntax in list(kinds)[:_CONTEXTS]]) as assoc:
        for count, name in enumerate(names, start=1):
            data = (release / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != sums[name]:
                raise NetworkError("a film is not as it was signed; nothing further is sent, run `updp verify`")
            try:
                status = status_of(assoc.send_c_store(release / name), peer)
            except ValueError:
                raise NetworkError(f"{peer.place} takes no films of this kind or transfer syntax") from None
            except RuntimeError as error:
                raise (error if isinstance(error, NetworkError) else _cut(peer, count - 1, len(names))) from None
            if status == 0xA700:
                raise NetworkError(f"{peer.place} has no room for further films; run the same command again later")
            if status not in (0x0000, 0xB000, 0xB006, 0xB007):
                raise NetworkError(f"{peer.place} refused a film with status {status:#06x}; its log says why")
            note(name)
            if progress:
                progress(count)
    return len(names)


def _cut(peer: Peer, done: int, of: int) -> NetworkError:
    return NetworkError(
        f"the connection with {peer.place} was cut after {done} of {of} films; run the same command again"
    )
