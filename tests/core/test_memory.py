"""A program of ours keeps the memory that large arrays leave; what the user has set stays."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from updp.core.memory import keep_freed_memory

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")

_FAULTS = """
import resource
import numpy as np
from updp.core.memory import keep_freed_memory
{call}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(5_000_000)
before = faults()
for _ in range(10):
    np.ones(5_000_000)
print(faults() - before)
"""


def _faults(call: str) -> int:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment = plain | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = _FAULTS.format(call=call)
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_pages_of_large_arrays_are_not_asked_for_again():
    # Forty megabytes are 9 766 pages, or 20 huge ones; without the call each of ten arrays asks for its own.
    assert _faults("keep_freed_memory()") < 10
    assert _faults("") >= 100


def test_what_the_user_has_set_stays(monkeypatch):
    for name in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"):
        monkeypatch.setenv(name, "7")
    keep_freed_memory()
    assert os.environ["MALLOC_MMAP_MAX_"] == "7"
