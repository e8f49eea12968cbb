"""The command line: parse, call, print. Nothing here decides anything.

Exit codes: 0 done, 2 wrong use or unreadable source, 3 blocked by the gate, 4 (``--strict``) something was quarantined,
130 stopped by the user.
Heavy modules are imported inside the commands, so that ``updp --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import typer

from updp.cli.app import STOPPED, WRONG_USE, app
from updp.cli.session import Session, begin, common_options_first, finish, printable
from updp.core.memory import keep_freed_memory
from updp.core.threads import wait_passively

# The modules with the commands, in the order in which the help lists them.
_MODULES = (
    "start", "release", "evaluation", "review", "network", "watch", "reports", "demonstration", "listings", "training",
    "bench", "secrets",
)  # fmt: skip
for _module in _MODULES:
    import_module(f"updp.cli.{_module}")


def main() -> None:
    """Entry point. An error of this package is printed and ends with 2; of others only type and place are printed."""
    wait_passively()
    keep_freed_memory()
    arguments = common_options_first(sys.argv[1:])
    command = typer.main.get_command(app)
    session = Session(command=_named(command, arguments), as_json="--json" in arguments)
    begin(session)
    code, error = 0, None
    try:
        command(arguments)
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else WRONG_USE if done.code else 0
        code = STOPPED if code == 1 else code  # how the parser ends on Ctrl-C
        error = "wrong use; standard error says how" if code == WRONG_USE and not session.facts else None
    except KeyboardInterrupt:
        code, error = STOPPED, "stopped"
    except BrokenPipeError:
        os._exit(STOPPED)
    except Exception as fault:
        code, error = WRONG_USE, _told(fault)
        typer.echo(printable(f"error: {error}"), err=True)
    finish(session, code, error)
    if code == STOPPED:
        sys.stdout.flush()
        os._exit(STOPPED)  # without waiting for the tasks of worker processes
    raise SystemExit(code)


def _named(command: Any, arguments: list[str]) -> str:
    """The command among the arguments, with its group."""
    found: list[str] = []
    inner = command
    for word in arguments:
        if word in (known := getattr(inner, "commands", {})):
            found.append(word)
            inner = known[word]
    return " ".join(found)


def _told(error: Exception) -> str:
    if type(error).__module__.startswith("updp.") and isinstance(error, ValueError | OSError | RuntimeError):
        return str(error)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    from updp.pipeline.stations import whereabouts

    return f"unexpected {whereabouts(error)}; nothing was released"
