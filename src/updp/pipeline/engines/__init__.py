"""Engines run shards; they know nothing of studies.

An engine is one function, ``run(work, tasks, workers) -> iterator of (task, result)``: it calls ``work(task)`` for each
task, in any order, holding only a few tasks at a time, and yields ``Crashed`` in place of the result of a task whose
process died twice. Everything else (membership, resume, writing) is the flow's, so a new engine is one more file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from updp.core.registry import Registry


class UnknownEngine(ValueError):
    """No engine of that name."""


class Crashed:
    """What comes back for a task that took its process down with it."""


class Run(Protocol):
    def __call__(self, work: Callable[[Any], Any], tasks: Iterable[Any], workers: int) -> Iterator[tuple[Any, Any]]: ...


#: The engines; other packages add theirs in the group ``updp.engines``.
ENGINES: Registry[Run] = Registry("engine", "updp.engines", {"local": "updp.pipeline.engines.local:run"}, UnknownEngine)
