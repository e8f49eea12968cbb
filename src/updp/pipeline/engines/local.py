"""The local engine: worker processes on this machine.

A worker that dies (a decoder that segfaults, the kernel out of memory) must not end a night's run: the tasks it may
have been holding are tried again, each alone in a fresh process, and only one that dies again is given up.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from updp.pipeline.engines import Crashed

#: Tasks handed out ahead of need, a worker: enough to keep it busy, few enough that memory stays flat.
_AHEAD = 2


def _pool(workers: int) -> ProcessPoolExecutor:
    # spawn: a forked copy of a process that holds threads (OpenMP, a progress bar) may hang.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_interrupts)


def _leave_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal; the one that began the run answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run(work: Callable[[Any], Any], tasks: Iterable[Any], workers: int | None = None) -> Iterator[tuple[Any, Any]]:
    """Call ``work`` on every task. One worker means this process: nothing to start, easy to debug."""
    workers = workers if workers is not None else os.cpu_count() or 1
    if workers <= 1:
        for task in tasks:
            yield task, work(task)
        return
    source = iter(tasks)
    others = set(multiprocessing.active_children())
    pool = _pool(workers)
    running: dict[Future[Any], Any] = {}
    try:
        while True:
            while len(running) < workers * _AHEAD:
                try:
                    task = next(source)
                except StopIteration:
                    break
                running[pool.submit(work, task)] = task
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            held = []
            for future in done:
                task = running.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool:
                    held.append(task)
                    continue
                yield task, result
            if held:  # the pool is gone, and with it every task it held
                held += running.values()
                running.clear()
                pool.shutdown(wait=False, cancel_futures=True)
                for task in held:
                    yield task, alone(work, task)
                pool = _pool(workers)
    except KeyboardInterrupt:  # shards land whole, so a worker may be ended at any time
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def alone(work: Callable[[Any], Any], task: Any) -> Any:
    """``work(task)`` in a process of its own; ``Crashed()`` if that process dies."""
    with _pool(1) as pool:
        try:
            return pool.submit(work, task).result()
        except BrokenProcessPool:
            return Crashed()
