"""Probes in workers of an engine: the same figures, in the same order, wherever they run."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tests.evaluation.probes.attacks import hospital
from updp.core.cache import FolderCache
from updp.core.measurement import Measurement
from updp.evaluation import apart as module
from updp.evaluation.apart import Apart
from updp.evaluation.evaluate import run_probes
from updp.evaluation.probes.base import Probe
from updp.pipeline.engines import Crashed, EngineError, UnknownEngine


class Drawn(Probe):
    """A number that the exhibit and the probe's own random stream decide."""

    name, question = "drawn", "record"

    def measure(self, inquiry):
        shown = inquiry.exhibit
        words = sum(len(text) for text in (*shown.real_texts, *shown.released_texts))
        value = float(shown.real.astype(float).mean() + words + np.random.default_rng(inquiry.seed).random())
        return [Measurement(self.name, value, n=len(shown))]


class Other(Drawn):
    name = "other"


class Lost(Drawn):
    name = "lost"


TODO = [Drawn(), Other(), Lost()]


def shown():
    """Reports with what numpy would drop, and one that is empty."""
    made = hospital.exhibit(patients=6)
    texts = ["No effusion.\0", "", *made.real_texts[2:]]
    return made.but(real_texts=texts, released_texts=["  x "] * len(made))


def other_process(work, tasks, _workers):
    """What an engine does, without its processes: copies travel, and results come in another order."""
    for task in reversed(tasks):
        result = pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(task)))
        yield task, Crashed() if task.name == "lost" else result


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setattr(module, "engine_of", lambda _name, _options: other_process)


def test_figures_and_their_order_are_those_of_one_process_and_a_worker_that_dies_costs_its_own(engine, tmp_path):
    told = []
    here = run_probes(shown(), None, hospital.SMALL, 3, probes=TODO)
    there = run_probes(shown(), None, hospital.SMALL, 3, probes=TODO, cache=FolderCache(tmp_path), apart=Apart(),
                       progress=lambda name, done, total: told.append((name, done, total)))  # fmt: skip
    assert there[:2] == here[:2]
    assert (there[2].measured, there[2].reason, there[2].detail["probe"]) == (False, "its worker died", "lost")
    assert told == [("lost", 0, 3), ("other", 1, 3), ("drawn", 2, 3), ("", 3, 3)]


@pytest.mark.posix
def test_the_films_lie_in_the_cache_for_their_owner_alone_and_go_when_the_probes_end(engine, tmp_path, monkeypatch):
    modes = []

    class Looking(Drawn):
        def measure(self, inquiry):
            modes.extend(path.stat().st_mode & 0o777 for path in tmp_path.iterdir())
            return super().measure(inquiry)

    monkeypatch.setattr(module, "engine_of", lambda *_: lambda work, tasks, _workers: ((t, work(t)) for t in tasks))
    run_probes(shown(), None, hospital.SMALL, 0, probes=[Looking()], cache=FolderCache(tmp_path), apart=Apart())
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_rounds_otherwise_or_lacks_the_folder_ends_the_run(engine, tmp_path, monkeypatch):
    def measure():
        run_probes(shown(), None, hospital.SMALL, 0, probes=TODO[:1], cache=FolderCache(tmp_path / "a"), apart=Apart())

    with monkeypatch.context() as patch:
        patch.setattr(module, "_opened", lambda *_: None)
        with pytest.raises(EngineError, match="every node has"):
            measure()
    kinds = iter([{"numpy": "AVX512"}, {"numpy": "AVX2"}])
    monkeypatch.setattr(module, "instruction_set", lambda **_: next(kinds))
    with pytest.raises(EngineError, match="nodes of one kind"):
        measure()


def test_an_option_of_another_engine_is_refused(tmp_path):
    with pytest.raises(UnknownEngine, match="'address'"):
        run_probes(shown(), None, hospital.SMALL, 0, probes=TODO, cache=FolderCache(tmp_path),
                   apart=Apart("local", {"address": "auto"}))  # fmt: skip
