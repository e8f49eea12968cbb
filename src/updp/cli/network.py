"""`updp receive`, `fetch` and `send`: DICOM over the network."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from updp.cli.app import WRONG_USE, KeyOption, app
from updp.cli.console import Progress
from updp.cli.session import add_result, make_console, say

if TYPE_CHECKING:
    from updp.core.metrics import Metrics
    from updp.network.association import Peer, Tls

CertOption = Annotated[Path | None, typer.Option("--tls-cert", help="Certificate of this computer (PEM).")]
TlsKeyOption = Annotated[Path | None, typer.Option("--tls-key", help="Key of that certificate (PEM).")]
AuthorityOption = Annotated[
    Path | None, typer.Option("--tls-ca", help="Authority for certificates of peers (PEM); peers need one then.")
]
FromOption = Annotated[str, typer.Option(help="HOST:PORT of the PACS.")]
CalledOption = Annotated[str, typer.Option(help="AE title of the PACS.")]
CallingOption = Annotated[str, typer.Option(help="AE title of this computer.")]
TimeoutOption = Annotated[float, typer.Option(min=1, help="Seconds without data after which a connection is closed.")]
KeepFreeOption = Annotated[
    float, typer.Option(min=0, help="Gigabytes of the disk that stay free; objects that need them are refused.")
]
MetricsOption = Annotated[
    str | None, typer.Option(help="HOST:PORT at which Prometheus finds /metrics, e.g. 127.0.0.1:9464.")
]


@app.command()
def receive(
    to: Annotated[Path, typer.Option(help="The export: a folder per study, a file per object.")],
    ae_title: Annotated[str, typer.Option(help="AE title under which senders call.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 11112,
    host: Annotated[str, typer.Option(help="Address to listen at; default: every one.")] = "",
    allow: Annotated[
        list[str] | None, typer.Option(help="A calling AE title that may send; may be repeated. Default: every one.")
    ] = None,
    commit_to: Annotated[
        list[str] | None,
        typer.Option(help="AE=HOST:PORT where that sender takes commitment reports; default: on its association."),
    ] = None,
    associations: Annotated[int, typer.Option(min=1, help="Senders at the same time, at most.")] = 10,
    keep_free: KeepFreeOption = 1.0,
    timeout: TimeoutOption = 60,
    tls_cert: CertOption = None,
    tls_key: TlsKeyOption = None,
    tls_ca: AuthorityOption = None,
    metrics: MetricsOption = None,
) -> None:
    """Receive DICOM objects into an export, until stopped (C-STORE, storage commitment, C-ECHO)."""
    from updp.core.metrics import Metrics
    from updp.network.association import NetworkError, address
    from updp.network.receive import METRICS, Receiver

    reports = {}
    for text in commit_to or ():
        name, sign, place = text.partition("=")
        if not sign:
            raise NetworkError(f"{text!r} is not in the form AE=HOST:PORT")
        reports[name] = address(place)
    values = Metrics(METRICS)
    with until_stopped() as stop, published(values, metrics):
        receiver = Receiver(
            to, title=ae_title, host=host, port=port, allow=allow or (), commit_to=reports,
            tls=_tls(tls_cert, tls_key, tls_ca), associations=associations, keep_free=round(keep_free * 1e9),
            timeout=timeout, metrics=values,
        )  # fmt: skip
        with receiver:
            say(f"{ae_title} listens on port {receiver.port}. Stop with Ctrl-C.")
            stop.wait()
    add_result(objects=len(receiver.inbox), port=receiver.port)
    say(f"Stopped. {len(receiver.inbox)} objects in the export.")


@app.command()
def fetch(
    query: Annotated[Path, typer.Argument(help="Query file (TOML): tables [[study]] and [series] of DICOM keywords.")],
    to: Annotated[Path, typer.Option(help="The export; what it holds is not fetched again.")],
    source: Annotated[str, typer.Option("--from", help="HOST:PORT of the PACS.")],
    called: CalledOption,
    calling: CallingOption = "UPDP",
    how: Annotated[
        str, typer.Option(help="get: on the association that asks; move: the PACS sends, to an AE title it knows.")
    ] = "get",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at with --how move.")] = 11112,
    keep_free: KeepFreeOption = 1.0,
    timeout: TimeoutOption = 60,
    tls: Annotated[bool, typer.Option("--tls", help="Connect by TLS.")] = False,
    tls_cert: CertOption = None,
    tls_key: TlsKeyOption = None,
    tls_ca: AuthorityOption = None,
) -> None:
    """Fetch studies from a PACS (C-FIND, then C-GET or C-MOVE). Running the same command again resumes."""
    from updp.network.fetch import fetch as run
    from updp.network.fetch import read_query

    if how not in ("get", "move"):
        raise typer.BadParameter("--how is get or move")
    way: Literal["get", "move"] = "get" if how == "get" else "move"
    files = _tls(tls_cert, tls_key, tls_ca)
    peer = _peer(source, called, calling, tls, files, timeout)
    console = make_console()
    with Progress(console) as bar:
        found = run(
            peer, read_query(query), to,
            how=way, port=port, tls=files if tls else None, keep_free=round(keep_free * 1e9), progress=bar,
        )  # fmt: skip
    add_result(studies=found.studies, objects=found.objects, present=found.present, missing=found.missing)
    say(f"{found.studies} studies: {found.objects} objects fetched, {found.present} were there already")
    if found.missing:
        say(
            f"{found.missing} objects were not received: the disk is full, or the PACS gave no film or report under "
            "them. The same command asks for them again."
        )
        raise typer.Exit(WRONG_USE)


@app.command()
def send(
    release: Annotated[Path, typer.Argument(help="A release with DICOM films, or the output folder that holds it.")],
    to: FromOption,
    called: CalledOption,
    calling: CallingOption = "UPDP",
    trust: Annotated[
        str | None, typer.Option(help="Public key or fingerprint of the signer; default: that of the hospital's key.")
    ] = None,
    timeout: TimeoutOption = 60,
    key: KeyOption = None,
    tls: Annotated[bool, typer.Option("--tls", help="Connect by TLS.")] = False,
    tls_cert: CertOption = None,
    tls_key: TlsKeyOption = None,
    tls_ca: AuthorityOption = None,
) -> None:
    """Send the DICOM films of a release that passed the gate (C-STORE). Running the same command again resumes."""
    from updp.core.keys import Key, default_path
    from updp.network.send import send as run
    from updp.release.assemble import located
    from updp.release.signature import public_key

    peer = _peer(to, called, calling, tls, _tls(tls_cert, tls_key, tls_ca), timeout)
    trusted = trust or public_key(Key.load(key or default_path()))
    with Progress(make_console()) as bar:
        done = run(located(release.absolute()), peer, trusted=trusted, progress=bar)
    add_result(films=done.films, sent=done.sent, before=done.before)
    say(f"{done.sent} films sent, {done.before} sent earlier; {done.films} in the release")


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set: a service that is stopped ends in order."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def published(values: "Metrics", place: str | None) -> Iterator[None]:
    """Values where Prometheus can read them, if asked for."""
    if place is None:
        yield
        return
    from updp.core.metrics import serve
    from updp.network.association import NetworkError, address

    try:
        server = serve(values, *address(place))
    except OSError:
        raise NetworkError(f"metrics cannot be served at {place}; choose another address or port") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _tls(certificate: Path | None, key: Path | None, authority: Path | None) -> "Tls | None":
    from updp.network.association import Tls

    return Tls(certificate, key, authority) if certificate or key or authority else None


def _peer(place: str, called: str, calling: str, tls: bool, files: "Tls | None", timeout: float) -> "Peer":
    from updp.network.association import NetworkError, Peer, Tls, address

    if files is not None and not tls:
        raise NetworkError("certificates need --tls; without it, nothing would be encrypted")
    return Peer(*address(place), called, calling, (files or Tls()) if tls else None, timeout)
