"""Answers: checked against the plan, kept whatever happens, taken back from files that nobody altered."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from updp.core.storage import OutputError
from updp.review.answers import Answer, Answers, BadAnswer, export, read_answer
from updp.review.plan import Plan, save_plan

AT = "2026-01-01T10:00:00+00:00"


def answer(plan: Plan, reader: str, item: int, **changes) -> Answer:
    film = plan.reader(reader).items[item].film
    given = {"item": item, "film": film, "findings": (2,) * len(plan.findings), "quality": 4, "origin": "real"}
    return Answer(**(given | {"at": AT, "milliseconds": 900} | changes))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"item": 10_000}, "another film"),
        ({"item": -1}, "another film"),
        ({"film": "xnone"}, "another film"),
        ({"findings": [1]}, "every finding"),
        ({"findings": [0, 9]}, "every finding"),
        ({"findings": [1.5, 2]}, "not an answer"),
        ({"quality": 6}, "quality"),
        ({"quality": True}, "not an answer"),
        ({"origin": "original"}, "real or generated"),
        ({"at": "yesterday"}, "not an answer"),
        ({"at": "2026-01-01T10:00:00"}, "not an answer"),
        ({"milliseconds": -1}, "not an answer"),
    ],
)
def test_what_the_plan_does_not_ask_is_refused(plan, change, why):
    with pytest.raises(BadAnswer, match=why):
        read_answer(answer(plan, "reader 1", 0).to_json() | change, plan, "reader 1")
    with pytest.raises(BadAnswer, match="not an answer"):
        read_answer({"item": 0}, plan, "reader 1")


@pytest.mark.posix
def test_the_last_answer_counts_and_readers_are_apart(study, plan):
    base = Answers(study, plan)
    base.add("reader 1", [answer(plan, "reader 1", 0), answer(plan, "reader 1", 1)])
    base.add("reader 1", [answer(plan, "reader 1", 0, quality=1)])
    assert {n: a.quality for n, a in base.of("reader 1").items()} == {0: 1, 1: 4}
    assert base.of("reader 2") == {}
    assert (base.path.stat().st_mode & 0o777) == 0o600


@pytest.mark.posix
def test_answers_outlive_a_killed_process(study, plan, key):
    program = textwrap.dedent(
        f"""
        import os, sys
        sys.path.insert(0, {os.getcwd()!r})
        from pathlib import Path
        from tests.review.test_answers import answer
        from updp.core.keys import Key
        from updp.review.answers import Answers
        from updp.review.plan import load_plan
        plan = load_plan(Path({str(study)!r}), Key(bytes(range(32))))
        base = Answers(Path({str(study)!r}), plan)
        for n in range(10):
            base.add("reader 1", [answer(plan, "reader 1", n)])
            print(n, flush=True)
        sys.stdin.read()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        while child.stdout.readline().strip() != "9":
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
    assert sorted(Answers(study, plan).of("reader 1")) == list(range(10))


def test_a_study_goes_on_only_with_the_plan_it_began_with(study, plan, key):
    from dataclasses import replace

    Answers(study, plan).add("reader 1", [answer(plan, "reader 1", 0)])
    other = replace(plan, washout=3)
    save_plan(other, study, key)
    with pytest.raises(BadAnswer, match="not the one this study was started with"):
        Answers(study, other)
    assert len(Answers(study, plan).of("reader 1")) == 1


def test_a_full_disk_is_explained_and_loses_nothing(study, plan, monkeypatch):
    base = Answers(study, plan)
    base.add("reader 1", [answer(plan, "reader 1", 0)])
    opened = base._open

    def full():
        made = opened()
        made.execute(f"PRAGMA max_page_count = {made.execute('PRAGMA page_count').fetchone()[0]}")
        return made

    monkeypatch.setattr(base, "_open", full)
    with pytest.raises(OutputError, match="disk full"):
        base.add("reader 1", [answer(plan, "reader 1", n) for n in range(1, 40)])
    monkeypatch.undo()
    assert list(base.of("reader 1")) == [0]


def test_a_file_of_answers_comes_back_once(study, plan, key, tmp_path):
    base, path = Answers(study, plan), tmp_path / "answers.json"
    path.write_bytes(export(plan, key, "reader 2", {n: answer(plan, "reader 2", n) for n in range(5)}))
    assert base.collect(path, key) == ("reader 2", 5)
    assert base.collect(path, key) == ("reader 2", 0)
    assert sorted(base.of("reader 2")) == list(range(5))
    later = {4: answer(plan, "reader 2", 4, quality=1, at="2026-01-01T11:00:00+00:00")}
    newer = tmp_path / "newer.json"
    newer.write_bytes(export(plan, key, "reader 2", {n: answer(plan, "reader 2", n) for n in range(4)} | later))
    assert base.collect(newer, key) == ("reader 2", 1)
    assert base.collect(path, key) == ("reader 2", 0)  # what was answered later stays
    assert base.of("reader 2")[4].quality == 1


def test_a_file_whose_films_were_read_out_of_order_is_refused(study, plan, key, tmp_path):
    path = tmp_path / "answers.json"
    path.write_bytes(export(plan, key, "reader 2", {n: answer(plan, "reader 2", n) for n in (0, 2, 1)}))
    with pytest.raises(BadAnswer, match="in the order of the plan"):
        Answers(study, plan).collect(path, key)


def _altered(data):
    yield data | {"answers": [data["answers"][0] | {"quality": 1}, *data["answers"][1:]]}, "altered after"
    yield data | {"answers": data["answers"][:-1]}, "altered after"
    yield data | {"answers": data["answers"][::-1]}, "altered after"
    yield data | {"code": "0" * 64}, "altered after"
    yield data | {"reader": "reader 3"}, "another film"
    yield data | {"reader": "reader 9"}, "no such reader"
    yield data | {"simulated": True}, "no such reader"
    yield data | {"plan": "0" * 64}, "another plan"
    yield data | {"format": "updp-answers-9"}, "another version"
    yield [], "not a file of answers"


def test_altered_files_are_refused_and_leave_nothing(study, plan, key, tmp_path):
    good = json.loads(export(plan, key, "reader 2", {n: answer(plan, "reader 2", n) for n in range(5)}))
    base, path = Answers(study, plan), tmp_path / "answers.json"
    for data, why in _altered(good):
        path.write_text(json.dumps(data))
        with pytest.raises(BadAnswer, match=why):
            base.collect(path, key)
    assert all(base.of(reader.name) == {} for reader in plan.readers)
