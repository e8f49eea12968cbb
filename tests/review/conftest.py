"""A release of invented patients, made once: films pixelated, half of the patients with an effusion."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import updp
from tests.conftest import PLAIN, Hospital
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.release.assemble import finished
from updp.review.design import design
from updp.review.plan import Plan

FILMS = 40


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch, request):
    """Starting a process for each index and each check takes longer than the tests; `test_aside.py` is about it."""
    if request.node.path.name != "test_aside.py":
        monkeypatch.setattr("updp.review.desk.aside", lambda function, *given, **named: function(*given, **named))


def released(root: Path) -> Path:
    """The folder that the run at ``root/out`` ended with, whatever its verdict calls it."""
    ended = finished(root / "out")
    assert ended is not None
    return ended.folder


def wait_until(holds: Callable[[], bool], patience: float = 300) -> None:
    """Wait for what happens in another thread or process, as long as a busy machine needs."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"still waiting after {patience} seconds"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Source and output of one run: forty films of twenty patients, one film that cannot be read."""
    root = tmp_path_factory.mktemp("review")
    hospital = Hospital(root / "export", films=FILMS)
    for n, row in enumerate(hospital.rows):
        row["labels"] = ("Effusion|Nodule", "Effusion", "Nodule", "No Finding")[n // 2 % 4]
    hospital.add(FILMS, patient_id="Zanthora-lonely")
    (hospital.root / f"Quibblesworth_{FILMS}.png").write_bytes(b"no film")
    hospital.write()
    policy = Policy.parse(PLAIN.replace("'keep'", "'pixelate'"))
    updp.deidentify(hospital.root, root / "out", policy=policy, key=Key(bytes(range(32))), workers=1)
    return root


@pytest.fixture
def made(made_once, tmp_path):
    """A copy of it that a test may change."""
    shutil.copytree(made_once, tmp_path / "made")
    return tmp_path / "made"


@pytest.fixture(scope="session")
def planned_once(made_once, tmp_path_factory):
    """A study of that release: three readers, twenty patients."""
    out = tmp_path_factory.mktemp("planned") / "study"
    design(released(made_once), made_once / "export", out, key=Key(bytes(range(32))), films=20, days=0)
    return out


@pytest.fixture
def study(planned_once, tmp_path):
    shutil.copytree(planned_once, tmp_path / "study")
    return tmp_path / "study"


@pytest.fixture
def plan(study, key) -> Plan:
    from updp.review.plan import load_plan

    return load_plan(study, key)
