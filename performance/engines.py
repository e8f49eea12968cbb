"""Films per second by number of workers and by engine, each relative to the local engine with one worker.

    python performance/engines.py EXPORT [--method updp] [--films 2000] [--workers 1 2 4] [--ray] [--rounds 1]

All settings run in turn in one call, so that the ratios hold on a machine whose speed varies; with several rounds the
best of each counts. `--ray` starts a cluster of one node on this machine for as long as it measures. The time is that
of the whole run, from survey to signature; releases are compared by the checksums of films, reports and manifest. The
last columns count seconds of the processor in this process and its workers: what several workers cost more than one,
also where other jobs use the cores. Workers of a cluster are no children of this process, so theirs are not known.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from updp import deidentify
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.release.signature import content_sum

KEY = Key(bytes(range(32)))


def processor() -> float:
    """Seconds of the processor that this process and its workers, as far as they have ended, took so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path)
    parser.add_argument("--method", default="updp")
    parser.add_argument("--films", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    policy = Policy.parse(f"[burned_in]\nmode = 'off'\n[method]\nname = '{options.method}'\n")
    settings: list[tuple[str, int, dict[str, Any]]] = [("local", workers, {}) for workers in options.workers]
    with ExitStack() as stack:
        if options.ray:
            from ray.cluster_utils import Cluster

            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": max(options.workers)})
            stack.callback(cluster.shutdown)
            settings += [("ray", workers, {"address": cluster.address}) for workers in options.workers]
        best: dict[tuple[str, int], tuple[float, float]] = {}
        contents = set()
        for _ in range(options.rounds):
            for engine, workers, more in settings:
                with tempfile.TemporaryDirectory() as out:
                    began, spent = time.monotonic(), processor()
                    made = deidentify(options.export, out, policy=policy, key=KEY, limit=options.films, engine=engine,
                                      engine_options=more, workers=workers)  # fmt: skip
                    seconds, spent = time.monotonic() - began, processor() - spent
                    speeds = made.released / seconds, made.released / spent
                    contents.add(content_sum(made.folder))
                best[engine, workers] = max(best.get((engine, workers), speeds), speeds)
    first = best[settings[0][0], settings[0][1]]
    print(f"{options.method}, {options.films} films; releases {'equal' if len(contents) == 1 else 'DIFFER'}\n")
    print("| engine | workers | films a second | ratio | films a second of the processor | ratio |")
    print("|---|---|---|---|---|---|")
    for (engine, workers), (speed, own) in best.items():
        counted = f"{own:.2f} | {own / first[1]:.2f}" if engine == "local" else "– | –"
        print(f"| {engine} | {workers} | {speed:.2f} | {speed / first[0]:.2f} | {counted} |")


if __name__ == "__main__":
    main()
