"""What the Ray engine's driver does, on a cluster that is a few lists: no process, no Ray."""

from __future__ import annotations

import socket
import sys
import time
from types import SimpleNamespace

import pytest

from tests.network.dcmtk import free_port
from updp.core.version import __version__
from updp.pipeline.engines import Crashed, EngineError, UnknownEngine, engine_of
from updp.pipeline.engines import ray as engine
from updp.pipeline.engines.ray import _Cluster, _run, run


def double(n):
    return 2 * n


class Reference:
    """A result to come: of an actor, and of a task or its version."""

    def __init__(self, actor, task=None):
        self.actor, self.task = actor, task


class Remote:
    def __init__(self, make):
        self.remote = make


class Actor:
    def __init__(self, cluster):
        self.alive = True
        self.version = Remote(lambda: Reference(self))
        self.call = Remote(lambda task: cluster.taken(Reference(self, task)))


class Lists:
    """A cluster without processes: ``deadly`` tasks kill a worker so many times; ``room`` workers start at all."""

    def __init__(self, deadly=None, room=99, version=__version__):
        self.deadly, self.room, self.told = dict(deadly or {}), room, version
        self.actors, self.held, self.killed, self.most = [], [], [], 0

    def worker(self, _work):
        self.actors.append(Actor(self))
        return self.actors[-1]

    def taken(self, reference):
        self.held.append(reference)
        self.most = max(self.most, sum(one.actor is reference.actor for one in self.held))
        return reference

    def ready(self, references, seconds):
        started = [a for a in self.actors if a.alive][: self.room]
        return next((one for one in references if not one.actor.alive or one.actor in started), None)

    def result(self, reference):
        if reference.task is None:
            return self.told
        self.held.remove(reference)
        if reference.actor.alive and self.deadly.get(reference.task, 0):
            self.deadly[reference.task] -= 1
            reference.actor.alive = False
        return 2 * reference.task if reference.actor.alive else Crashed()

    def end(self, actor):
        self.killed.append(actor)


def done_on(cluster, tasks, workers=2):
    return {task: "crashed" if isinstance(got, Crashed) else got for task, got in _run(cluster, double, tasks, workers)}


def test_the_driver_hands_out_two_tasks_per_worker_and_ends_every_worker():
    cluster = Lists()
    assert done_on(cluster, range(20)) == {n: 2 * n for n in range(20)}
    assert cluster.most == 2
    assert set(cluster.killed) == set(cluster.actors)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_only_a_task_whose_worker_dies_twice_is_given_up(times):
    found = done_on(Lists(deadly={3: times}), range(8))
    assert found == {n: 2 * n for n in range(8)} | ({3: "crashed"} if times > 1 else {})


def test_several_tasks_that_kill_are_told_from_those_beside_them():
    assert done_on(Lists(deadly={0: 9, 1: 9, 6: 9}), range(8), workers=1) == {
        n: "crashed" if n in (0, 1, 6) else 2 * n for n in range(8)
    }


def test_a_cluster_with_less_room_than_workers_does_all_and_one_without_says_so():
    assert done_on(Lists(room=1), range(6), workers=5) == {n: 2 * n for n in range(6)}
    with pytest.raises(EngineError, match="no node of the cluster has room"):
        done_on(Lists(room=0), range(6))


def test_another_version_on_a_node_is_a_sentence():
    with pytest.raises(EngineError, match=f"install updp {__version__} on every node"):
        done_on(Lists(version="0.0.0"), range(2))


def test_workers_that_never_start_end_the_run():
    with pytest.raises(EngineError, match="cannot start"):
        done_on(Lists(version=Crashed()), range(2))


def test_options_of_another_engine_are_a_sentence():
    with pytest.raises(UnknownEngine, match="'local': no option 'address'"):
        engine_of("local", {"address": "auto"})
    assert engine_of("ray", {"address": "auto", "gpus": 0.5, "pin": "avx2"})


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"updp\[ray\]"):
        next(run(double, [1], 1))


def test_an_address_where_nothing_listens_is_a_sentence_before_ray_tries_it(monkeypatch):
    tried = []
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=tried.append))
    with pytest.raises(EngineError, match="no Ray cluster answers"):
        next(run(double, [1], 1, address=f"127.0.0.1:{free_port()}"))
    assert not tried


class Waiting(_Cluster):
    """A connection with a cluster whose head is at this port, and which has results after so many looks."""

    def __init__(self, port, after=10**9):
        self.head, self.after, self.killed = f"127.0.0.1:{port}", after, []
        self.ray = SimpleNamespace(
            wait=self.wait, kill=self.killed.append, exceptions=SimpleNamespace(RayError=ZeroDivisionError)
        )

    def wait(self, references, num_returns, timeout):
        time.sleep(0.002)  # longer than between two looks
        self.after -= 1
        return (references[:1], []) if self.after < 0 else ([], references)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(engine, "_LOOK", 0.001)
    monkeypatch.setattr(engine, "_GONE", 0.02)


def test_a_head_that_does_not_answer_any_more_ends_the_run_with_a_sentence(impatient):
    cluster = Waiting(free_port())
    with pytest.raises(EngineError, match="the same command resumes, also with --engine local"):
        cluster.ready(["a"], None)
    cluster.end("worker")
    assert cluster.killed == []  # nobody is there to be told
    with pytest.raises(EngineError, match="does not answer any more"):
        cluster.worker(double)  # Ray would wait without an end


def test_a_head_that_was_away_for_a_moment_ends_nothing(impatient, monkeypatch):
    monkeypatch.setattr(engine, "_GONE", 600.0)
    port = free_port()
    cluster = Waiting(port, after=3)
    assert cluster.ready(["a"], None) == "a"
    assert cluster.missed is not None
    with socket.create_server(("127.0.0.1", port)):
        cluster.after = 3
        assert cluster.ready(["a"], None) == "a"
    assert cluster.missed is None
    cluster.end("worker")
    assert cluster.killed == ["worker"]


def test_waiting_ends_after_the_seconds_that_were_given(impatient):
    with socket.create_server(("127.0.0.1", 0)) as head:
        assert Waiting(head.getsockname()[1]).ready(["a"], 0.01) is None


def test_a_connection_that_ray_gives_up_is_the_same_sentence(impatient):
    with socket.create_server(("127.0.0.1", 0)) as head:
        cluster = Waiting(head.getsockname()[1])
        cluster.wait = cluster.ray.wait = lambda *_, **__: 1 / 0
        with pytest.raises(EngineError, match="does not answer any more"):
            cluster.ready(["a"], None)
