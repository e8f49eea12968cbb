"""Studies that arrive become dated releases, each once, whatever is killed when."""

from __future__ import annotations

import datetime as dt
import json
import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from tests.conftest import CANARIES, PLAIN, reasons, same_tree, sweep
from tests.network.dcmtk import film
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.storage import OutputError
from updp.pipeline import watch as module
from updp.pipeline.run import RunError
from updp.pipeline.watch import Watch
from updp.sources.files import BadSource

KEY = Key(bytes(range(32)))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def arrive(folder: Path, *numbers: int) -> None:
    """Films as `updp receive` lands them."""
    for n in numbers:
        place = folder / f"1.2.826.0.1.3680043.9.2.{n // 2}" / f"1.2.826.0.1.3680043.9.1.{n}.dcm"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(film(n, side=80, ViewPosition="PA"))


def made(tmp_path: Path, clock: Clock | None = None, **settings: object) -> Watch:
    (tmp_path / "in").mkdir(exist_ok=True)
    return Watch(
        tmp_path / "in", tmp_path / "out", quiet=60, policy=Policy.parse(PLAIN), key=KEY, clock=clock or Clock(),
        settings={"workers": 1}, today=lambda: dt.date(2026, 3, 4), **settings,
    )  # type: ignore[arg-type] # fmt: skip


def batches(tmp_path: Path) -> dict[str, int]:
    """Batch -> films in its release."""
    found = {}
    for folder in sorted((tmp_path / "out").iterdir()):
        evidence = folder / "unmeasured" / "evidence" / "evaluation.json"
        if evidence.is_file():
            found[folder.name] = json.loads(evidence.read_text())["counts"]["released"]
    return found


def test_a_study_is_released_once_it_is_quiet_and_never_again(tmp_path):
    clock = Clock()
    with made(tmp_path, clock).owned() as watch:
        arrive(tmp_path / "in", 0)
        assert watch.look() == []
        clock.now += 59
        arrive(tmp_path / "in", 1)  # the study goes on: its time begins anew
        assert watch.look() == []
        clock.now += 59
        assert watch.look() == []
        assert not watch.idle
        clock.now += 1
        assert [outcome.released for outcome in watch.look()] == [2]
        assert watch.idle
        clock.now += 1000
        assert watch.look() == []
    assert batches(tmp_path) == {"2026-03-04": 2}


def test_what_comes_late_goes_alone_into_a_later_batch(tmp_path):
    clock = Clock()
    with made(tmp_path, clock).owned() as watch:
        for numbers in ((0, 2), (1, 4)):
            arrive(tmp_path / "in", *numbers)
            watch.look()
            clock.now += 60
            watch.look()
    assert batches(tmp_path) == {"2026-03-04": 2, "2026-03-04-02": 2}
    assert watch.metrics.value("updp_watch_films_total") == 4
    assert watch.metrics.value("updp_watch_batches_total", status="not-measured") == 2


def test_a_batch_waits_for_enough_studies(tmp_path):
    clock = Clock()
    with made(tmp_path, clock, at_least=2).owned() as watch:
        arrive(tmp_path / "in", 0)
        watch.look()
        clock.now += 60
        assert watch.look() == []
        assert watch.metrics.value("updp_watch_waiting_studies") == 1
        arrive(tmp_path / "in", 2)
        watch.look()
        clock.now += 60
        assert [outcome.released for outcome in watch.look()] == [2]


def test_a_file_that_is_half_written_is_kept_back_with_a_reason_and_one_under_way_is_not_seen(tmp_path):
    clock = Clock()
    arrive(tmp_path / "in", 0)
    study = tmp_path / "in" / "1.2.826.0.1.3680043.9.2.0"
    (study / "half.dcm").write_bytes(film(1, side=80)[:5000])
    (study / ".under-way.dcm.77").write_bytes(film(1, side=80)[:300])
    (tmp_path / "in" / ".incoming").mkdir()
    (tmp_path / "in" / ".incoming" / "part").write_bytes(b"x")
    with made(tmp_path, clock).owned() as watch:
        watch.look()
        clock.now += 60
        assert [outcome.released for outcome in watch.look()] == [1]
    assert list(reasons(tmp_path / "out" / "2026-03-04").values()) == [1]


def _killed_in_work(root: str, place: str) -> None:
    """A watch that is killed (SIGKILL) at a place: in the claim, or when its second shard lands."""
    clock = Clock()
    watch = made(Path(root), clock)
    if place == "claim":
        module.os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    else:
        from updp.pipeline import run

        land, calls = run.land, []

        def second(*arguments: object) -> object:
            calls.append(1)
            if len(calls) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return land(*arguments)  # type: ignore[arg-type]

        run.land = second  # type: ignore[assignment]
    with watch.owned():
        watch.look()
        clock.now += 60
        watch.look()


@pytest.mark.posix
@pytest.mark.parametrize("place", ["claim", "shard"])
def test_a_watch_that_is_killed_goes_on_and_makes_the_same_bytes(tmp_path, place):
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        arrive(tmp_path / name / "in", *range(6))
        for path in (tmp_path / name / "in").rglob("*.dcm"):
            os.utime(path, (1, 1))
    child = multiprocessing.get_context("spawn").Process(target=_killed_in_work, args=(str(tmp_path / "killed"), place))
    child.start()
    child.join(300)
    assert child.exitcode == -signal.SIGKILL
    assert batches(tmp_path / "killed") == {}
    for name in ("killed", "whole"):
        clock = Clock()
        with made(tmp_path / name, clock).owned() as watch:
            watch.look()
            clock.now += 60
            watch.look()
            assert watch.idle
    assert batches(tmp_path / "killed") == {"2026-03-04": 6}
    assert same_tree(*(tmp_path / name / "out" / "2026-03-04" / "unmeasured" for name in ("killed", "whole")))


def test_a_batch_that_fails_is_tried_again_later_and_does_not_stop_others(tmp_path, monkeypatch, caplog):
    clock, broken = Clock(), [True]
    real = module.deidentify

    def sometimes(source, out, **settings):
        if broken[0] and out.name == "2026-03-04":
            raise OutputError("no room left on the disk")
        return real(source, out, **settings)

    monkeypatch.setattr(module, "deidentify", sometimes)
    with made(tmp_path, clock).owned() as watch, caplog.at_level("INFO", logger="updp"):
        arrive(tmp_path / "in", 0)
        watch.look()
        clock.now += 60
        assert watch.look() == []
        assert watch.failing
        arrive(tmp_path / "in", 2)
        clock.now += 1
        watch.look()
        clock.now += 60
        assert [outcome.folder.parent.name for outcome in watch.look()] == ["2026-03-04-02"]
        broken[0] = False
        clock.now += 7200
        assert [outcome.folder.parent.name for outcome in watch.look()] == ["2026-03-04"]
        assert not watch.failing
    failures = [record.facts for record in caplog.records if record.getMessage() == "failed"]
    assert failures[0] == {"batch": "2026-03-04", "error": "no room left on the disk"}


def test_errors_that_may_quote_the_data_are_noted_by_place_only(tmp_path, monkeypatch, caplog):
    def loud(*_args, **_settings):
        raise ValueError(CANARIES[0])

    monkeypatch.setattr(module, "deidentify", loud)
    clock = Clock()
    with made(tmp_path, clock).owned() as watch, caplog.at_level("INFO", logger="updp"):
        arrive(tmp_path / "in", 0)
        watch.look()
        clock.now += 60
        watch.look()
    said = " ".join(f"{record.getMessage()} {getattr(record, 'facts', '')}" for record in caplog.records)
    assert "ValueError at test_watch.py" in said
    assert CANARIES[0] not in said


def test_nothing_of_a_patient_reaches_a_release_a_name_or_a_metric(tmp_path, caplog):
    clock = Clock()
    with made(tmp_path, clock).owned() as watch, caplog.at_level("INFO", logger="updp"):
        arrive(tmp_path / "in", 0, 1)
        watch.look()
        clock.now += 60
        watch.look()
    assert sweep(tmp_path / "out" / "2026-03-04", (*CANARIES, "1.2.826.0.1.3680043.9.")) == []
    said = " ".join(f"{record.getMessage()} {getattr(record, 'facts', '')}" for record in caplog.records)
    for word in (*CANARIES, "3680043.9"):
        assert word not in said + watch.metrics.text()


def test_a_file_that_changed_after_its_release_is_counted(tmp_path):
    clock = Clock()
    arrive(tmp_path / "in", 0)
    with made(tmp_path, clock).owned() as watch:
        watch.look()
        clock.now += 60
        watch.look()
        path = next((tmp_path / "in").rglob("*.dcm"))
        path.unlink()
        path.write_bytes(film(0, side=90))
        clock.now += 600
        assert watch.look() == []
        assert watch.metrics.value("updp_watch_changed_files") == 1


def test_two_watches_and_wrong_places_are_refused(tmp_path):
    with made(tmp_path).owned(), pytest.raises(RunError, match="another watch"), made(tmp_path).owned():
        pass
    with pytest.raises(RunError, match="inside"), Watch(tmp_path / "in", tmp_path / "in" / "out", 1).owned():
        pass
    with pytest.raises(BadSource, match="not there"), Watch(tmp_path / "nowhere", tmp_path / "o", 1).owned():
        pass
