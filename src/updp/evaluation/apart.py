"""Probes in the workers of an engine: on the cores of this computer, or on a cluster.

A probe has a random stream of its own, so where it runs and what runs beside it change no figure. The exhibit lies in
the cache folder while the probes run; workers read it there, and share what networks and attackers leave in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.core.cache import FolderCache, Layered, MemoryCache
from updp.core.global_state import instruction_set
from updp.pipeline.engines import Crashed, EngineError, engine_of, other_kernels

if TYPE_CHECKING:
    from updp.core.measurement import Measurement
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.evaluation.probes.base import MethodUse, Probe
    from updp.models.pack import Pack

_TEXTS = ("real_texts", "released_texts")
#: ``run(probe, exhibit, pack, budget, seed, cache, method)``
Run = Callable[..., "list[Measurement]"]


@dataclass(frozen=True)
class Apart:
    """An engine that probes run on."""

    engine: str = "local"
    options: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None


@dataclass(frozen=True)
class _Work:
    """What a worker does with a probe."""

    run: Run
    folder: str
    key: str
    pack: str | None
    budget: Any
    seed: int
    method: MethodUse | None
    kernels: Mapping[str, str]

    def __call__(self, probe: Probe) -> list[Measurement] | EngineError:
        if (own := instruction_set()) != self.kernels:
            return other_kernels(own, self.kernels)
        opened = _opened(self.folder, self.key, self.pack)
        if opened is None:
            return EngineError("a worker does not find the cache; choose a folder that every node has at the same path")
        exhibit, pack, shared = opened
        return self.run(probe, exhibit, pack, self.budget, self.seed, shared, self.method)


def run_apart(
    run: Run,
    todo: Sequence[Probe],
    exhibit: Exhibit,
    pack: Pack | None,
    budget: Any,
    seed: int,
    cache: FolderCache,
    method: MethodUse | None,
    apart: Apart,
) -> Iterator[tuple[int, list[Measurement] | None]]:
    """The place of each probe and what it measured, as they end; None for one whose worker died twice."""
    engine = engine_of(apart.engine, apart.options)
    key = f"exhibit-{uuid.uuid4().hex}"
    cache.put(key, _columns(exhibit))
    kernels = instruction_set(pin=apart.options.get("pin"))
    work = _Work(run, str(cache.path), key, None if pack is None else str(pack.path), budget, seed, method, kernels)
    try:
        for probe, found in engine(work, todo, apart.workers):
            if isinstance(found, EngineError):
                raise found
            at = next(n for n, one in enumerate(todo) if one is probe)
            yield at, None if isinstance(found, Crashed) else found
    finally:
        (cache.path / f"{key}.npz").unlink(missing_ok=True)


def _columns(exhibit: Exhibit) -> dict[str, Any]:
    """An exhibit as arrays. A text gets a full stop: numpy drops what is null at the end of one."""
    held = {one.name: getattr(exhibit, one.name) for one in fields(exhibit)}
    texts = {name: np.array([f"{text}." for text in held[name]]) for name in _TEXTS}
    return {**held, **texts, "classes": np.array(exhibit.classes)}


@lru_cache(1)
def _opened(folder: str, key: str, pack: str | None) -> tuple[Exhibit, Pack | None, Layered] | None:
    """The exhibit and the pack, once a worker."""
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models import load_pack

    lasting = FolderCache(folder)
    held: dict[str, Any] | None = lasting.get(key)
    if held is None:
        return None
    held["classes"] = tuple(held["classes"].tolist())
    for name in _TEXTS:
        held[name] = [text[:-1] for text in held[name].tolist()]
    models = None if pack is None else load_pack(pack, verify=False)
    return Exhibit(**held), models, Layered(MemoryCache(), lasting)
