"""What evaluating one release after another of a source costs, probe by probe, with one cache that begins empty.

    python performance/evaluate.py OUT_A OUT_B … --source SOURCE --key KEY [--cache NEW] [--quick]

Every OUT is a folder of `updp deidentify` under one key; what it holds stays as it is. The last one is evaluated once
more at the end: what is left then is scoring. Processor minutes are what compares on a shared machine, and the line of
ratios is taken in one run. A cache that is named stays, for `updp evaluate --cache`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from updp.core.global_state import quiet
from updp.core.keys import Key
from updp.core.memory import keep_freed_memory
from updp.domains.chest import PACK
from updp.evaluation.cohort.load import load_case
from updp.evaluation.evaluate import budget_of, learned_in, run_probes
from updp.evaluation.probes import probes
from updp.models import load_pack
from updp.release.assemble import located


def spent() -> tuple[float, float]:
    """Seconds of the processor, those of METEOR's program among them, and of the clock."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system, time.perf_counter()


class Laps:
    """Seconds of every probe, from the calls `run_probes` makes before each."""

    def __init__(self) -> None:
        self.begun, self.name = spent(), "opening"
        self.laps: dict[str, tuple[float, float]] = {}

    def __call__(self, name: str, done: int = 0, count: int = 0) -> None:
        now = spent()
        self.laps[self.name] = (now[0] - self.begun[0], now[1] - self.begun[1])
        self.begun, self.name = now, name

    def total(self, place: int) -> float:
        return sum(lap[place] for lap in self.laps.values())


def evaluated(out: Path, source: Path, key: Key, cache: Path, quick: bool, seed: int) -> tuple[Laps, str]:
    folder = located(out)
    laps = Laps()
    case = load_case(folder, source, key, cache=cache / "films")
    pack = load_pack(PACK)
    run_probes(
        case.exhibit,
        pack,
        budget_of(quick),
        seed,
        probes=probes(quick=quick),
        cache=learned_in(cache / "learned"),
        progress=laps,
    )
    kept_back = int(case.exhibit.kept_back.sum())
    return laps, f"{len(case.exhibit) - kept_back} films released, {kept_back} kept back"


@quiet()
def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="+", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.cache is not None and arguments.cache.exists():
        parser.error("the cache is there already; what it holds would cost nothing")
    key = Key.load(arguments.key)
    done: list[tuple[str, Laps]] = []
    with tempfile.TemporaryDirectory() as temporary:
        cache = arguments.cache or Path(temporary)
        for out in [*arguments.out, arguments.out[-1]]:
            laps, about = evaluated(out, arguments.source, key, cache, arguments.quick, arguments.seed)
            again = ", again" if any(name == out.name for name, _ in done) else ""
            done.append((f"{out.name}{again}", laps))
            print(f"{done[-1][0]}: {about}; {laps.total(0) / 60:.1f} processor minutes", flush=True)
    print("\n| seconds of the processor | " + " | ".join(name for name, _ in done) + " |")
    print("|---|" + "---|" * len(done))
    for probe in done[0][1].laps:
        print(f"| {probe} | " + " | ".join(f"{laps.laps[probe][0]:.0f}" for _, laps in done) + " |")
    rows = {"all, minutes of the processor": 0, "all, minutes of the clock": 1}
    for words, place in rows.items():
        print(f"| {words} | " + " | ".join(f"{laps.total(place) / 60:.1f}" for _, laps in done) + " |")
    first = done[0][1].total(0)
    print("| relative to the first | " + " | ".join(f"{laps.total(0) / first:.2f}" for _, laps in done) + " |")


if __name__ == "__main__":
    main()
