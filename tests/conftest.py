"""Small hospitals for tests: invented patients, drawn films, canaries everywhere a name can hide."""

from __future__ import annotations

import csv
import json
import os
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

from updp.core.keys import Key
from updp.core.memory import keep_freed_memory
from updp.core.policy import Policy

keep_freed_memory()  # as the command line does

#: No test depends on how busy the machine is.
settings.register_profile("updp", deadline=None)
settings.load_profile("updp")

#: Names and numbers of invented patients; none may appear in anything that is printed or released.
CANARIES = ("Quibblesworth", "Zanthora", "MRN7741982", "ACC5550123")

#: A policy that reads no text on films: tests of the flow are not tests of OCR.
PLAIN = "[burned_in]\nmode = 'off'\n[method]\nname = 'keep'\n[release]\nshard_size = 4\n[image]\nsize = 64\n"


def pytest_collection_modifyitems(items):
    if os.name != "posix":
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip(reason="needs POSIX"))


@pytest.fixture(scope="session")
def _homes(tmp_path_factory):
    """One folder per test. `mktemp` looks at every folder it has made for the next free number, two a test are slow."""
    root = tmp_path_factory.mktemp("homes")
    return (root / str(n) for n in count())


@pytest.fixture(autouse=True)
def _no_home(_homes, monkeypatch):
    """Keep tests away from the user's own key and cache."""
    home = next(_homes)
    for name in ("config", "cache"):
        (home / name).mkdir(parents=True)
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(home / name))


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """No test switches the power off, and waiting for the disk takes half of a small run. What a failed `fsync` does is
    tested where it matters, by one that fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def key() -> Key:
    return Key(bytes(range(32)))


@pytest.fixture
def policy() -> Policy:
    return Policy.parse(PLAIN)


def draw(seed: int, side: int = 80) -> np.ndarray:
    """A film no other seed draws: smooth blobs with noise, 8 bit."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(20, 230, (6, 6), dtype=np.uint8)).resize((side, side), Image.BICUBIC)
    return np.clip(np.asarray(coarse).astype(int) + rng.integers(-8, 8, (side, side)), 0, 255).astype(np.uint8)


class Hospital:
    """A manifest export that tests can damage before it is run."""

    def __init__(self, root: Path, films: int = 10) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.rows: list[dict[str, str]] = []
        for n in range(films):
            self.add(n)

    def add(self, n: int, **changes: str) -> dict[str, str]:
        name = f"Quibblesworth_{n}.png"  # a name in a file name
        Image.fromarray(draw(n)).save(self.root / name)
        row = {
            "film_id": f"MRN7741982-{n}",
            "study_id": f"ACC5550123-{n}",
            "patient_id": f"Zanthora-{n // 2}",
            "image": name,
            "findings": "No pneumothorax. Small left effusion, 4 mm nodule. Seen by Dr. Zanthora Quibblesworth.",
            "view": "PA",
            "labels": "Effusion|Nodule",
        } | changes
        self.rows.append(row)
        return row

    def without_reports(self) -> Hospital:
        """Then no worker process loads the report detector, which takes most of its time."""
        for row in self.rows:
            row["findings"] = ""
        return self

    def write(self) -> Path:
        with (self.root / "manifest.csv").open("w", newline="", encoding="utf-8") as out:
            table = csv.DictWriter(out, list(dict.fromkeys(name for row in self.rows for name in row)))
            table.writeheader()
            table.writerows(self.rows)
        return self.root


@pytest.fixture
def hospital(tmp_path) -> Hospital:
    return Hospital(tmp_path / "export")


def reasons(out: Path) -> dict[str, int]:
    """Reason codes of a finished run, counted."""
    counts: dict[str, int] = {}
    for line in (out / "quarantine.jsonl").read_text().splitlines():
        reason = json.loads(line)["reason"]
        counts[reason] = counts.get(reason, 0) + 1
    return counts


def sweep(folder: Path, words=CANARIES, *, skip: tuple[str, ...] = ()) -> list[str]:
    """Where any of ``words`` shows in a file's bytes or name under ``folder``."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith(skip):
            continue
        data = (name.encode() + b"\n" + (path.read_bytes() if path.is_file() else b"")).lower()
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            data += json.dumps(pq.read_table(path).to_pylist(), default=str).lower().encode()
        found += [f"{name}: {word}" for word in words
                  if word.lower().encode() in data or word.lower().encode("utf-16-le") in data]  # fmt: skip
    return found


def same_tree(left: Path, right: Path) -> bool:
    """Whether two folders hold the same files, byte for byte, with the same time stamps. Serial and date of a signature
    may differ; the list it signs is compared."""

    def tree(root: Path) -> dict[str, tuple[bytes, int]]:
        return {
            path.relative_to(root).as_posix(): (path.read_bytes(), int(os.stat(path).st_mtime))
            for path in root.rglob("*")
            if path.is_file() and path.name != "signature"
        }

    return tree(left) == tree(right)
