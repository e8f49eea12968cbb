"""Engines run shards; they know nothing of studies.

An engine is one function, ``run(work, tasks, workers) -> iterator of (task, result)``: it calls ``work(task)`` for each
task, in any order, holding only a few tasks at a time, and yields ``Crashed`` in place of the result of a task whose
process died twice. Where its workers run is a matter of its own keyword arguments (``engine_of``). Everything else
(membership, resume, writing) is the flow's, so a new engine is one more file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from updp.core.registry import Registry, unknown


class UnknownEngine(ValueError):
    """No engine of that name."""


class EngineError(RuntimeError):
    """The engine cannot run; the message says what to do."""


class Crashed:
    """What comes back for a task that took its process down with it."""


def other_kernels(own: Mapping[str, str], wanted: Mapping[str, str]) -> EngineError:
    """A worker computes with another instruction set than the run."""
    said = [", ".join(f"{name} {value}" for name, value in kernels.items()) for kernels in (own, wanted)]
    return EngineError(
        f"a worker computes with {said[0]} and the run with {said[1]}, so their last bits would differ; "
        "use nodes of one kind, or let all compute alike with --pin avx2"
    )


class Run(Protocol):
    def __call__(
        self, work: Callable[[Any], Any], tasks: Iterable[Any], workers: int | None
    ) -> Iterator[tuple[Any, Any]]:
        """``workers`` of None: as many as there is room for."""


#: The engines; other packages add theirs in the group ``updp.engines``.
ENGINES: Registry[Run] = Registry(
    "engine",
    "updp.engines",
    {"local": "updp.pipeline.engines.local:run", "ray": "updp.pipeline.engines.ray:run"},
    UnknownEngine,
)


def engine_of(name: str, options: Mapping[str, Any]) -> Run:
    """The engine of this name with its options; one that it does not have is an error."""
    run = ENGINES[name]
    known = {one.name for one in inspect.signature(run).parameters.values() if one.kind is one.KEYWORD_ONLY}
    if wrong := sorted(options.keys() - known):
        raise UnknownEngine(f"engine {name!r}: {unknown('option', wrong[0], sorted(known))}")
    return partial(run, **options) if options else run
