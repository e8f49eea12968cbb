"""`updp` as a user calls it, without a process of its own: starting Python takes longer than most commands."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

import updp.cli
from updp.core.threads import PASSIVE


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def updp_in_process(*arguments: object, cwd: Path | None = None, **env: str) -> Done:
    """Call the program; what it changes in the process (loggers, environment) is as before afterwards."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    loggers = [(logger, logger.level, logger.handlers[:]) for logger in map(logging.getLogger, ("", "updp"))]
    loggers[0][0].handlers.clear()  # pytest's, in whose presence the program would set up none of its own
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["updp", *map(str, arguments)])
        for name, value in (PASSIVE | env).items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        try:
            updp.cli.main()
        except SystemExit as done:
            code = done.code
        finally:
            for logger, level, handlers in loggers:
                for handler in set(logger.handlers) - set(handlers):
                    handler.close()
                logger.handlers[:] = handlers
                logger.setLevel(level)
    return Done(code, out.getvalue(), err.getvalue())
