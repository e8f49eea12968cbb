"""Work of the review page in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from updp.core.storage import OutputError
from updp.review.aside import aside


def test_what_a_function_returns_or_raises_comes_back():
    assert aside(os.getpid) != os.getpid()
    assert aside(int, "1f", base=16) == 31
    with pytest.raises(ValueError, match="invalid literal"):
        aside(int, "no number")


def test_a_process_that_dies_is_said():
    with pytest.raises(OutputError, match="died"):
        aside(os._exit, 9)


OPENED = """
import sys
from pathlib import Path
from updp.core.keys import Key
from updp.review.serve import prepare
desk = prepare(Path(sys.argv[1]), Key(bytes(range(32))), classify=False).desk
desk._beside()
print(desk.index.counts()["films"], desk.verification.intact, desk.looking.error)
print(*sorted({"pyarrow", "torch", "scipy", "pandas"} & sys.modules.keys()))
"""


def test_a_server_with_an_open_desk_holds_no_library_for_tables_or_models(made):
    run = subprocess.run([sys.executable, "-c", OPENED, str(made / "out")], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["40 True ", ""]
