"""One thread of linear algebra per process: the suite has a process per core, and threads that wait for a core spin.

Libraries read this when they load, so it is set before any test is imported. A value that is already set stays.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
