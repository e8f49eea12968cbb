"""How threads of linear algebra wait for each other.

OpenMP and OpenBLAS let a thread that waits spin. With two threads and one core taken by another job, most of the time
is then spent in spinning. The libraries read how to wait when they are loaded, so the programs of this package set it
before their first heavy import; inside another program its settings stay as they are, and one thread is used instead of
two.
"""

from __future__ import annotations

import os

#: Settings under which a waiting thread sleeps.
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_THREAD_TIMEOUT": "4", "KMP_BLOCKTIME": "0"}


def wait_passively() -> None:
    """Let waiting threads sleep, in this process and those it starts; what the user has set stays."""
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)


def threads() -> int:
    """How many threads one process may use: two where waiting threads sleep, else one."""
    return 2 if os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE" else 1
