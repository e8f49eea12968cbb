"""Seconds per film of every method, of the processor and of the clock, on one thread, beside `keep`.

    python performance/method_speed.py [--films 8] [--methods privdiff prichexy …]

Films are drawn, not read: speed does not depend on what they show. Models are loaded before the clock starts.
At its default strength of 1 PrivDiff-Net is not guided away from a patient and takes two branches; ``--strength 0.99``:
all four. Processor seconds are what compares on a shared machine; two workers on two cores halve the clock's.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from updp.core.memory import keep_freed_memory
from updp.core.record import Study
from updp.methods import METHODS, make_method


def drawn(count: int) -> list[Study]:
    rng = np.random.default_rng(0)
    y, x = np.mgrid[-1:1:256j, -1:1:256j]
    chest = 0.3 + 0.5 * np.exp(-((np.abs(x) - 0.1) ** 2) * 8) - 0.2 * np.exp(-((np.abs(x) - 0.5) ** 2 + y**2) * 6)
    films = [np.clip(chest + rng.normal(0, 0.05, chest.shape), 0, 1).astype(np.float32) for _ in range(count)]
    return [
        Study(f"f{n}", f"s{n}", f"p{n}", pixels=film, view="PA", labels=("Effusion", "Nodule"), age=60, sex="F")
        for n, film in enumerate(films)
    ]


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=8)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--strength", type=float)
    arguments = parser.parse_args()
    print("| method | strength | processor s per film | films per processor second | clock s per film |")
    print("|---|---|---|---|---|")
    for name in arguments.methods:
        method = make_method(name)
        studies = drawn(arguments.films)

        def run(batch: list[Study], method=method) -> None:
            method.deidentify(batch, arguments.strength, [np.random.default_rng(n) for n in range(len(batch))])

        run(studies[:1])
        begun = time.perf_counter(), time.process_time()
        run(studies)
        ended = time.perf_counter(), time.process_time()
        clock, processor = ((after - before) / len(studies) for before, after in zip(begun, ended, strict=True))
        strength = arguments.strength if arguments.strength is not None else method.info.default_strength
        shown = "" if strength is None else f"{strength:.2g}"
        print(f"| {name} | {shown} | {processor:.3g} | {1 / max(processor, 1e-9):.3g} | {clock:.3g} |", flush=True)


if __name__ == "__main__":
    main()
