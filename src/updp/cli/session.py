"""One call of `updp`: what it prints, its result as JSON (``--json``) and its log (``--log``).

Commands print through ``say`` and ``make_console`` and give their result to ``add_result``. With ``--json`` the text
goes to standard error and the result, one JSON object, to standard output. A log is JSON lines; it holds fixed words,
counts and reason codes, and no argument of the command line.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import unicodedata
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("updp.cli")


@dataclass
class Session:
    """The result of one call so far."""

    command: str = ""
    as_json: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


_CURRENT: ContextVar[Session] = ContextVar("session")
#: Options of every command, and whether a value follows.
EVERYWHERE = {"--json": False, "--debug": False, "--log": True}


def begin(session: Session) -> None:
    """Make this the call that ``say`` and ``add_result`` belong to."""
    _CURRENT.set(session)


def current() -> Session:
    return _CURRENT.get(Session())


def add_result(**facts: Any) -> None:
    """Add to the result that ``--json`` prints."""
    current().facts.update(facts)


def printable(text: str) -> str:
    """``text`` without what gives orders to a terminal: it may hold the name of a column that somebody else chose."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf") else "\ufffd" for c in text)


def say(text: str = "", *, nl: bool = True) -> None:
    """Print for the user; to standard error with ``--json``."""
    typer.echo(printable(text), nl=nl, err=current().as_json)


def make_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, stderr=current().as_json)


def common_options_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with the options of every command in front, where the parser expects them."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        name, sign, _ = word.partition("=")
        if word == "--":
            rest += [word, *words]
        elif name not in EVERYWHERE:
            rest.append(word)
        else:
            front.append(word)
            if EVERYWHERE[name] and not sign and (value := next(words, None)) is not None:
                front.append(value)
    return front + rest


def finish(session: Session, code: int, error: str | None = None) -> None:
    """Print the result with ``--json``, and write it to the log."""
    outcome = {"command": session.command, "exit": code, **({"error": error} if error else {}), **session.facts}
    log.info("end", extra={"facts": outcome})
    if session.as_json:
        print(json.dumps(outcome, default=_plain, allow_nan=False), flush=True)


def _plain(value: Any) -> Any:
    return value.to_json() if hasattr(value, "to_json") else str(value)


class _Lines(logging.Formatter):
    """A log record as one JSON line."""

    def format(self, record: logging.LogRecord) -> str:
        time = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        facts = getattr(record, "facts", {})
        return json.dumps({"time": time, "event": record.getMessage(), **facts}, default=_plain)


def open_log(path: Path) -> None:
    """Append what happens from now on to this file; "-" is standard error, for services."""
    handler: logging.Handler
    if str(path) == "-":
        handler = logging.StreamHandler(sys.stderr)
    else:
        handler = logging.FileHandler(path, encoding="utf-8")
        path.chmod(0o600)
    handler.setFormatter(_Lines())
    logger = logging.getLogger("updp")
    logger.addHandler(handler)
    logger.setLevel(min(logging.INFO, logger.level or logging.INFO))
