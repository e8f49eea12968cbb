"""`updp review`: the server, on the loopback address alone, and the links that open it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.keys import Key
from updp.review.answers import Answers
from updp.review.desk import Desk
from updp.review.plan import load_plan
from updp.review.sessions import BadProxy, Guard, Proxy

if TYPE_CHECKING:
    from uvicorn import Server

LOOPBACK = "127.0.0.1"


class NoServer(ValueError):
    """The server cannot start."""


@dataclass(frozen=True)
class Link:
    """An address that opens one session."""

    name: str
    address: str


@dataclass
class Review:
    """A server that is ready to run."""

    server: Server
    links: tuple[Link, ...]
    guard: Guard
    desk: Desk | None
    listening: socket.socket

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.listening.getsockname()[1]}"

    def run(self) -> None:
        """Serve until stopped."""
        if self.desk is not None:
            self.desk.start()
        try:
            self.server.run(sockets=[self.listening])
        finally:
            if self.desk is not None:
                self.desk.stop()


def prepare(
    out: Path | None,
    key: Key,
    *,
    study: Path | None = None,
    source: Path | None = None,
    layout: str | None = None,
    port: int = 0,
    proxy: Proxy | None = None,
    clock: Callable[[], float] | None = None,
    classify: bool = True,
) -> Review:
    """Open run and study, bind the port, make the links."""
    try:
        import uvicorn

        from updp.review.app import Study, make_app
    except ImportError:
        raise NoServer("the review page needs the extra `review`: pip install 'updp[review]'") from None

    desk = None if out is None else Desk(out, key, source=source, layout=layout, classify=classify)
    shown: Any = None
    if study is not None:
        folder = study.parent if study.name == "plan.json" else study
        plan = load_plan(folder, key)
        shown = Study(folder, plan, Answers(folder, plan))
        if proxy is not None and set(proxy.readers.values()) - {one.name for one in plan.readers}:
            raise BadProxy("the plan has no reader of a name that the proxy's file gives")
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen(128)  # a link that is opened at once waits, and is not refused
    except OSError:
        raise NoServer(f"port {port} is in use or not yours; choose another with --port") from None
    port = listening.getsockname()[1]
    hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")} | ({proxy.host} if proxy else set())
    if port == 80:  # browsers leave it out
        hosts |= {LOOPBACK, "localhost"}
    folders = [str(one.absolute()) for one in (out, study) if one is not None]
    left = (out / "review" if out is not None else shown.folder) / "left-sessions"
    guard = Guard(key, "\n".join(folders), proxy, ended=left, **({} if clock is None else {"clock": clock}))
    app = make_app(guard, hosts, desk, shown)
    # No access log: its lines hold addresses, and the first one a token. Forwarded headers are not read.
    config = uvicorn.Config(
        app, log_level="error", access_log=False, proxy_headers=False, server_header=False, date_header=False
    )
    base = f"http://{LOOPBACK}:{port}/enter/"
    links = []  # behind a proxy they would open nothing
    if proxy is None and desk is not None:
        links.append(Link("officer", base + guard.token("officer", "officer")))
    if proxy is None and shown is not None:
        links += [Link(one.name, base + guard.token("reader", one.name)) for one in shown.plan.readers]
    return Review(uvicorn.Server(config), tuple(links), guard, desk, listening)
