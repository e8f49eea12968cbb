"""The Ray engine: actors on the nodes of a cluster (extra ``ray``).

A worker is an actor, so stations and models are loaded once in it. The driver hands each a task or two ahead of need
and gets back what landed, never a film: workers read source and write output themselves, at the same paths on every
node. A worker or node that dies loses nothing: its tasks are tried again, each as the only one of a worker, and only
one whose worker dies again is given up.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from updp.core.global_state import PINS
from updp.core.threads import PASSIVE
from updp.core.version import __version__
from updp.pipeline.engines import Crashed, EngineError

#: Tasks that a worker holds: one at work, one waiting.
_AHEAD = 2
#: Seconds after which a cluster in which no worker finds room is given up, and how often a worker may fail to start.
_ROOM, _STARTS = 300.0, 3
#: Seconds between two looks whether the cluster is there, and after which one that is not is given up. Ray ends the
#: whole process, without a word to us, when the cluster's head did not answer for 60 seconds.
_LOOK, _GONE = 5.0, 30.0


def run(
    work: Callable[[Any], Any],
    tasks: Iterable[Any],
    workers: int | None = None,
    *,
    address: str = "auto",
    gpus: float = 0.0,
    pin: str | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Call ``work`` on every task in actors of the cluster at ``address``.

    ``gpus`` is the part of a GPU that a worker takes; ``pin`` an instruction set that all workers compute with.
    """
    with _Cluster(address, gpus, pin) as cluster:
        yield from _run(cluster, work, tasks, workers or cluster.places())


class _Cluster:
    """A connection with a Ray cluster. One that the caller had opened stays open."""

    head: str | None = None  # where the cluster's head listens, if it can be asked from here
    looked = 0.0  # when it was asked last
    missed: float | None = None  # when it did not answer first; None where it did

    def __init__(self, address: str, gpus: float, pin: str | None) -> None:
        try:
            import ray
        except ImportError:
            raise EngineError("the engine ray needs Ray: pip install 'updp[ray]'") from None
        self.ray, self.address, self.gpus, self.pin = ray, address, gpus, pin

    def __enter__(self) -> _Cluster:
        self.opened = not self.ray.is_initialized()
        if self.opened:
            try:
                _knock(self.address)
                # Lines that workers print stay on their nodes.
                self.ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
            except (RuntimeError, ValueError, OverflowError, OSError):
                raise EngineError(
                    f"no Ray cluster answers at {self.address!r}; start one with `ray start --head`, or check --address"
                ) from None
        if not self.address.startswith("ray://"):
            self.head = self.ray.get_runtime_context().gcs_address
        return self

    def __exit__(self, *_: object) -> None:
        if self.opened:
            self.ray.shutdown()

    def ready(self, references: list[Any], seconds: float | None) -> Any:
        """The first of these results that is there; None if none is after so many seconds."""
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            self._look()
            left = _LOOK if end is None else min(_LOOK, max(0.0, end - time.monotonic()))
            try:
                found, _ = self.ray.wait(references, num_returns=1, timeout=left)
            except (self.ray.exceptions.RayError, ConnectionError):
                raise EngineError(_LOST) from None
            if found:
                return found[0]
        return None

    def _look(self) -> None:
        """Raise EngineError if the head of the cluster has not answered for a time."""
        now = time.monotonic()
        if self.head is None or now - self.looked < _LOOK:
            return
        try:
            _knock(self.head, _LOOK)
            self.missed = None
        except OSError:
            self.missed = self.missed or now
            if now - self.missed >= _GONE:
                raise EngineError(_LOST) from None
        self.looked = time.monotonic()

    def wait_for_head(self) -> None:
        """Return as soon as the head of the cluster answers; one that does not for a time is an error."""
        self.looked = 0.0
        self._look()
        while self.missed is not None:
            time.sleep(_LOOK)
            self._look()

    def end(self, actor: Any) -> None:
        """End a worker, unless the cluster is gone with it."""
        if self.missed is None:
            self.ray.kill(actor)

    def places(self) -> int:
        """Workers that fit into the cluster as it is now."""
        free = self.ray.cluster_resources()
        if self.gpus and not free.get("GPU"):
            raise EngineError("the cluster has no GPU; leave --gpus out")
        fits = free["GPU"] / self.gpus if self.gpus else free.get("CPU", 1)
        return max(1, int(min(fits, free.get("CPU", fits))))

    def worker(self, work: Callable[[Any], Any]) -> Any:
        """An actor that calls ``work``; Ray starts it on whichever node has room."""
        self.wait_for_head()  # Ray would wait for it without an end
        settings: Mapping[str, str] = {**PASSIVE, **(PINS[self.pin] if self.pin else {})}

        class Worker:
            def version(self) -> str:
                from updp.core.version import __version__

                return __version__

            def call(self, task: Any) -> Any:
                return work(task)

        made = self.ray.remote(Worker).options(
            num_cpus=1, num_gpus=self.gpus, max_restarts=0, max_task_retries=0, runtime_env={"env_vars": dict(settings)}
        )
        return made.remote()

    def result(self, reference: Any) -> Any:
        """What a task gave; ``Crashed()`` if its worker died, or its node before a large result was fetched."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(reference)
        except (errors.RayActorError, errors.WorkerCrashedError, errors.ObjectLostError):
            return Crashed()
        except errors.RayTaskError as error:
            raise error.cause from None  # without the text of the trace, which quotes lines of the worker


_LOST = "the cluster does not answer any more; the same command resumes, also with --engine local"


def _knock(address: str, seconds: float = 30.0) -> None:
    """Raise OSError if nothing listens at an address HOST:PORT: Ray would try it for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()


@dataclass(eq=False, slots=True)
class _Hand:
    """A worker, and what it holds."""

    actor: Any
    tasks: dict[Any, Any] = field(default_factory=dict)  # reference -> task
    again: bool = False  # it holds one task that took a worker down before, and nothing else


def _run(
    cluster: _Cluster, work: Callable[[Any], Any], tasks: Iterable[Any], workers: int
) -> Iterator[tuple[Any, Any]]:
    source, drawn = iter(tasks), False
    starting: dict[Any, Any] = {}  # reference to its version -> actor; a worker gets tasks once a node has room for it
    crew: list[_Hand] = []
    again: deque[Any] = deque()  # tasks of workers that died
    failures = 0

    def start() -> None:
        actor = cluster.worker(work)
        starting[actor.version.remote()] = actor

    try:
        for _ in range(workers):
            start()
        while True:
            for hand in crew:
                if again and not hand.tasks:
                    task, hand.again = again.popleft(), True
                    hand.tasks[hand.actor.call.remote(task)] = task
                while not again and not drawn and not hand.again and len(hand.tasks) < _AHEAD:
                    try:
                        task = next(source)
                    except StopIteration:
                        drawn = True
                        break
                    hand.tasks[hand.actor.call.remote(task)] = task
            running = {reference: hand for hand in crew for reference in hand.tasks}
            if drawn and not running and not again:
                return
            ready = cluster.ready([*running, *starting], None if running else _ROOM)
            if ready is None:
                raise EngineError("no node of the cluster has room for a worker; run the same command again later")
            if ready in starting:
                actor = starting.pop(ready)
                version = cluster.result(ready)
                if version == __version__:
                    crew.append(_Hand(actor))
                elif isinstance(version, Crashed) and failures < _STARTS * workers:
                    failures += 1
                    start()
                else:
                    raise EngineError(f"a worker cannot start; install updp {__version__} on every node")
                continue
            hand = running[ready]
            result = cluster.result(ready)
            if isinstance(result, Crashed):
                crew.remove(hand)
                start()
                if not hand.again:
                    again += hand.tasks.values()
                    continue
            task = hand.tasks.pop(ready)
            hand.again = False
            yield task, result
    finally:
        for actor in (*starting.values(), *(hand.actor for hand in crew)):
            cluster.end(actor)
