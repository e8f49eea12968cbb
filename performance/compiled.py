"""What `compiled = true` (torch.compile) gains on the CPU: a step of a generator, compiled and not, taking turns.

    python performance/compiled.py [--pack cxr256-2] [--rounds N]

Needs a C++ compiler. Seconds are of the processor on one thread, best of the rounds. The first call is that of this
process; compilers that it starts are in the time of the clock alone. torch keeps what it compiled: with an empty
TORCHINDUCTOR_CACHE_DIR the first call is that of a new machine.
"""

from __future__ import annotations

import argparse
import os
import time

import torch

from updp.core.memory import keep_freed_memory
from updp.domains.chest import PACK
from updp.models import load_pack

FILMS = ["effusion", "no nodule"]


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generators = [load_pack(options.pack, compiled=compiled).generator for compiled in (False, True)]
    with torch.no_grad():
        size = generators[0].size  # type: ignore[attr-defined]
        latents = load_pack(options.pack).autoencoder.encode(torch.rand(2, 1, size, size))
        given = latents, torch.tensor([0.5, 0.5]), generators[0].condition(FILMS)
        clock, processor = time.perf_counter(), time.process_time()
        compiled = generators[1].noise(*given)
        print(f"first call {time.process_time() - processor:.1f} s, {time.perf_counter() - clock:.1f} s by the clock")
        print(f"results differ by up to {(compiled - generators[0].noise(*given)).abs().max().item():.1e}")
        best = [float("inf"), float("inf")]
        for _ in range(options.rounds):
            for n, generator in enumerate(generators):
                start = time.process_time()
                generator.noise(*given)
                best[n] = min(best[n], time.process_time() - start)
    print(f"one step of two films: {best[0]:.3f} s, compiled {best[1]:.3f} s: {best[0] / best[1]:.2f} x")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
