"""The command line: parse, call, print. Nothing here decides anything.

Exit codes: 0 done, 2 wrong use or unreadable source, 3 blocked by the gate, 4 (``--strict``) something was quarantined.
Heavy modules are imported inside the commands, so that ``updp --help`` answers at once.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import NoReturn

import typer

from updp.cli.app import WRONG_USE, app
from updp.core.threads import wait_passively

# The modules with the commands, in the order in which the help lists them.
for _module in ("release", "evaluation", "reports", "demonstration", "listings", "training", "bench", "secrets"):
    import_module(f"updp.cli.{_module}")


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise SystemExit(WRONG_USE)


def main() -> None:
    """Entry point: errors of ours are a sentence and exit code 2; all others a type and a place, never a value."""
    wait_passively()
    try:
        app()
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)
    except Exception as error:
        if type(error).__module__.startswith("updp.") and isinstance(error, ValueError | OSError | RuntimeError):
            _fail(str(error))
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            _fail(os.strerror(error.errno or 0))
        from updp.pipeline.stations import whereabouts

        _fail(f"unexpected {whereabouts(error)}; nothing was released")
