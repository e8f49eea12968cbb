"""What `torch.compile` gains on the CPU: one step of a pack's generator, compiled and not, taking turns.

    python performance/compiled.py [--pack cxr256] [--rounds N]

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
from updp.models import load_pack


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", default="cxr256")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pack = load_pack(options.pack)
    plain, compiled = pack._own("generator"), pack._own("generator")
    compiled.compile()
    given = torch.randn(2, 32, 32, 32, generator=torch.Generator().manual_seed(0)), torch.tensor([0.5, 0.5])
    best = [float("inf"), float("inf")]
    with torch.no_grad():
        clock, processor = time.perf_counter(), time.process_time()
        apart = (plain(*given) - compiled(*given)).abs().max().item()
        print(
            f"first call {time.process_time() - processor:.1f} s, {time.perf_counter() - clock:.1f} s by the clock; "
            f"results differ by up to {apart:.1e}"
        )
        for _ in range(options.rounds):
            for n, network in enumerate((plain, compiled)):
                start = time.process_time()
                network(*given)
                best[n] = min(best[n], time.process_time() - start)
    print(f"one step of two films: {best[0]:.3f} s, compiled {best[1]:.3f} s: {best[0] / best[1]:.2f} x")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
