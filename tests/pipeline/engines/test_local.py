import os
import signal

import pytest

from updp.pipeline.engines import Crashed
from updp.pipeline.engines.local import alone, run


def double(n):
    return 2 * n


def die_on_three(n):
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def die_once(task):
    path, n = task
    if n == 3 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def test_every_task_is_done_once_with_any_number_of_workers():
    for workers in (1, 2):
        assert dict(run(double, range(20), workers)) == {n: 2 * n for n in range(20)}


def test_tasks_are_drawn_as_they_are_needed_not_all_at_once():
    drawn = []

    def tasks():
        for n in range(100):
            drawn.append(n)
            yield n

    results = run(double, tasks(), 2)
    next(results)
    assert len(drawn) < 10
    results.close()


@pytest.mark.posix
def test_a_task_that_kills_its_worker_is_given_up_and_the_others_are_done():
    results = dict(run(die_on_three, range(8), 2))
    assert isinstance(results.pop(3), Crashed)
    assert results == {n: n for n in range(8) if n != 3}


@pytest.mark.posix
def test_a_worker_that_was_killed_by_chance_loses_nothing(tmp_path):
    tasks = [(tmp_path / "died", n) for n in range(8)]
    assert {task[1]: result for task, result in run(die_once, tasks, 2)} == {n: n for n in range(8)}


@pytest.mark.posix
def test_a_task_alone_reports_the_death_of_its_process():
    assert alone(double, 4) == 8
    assert isinstance(alone(die_on_three, 3), Crashed)
