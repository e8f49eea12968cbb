"""Memory that large arrays leave is kept for the next ones.

The allocator of glibc gives a large block back to the system as soon as it is freed, and the system clears every page
of the next one again. Networks make maps of tens of megabytes in each call: on some machines most of their time goes
there. How the allocator works belongs to the whole process, so only a program of ours changes it, when it starts.
"""

from __future__ import annotations

import ctypes
import os

#: Setting of glibc → its number in `mallopt` (malloc.h) and the value: no block apart from the heap, and at most a
#: gigabyte of freed memory at its end.
_SETTINGS = {"MALLOC_MMAP_MAX_": (-4, 0), "MALLOC_TRIM_THRESHOLD_": (-1, 1 << 30), "MALLOC_TOP_PAD_": (-2, 1 << 26)}


def keep_freed_memory() -> None:
    """Keep freed memory, in this process and those it starts; what the user has set stays, and so does an allocator
    other than that of glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for name, (number, value) in _SETTINGS.items():
        if os.environ.setdefault(name, str(value)) == str(value):
            mallopt(number, value)
