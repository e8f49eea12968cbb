"""Work in a process of its own: what it reads and imports goes back to the system when it ends.

A server runs for days. Building an index and checking a release take memory for a moment, some of it with the number of
films, and much of it an interpreter never gives back.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import ParamSpec, TypeVar

from updp.core.storage import OutputError

P = ParamSpec("P")
R = TypeVar("R")


def aside(function: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
    """What a function returns, or raises, in another process; that one ends with this one at the latest."""
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(sending, function, given, named), daemon=True)
    child.start()
    sending.close()
    try:
        made, error = receiving.recv()
    except EOFError:
        raise OutputError("a process beside the server died; is memory short?") from None
    finally:
        receiving.close()
        child.join()
    if error is not None:
        raise error
    result: R = made
    return result


def _answer(sending: Connection, function: Callable[..., object], given: tuple[object, ...], named: dict[str, object]
            ) -> None:  # fmt: skip
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes; the server answers it
    try:
        answer: tuple[object, Exception | None] = (function(*given, **named), None)
    except Exception as error:  # whatever it is, the server explains it
        answer = None, error
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        sending.send(answer)
