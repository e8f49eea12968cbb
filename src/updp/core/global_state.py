"""Global state of the process: changed for the time of a call, given back when it ends.

Who calls this package has loggers, warning filters, threads and random generators of their own. Whatever here needs
other ones enters one of these contexts. They are also decorators: ``@quiet()``.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

#: Libraries that quote what they read: a damaged PatientName would reach the console through a warning of theirs.
QUOTING = ("pydicom", "pynetdicom", "PIL", "pylibjpeg", "openjpeg", "RapidOCR", "faker")

#: Variables under which libraries compute as a processor with a smaller instruction set does, read when they load.
PINS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    }
}


class UnknownPin(ValueError):
    """No instruction set of that name to pin to."""


_lock = threading.Lock()
_silence = ExitStack()
_inside = 0


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, and no log lines of libraries that quote values.

    Log levels and warning filters belong to all threads: the first to enter changes them, the last to leave restores
    them.
    """
    global _inside
    with _lock:
        if not _inside:
            _silence.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            for name in _quoting():
                logger = logging.getLogger(name)
                _silence.callback(logger.setLevel, logger.level)
                logger.setLevel(logging.CRITICAL + 1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _silence.close()


def _quoting() -> list[str]:
    """The loggers to silence: a child without a level of its own follows its parent."""
    children = [
        name
        for name, logger in logging.Logger.manager.loggerDict.items()
        if name.partition(".")[0] in QUOTING and isinstance(logger, logging.Logger) and logger.level
    ]
    return list(dict.fromkeys([*QUOTING, *children]))


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Linear algebra on at most this many threads, and never on more than the caller allowed before: two libraries
    with a pool each would compete for the cores."""
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    fewest = min(threads, before)
    try:
        torch.set_num_threads(fewest)
        with threadpool_limits(limits=fewest):
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int | None = None) -> Iterator[None]:
    """Torch's global generator begun from ``seed`` (or left where it is), for layers and dropout that draw from it."""
    import torch

    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        if seed is not None:
            torch.manual_seed(seed)
        yield


def instruction_set(*, torch: bool = True, pin: str | None = None) -> dict[str, str]:
    """What numpy's and torch's kernels are compiled for here, or would be in a process pinned to ``pin``.

    The last bits of a sum depend on how many numbers a processor adds at once, so two processors give the same bytes
    only where these agree.
    """
    if pin is not None:
        return _pinned(pin, torch)
    import platform

    import numpy as np

    found = np.show_config(mode="dicts")["SIMD Extensions"]  # type: ignore[call-overload, index, unused-ignore]
    widest = [*found.get("baseline", ()), *found.get("found", ())][-1:]
    out = {"machine": platform.machine(), "numpy": widest[0] if widest else "none"}
    if torch:
        import torch as library

        out["torch"] = library.backends.cpu.get_cpu_capability()
    return out


def _pinned(pin: str, torch: bool) -> dict[str, str]:
    """The instruction set of a fresh process under a pin: libraries choose theirs when they load."""
    import json
    import os
    import subprocess
    import sys

    if pin not in PINS:
        raise UnknownPin(f"no instruction set {pin!r} to pin to; there are: {', '.join(PINS)}")
    code = f"import json; from {__name__} import instruction_set as i; print(json.dumps(i(torch={torch})))"
    environment = {**os.environ, **PINS[pin], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))
