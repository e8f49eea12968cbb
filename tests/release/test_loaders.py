"""A release loads with the tools its receivers use: the lines of docs/how-to/read-a-release.md, run as they stand."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import PLAIN, Hospital
from updp import deidentify
from updp.core.keys import Key
from updp.core.policy import Policy

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "read-a-release.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)

#: What must be true after each kind of block, by a word in it; checked in the same process, after its last line.
AFTER = {
    "films.merge(reports": "assert len(films) == 12 and films.sections[0]['findings']",
    'split="films")': "assert len(films) == 12 and films[0]['image'].size == (64, 64) and films[0]['patient']",
    'split="train")': "assert 0 < len(train) < 12 and set(train['split']) == {'train'}",
    "write_shards": "film, row, text = next(iter(packed)); assert row['split'] == 'train' and 'effusion' in text",
    "webdataset": "seen = list(films); assert len(seen) == 12 and seen[0]['png'].shape == (64, 64)",
    "open_source": "assert len(list(updp.open_source('release'))) == 12",
    "torch_dataset": "assert batch['image'].shape == (4, 1, 64, 64) and batch['mask'].all()",
    "pandas.read_parquet": "assert len(films) == 12 and films.patient.nunique() == 6",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder that holds ``release/``."""
    root = tmp_path_factory.mktemp("loaders")
    policy = Policy.parse(PLAIN)
    outcome = deidentify(Hospital(root / "export", films=12).write(), root / "out", policy=policy,
                         key=Key(bytes(range(32))), workers=1)  # fmt: skip
    assert outcome.released == 12
    outcome.folder.rename(root / "release")
    return root


def test_the_page_has_a_block_for_every_loader():
    text = " ".join(BLOCKS)
    assert all(word in text for word in ("pandas", "datasets", "webdataset", "updp", "torch"))


#: Runs each block with its check as a script of its own would, and says what went wrong in each.
RUNNER = """
import json, sys, traceback
faults = []
for script in json.load(sys.stdin):
    try:
        exec(compile(script, "block", "exec"), {"__name__": "__main__"})
        faults.append("")
    except BaseException:
        faults.append(traceback.format_exc())
print("faults", json.dumps(faults))
"""


@pytest.fixture(scope="module")
def faults(place, tmp_path_factory):
    """What went wrong in each block, by its text. They share one process, which imports pandas, torch and datasets."""
    for needed in ("datasets", "webdataset", "pandas"):
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    scripts = [f"{block}\n{next(after for word, after in AFTER.items() if word in block)}" for block in BLOCKS]
    env = {**os.environ, "HF_HOME": str(tmp_path_factory.mktemp("home")), "HF_HUB_OFFLINE": "1",
           "HF_DATASETS_OFFLINE": "1"}  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", RUNNER], input=json.dumps(scripts), cwd=place, env=env,
                         capture_output=True, text=True, check=True)  # fmt: skip
    found = json.loads(ran.stdout.splitlines()[-1].removeprefix("faults "))
    return dict(zip(BLOCKS, found, strict=True))


@pytest.mark.parametrize("block", BLOCKS, ids=[re.sub(r"\W+", " ", b)[:40] for b in BLOCKS])
def test_lines_of_the_documentation_run(faults, block):
    assert faults[block] == ""
