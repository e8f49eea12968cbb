"""What every command of the network shares: peers, TLS, an association that is opened or explained.

DICOM PS3.8 for associations, PS3.15 B.9 (BCP 195) for TLS.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.global_state import quiet

if TYPE_CHECKING:
    from pynetdicom.ae import ApplicationEntity
    from pynetdicom.association import Association

#: Bytes of one data unit that are accepted: what DCMTK sends at most.
MAX_PDU = 131_072
#: Seconds of silence after which a peer is given up.
TIMEOUT = 60.0


class NetworkError(RuntimeError):
    """The network, the peer or its answer; the message says what to do and names no patient."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of a TLS connection, all in PEM."""

    certificate: Path | None = None  # ours
    key: Path | None = None
    authority: Path | None = None  # who signed the peer's certificate

    def server(self) -> ssl.SSLContext:
        """For who listens. With an authority, a caller needs a certificate of it."""
        if self.certificate is None or self.key is None:
            raise NetworkError("TLS needs --tls-cert and --tls-key")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with _readable():
            context.load_cert_chain(self.certificate, self.key)
            if self.authority is not None:
                context.load_verify_locations(self.authority)
                context.verify_mode = ssl.CERT_REQUIRED
        return _modern(context)

    def client(self) -> ssl.SSLContext:
        """For who calls. The peer's name or address stands in its certificate."""
        with _readable():
            context = ssl.create_default_context(cafile=self.authority)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        return _modern(context)


def _modern(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (OSError, ssl.SSLError):
        raise NetworkError(
            "a certificate or key of --tls-cert, --tls-key or --tls-ca cannot be read, or they do not belong together"
        ) from None


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom to call, and under which name."""

    host: str
    port: int
    called: str  # the peer's AE title
    calling: str  # ours
    tls: Tls | None = None
    timeout: float = TIMEOUT

    @property
    def place(self) -> str:
        return f"{self.called} at {self.host}:{self.port}"


def address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, also with an IPv6 address in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 <= int(port) < 65536:
        raise NetworkError(f"{text!r} is not in the form HOST:PORT")
    return host.strip("[]"), int(port)


def checked_title(title: str) -> str:
    """An AE title: 1 to 16 characters of the default repertoire, no backslash (PS3.5 6.2)."""
    if not title.strip() or len(title) > 16 or not title.isascii() or not title.isprintable() or "\\" in title:
        raise NetworkError(f"{title!r} is not a valid AE title: 1 to 16 letters, digits or signs, no backslash")
    return title


def entity(title: str, timeout: float = TIMEOUT) -> ApplicationEntity:
    """An application entity with the timeouts of this package."""
    try:
        from pynetdicom.ae import ApplicationEntity
    except ImportError:
        raise NetworkError("the DICOM network needs pynetdicom: pip install 'updp[dicom-net]'") from None
    made = ApplicationEntity(checked_title(title))
    made.maximum_pdu_size = MAX_PDU
    made.acse_timeout = made.dimse_timeout = made.network_timeout = made.connection_timeout = timeout
    return made


@contextmanager
def associated(
    peer: Peer,
    contexts: Iterable[tuple[str, Sequence[str]]],
    *,
    roles: Sequence[Any] = (),
    handlers: Sequence[tuple[Any, Any]] = (),
) -> Iterator[Association]:
    """An association with a peer; a sentence if there is none."""
    checked_title(peer.called)
    ours = entity(peer.calling, peer.timeout)
    for abstract, syntaxes in contexts:
        ours.add_requested_context(abstract, list(syntaxes) or None)
    tls = (peer.tls.client(), peer.host) if peer.tls is not None else None
    with quiet():
        from pynetdicom import evt

        found = ours.associate(
            peer.host,
            peer.port,
            ae_title=peer.called,
            ext_neg=list(roles),
            evt_handlers=[(evt.EVT_CONN_OPEN, read_whole_units), *handlers],
            tls_args=tls,
        )
        _bound_ending(found)
        if not found.is_established:
            raise NetworkError(_why(found, peer))
        try:
            yield found
        finally:
            if found.is_established:
                found.release()


def read_whole_units(event: Any) -> None:
    """For the event that a connection is open. pynetdicom reads 4 096 bytes at a time and puts them together, for three
    times the work: a data unit of the accepted size is read to its place."""
    connection = event.assoc.dul.socket
    small = connection.recv

    def recv(size: int) -> bytearray:
        if size > MAX_PDU + 6:  # claimed by who sends: room is made as bytes arrive
            return bytearray(small(size))
        unit, had = bytearray(size), 0
        with memoryview(unit) as place:
            while had < size and (more := connection.socket.recv_into(place[had:])):
                had += more
        del unit[had:]
        return unit

    connection.recv = recv


def _bound_ending(found: Association, seconds: float = 5.0) -> None:
    """End an association that is cut in a bounded time: pynetdicom waits for its own thread without a limit."""

    def kill() -> None:
        found._reactor_checkpoint.set()
        found._kill = found._is_paused = True
        found.is_established = False
        until = time.monotonic() + seconds
        while found.dul.is_alive() and not found.dul.stop_dul() and time.monotonic() < until:
            time.sleep(0.01)
        found.dul._kill_thread = True
        # A thread that still waits for bytes of the peer wakes when its socket is shut.
        with suppress(OSError, AttributeError):
            found.dul.socket.socket.shutdown(socket.SHUT_RDWR)

    found.kill = kill


def _why(found: Association, peer: Peer) -> str:
    """Why there is no association, and what to do (PS3.8 table 9-21)."""
    if found.is_rejected:
        answer = found.acceptor.primitive
        reason = (answer.result_source, answer.diagnostic) if answer is not None else None
        if reason == (1, 3):
            return f"{peer.place} does not know the AE title {peer.calling!r}; register it there, or use --calling"
        if reason == (1, 7):
            return f"the AE title there is not {peer.called!r}; ask for the right one and use --called"
        if reason is not None and reason[0] == 3:
            return f"{peer.place} takes no further association now; run the same command again later"
        return f"{peer.place} rejected the association; ask its administrator why"
    if peer.tls is not None:
        return f"no TLS connection with {peer.place}; check address, port and the certificates of both sides"
    return (
        f"no application answers as {peer.place} within {peer.timeout:g} s; "
        "check address, port, firewall and whether it needs TLS"
    )


def status_of(answer: Any, peer: Peer) -> int:
    """The status of an answer; a peer that fell silent has none."""
    if "Status" not in answer:
        raise NetworkError(
            f"{peer.place} stopped answering; what arrived is kept, run the same command again to go on from there"
        )
    return int(answer.Status)
