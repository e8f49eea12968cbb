"""What the pipeline costs: memory, overhead, resume, start-up. Prints the README's figures as a Markdown table.

python performance/pipeline.py --chestxray14 FOLDER [--kills 20] [--only memory overhead resume startup]
"""

from __future__ import annotations

import argparse
import csv
import filecmp
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from PIL import Image

from updp.core.keys import Key
from updp.core.policy import Policy
from updp.release.assemble import located

KEY = Key(bytes(range(32)))
#: Header, burned-in and report stations have benchmarks of their own.
POLICY = "[burned_in]\nmode = 'off'\n[report]\nmode = 'withhold'\n"

RUN = """
import resource, sys, time
from updp.pipeline.run import deidentify
from updp.core.keys import Key
from updp.core.policy import Policy
if __name__ == "__main__":
    source, out, workers, limit, policy = sys.argv[1:]
    began = time.monotonic()
    done = deidentify(source, out, key=Key(bytes(range(32))), policy=Policy.parse(policy), workers=int(workers),
                      limit=int(limit) or None)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(done.released, time.monotonic() - began, own, workers)
"""


def run(source: Path, out: Path, workers: int = 2, limit: int = 0, policy: str = POLICY) -> tuple[int, float, int, int]:
    """A run in a process of its own: films, seconds, peak memory of the process and of its largest worker (KiB)."""
    done = subprocess.run(command(source, out, workers, limit, policy), capture_output=True, text=True, check=True)
    films, seconds, own, worker = done.stdout.split()
    return int(films), float(seconds), int(own), int(worker)


def command(source: Path, out: Path, workers: int, limit: int = 0, policy: str = POLICY) -> list[str]:
    script = Path(tempfile.gettempdir()) / f"updp-bench-{os.getpid()}.py"
    script.write_text(RUN)
    return [sys.executable, str(script), str(source), str(out), str(workers), str(limit), policy]


def bench_memory(work: Path) -> list[tuple[str, str, str]]:
    """Peak memory of 5 000 and of 50 000 manifest rows."""
    source = work / "rows"
    source.mkdir()
    rng = np.random.default_rng(0)
    for n in range(500):
        Image.fromarray(rng.integers(0, 255, (64, 64), dtype=np.uint8)).save(source / f"{n}.png", compress_level=1)
    with (source / "manifest.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["film_id", "study_id", "patient_id", "image", "findings", "labels"])
        for n in range(50_000):
            table.writerow([f"f{n}", f"s{n}", f"p{n % 500}", f"{n % 500}.png", "No effusion. " * 20, "Effusion"])
    policy = POLICY + "[image]\nsize = 64\n[release]\nshard_size = 256\n"
    peaks = []
    for rows in (5_000, 50_000):
        _, _, own, worker = run(source, work / f"memory-{rows}", limit=rows, policy=policy)
        peaks.append((own, worker))
        shutil.rmtree(work / f"memory-{rows}")
    small, large = (max(p) for p in peaks)
    return [("memory, 50 000 rows against 5 000", f"{large / small:.3f}×", f"{small >> 10} → {large >> 10} MiB peak")]


def pillow_one(paths: tuple[str, str]) -> None:
    from updp.imaging.encode import PNG_LEVEL, PNG_STRATEGY

    with Image.open(paths[0]) as film:  # the same PNG settings, so that only our own work counts
        small = film.convert("L").resize((256, 256), Image.Resampling.BICUBIC)
        small.save(paths[1], compress_level=PNG_LEVEL, compress_type=PNG_STRATEGY)


def bench_overhead(work: Path, films: Path, repeats: int) -> list[tuple[str, str, str]]:
    """Method keep against decoding, resizing and encoding with Pillow alone, by turns, two processes each."""
    images = sorted((films / "images").glob("*"))
    ours, pillow = [], []
    for turn in range(repeats):
        target = work / f"pillow-{turn}"
        target.mkdir()
        pairs = [(str(path), str(target / f"{path.stem}.png")) for path in images]
        began = time.monotonic()
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            list(pool.map(pillow_one, pairs, chunksize=64))
        pillow.append(time.monotonic() - began)
        shutil.rmtree(target)
        count, seconds, _, _ = run(films, work / f"keep-{turn}")
        assert count == len(images), (count, len(images))
        ours.append(seconds)
        shutil.rmtree(work / f"keep-{turn}")
    return [
        (
            f"overhead of `keep`, {len(images)} films, 2 processes",
            f"{min(ours) / min(pillow):.2f}×",
            f"{min(ours):.1f} s against {min(pillow):.1f} s for Pillow alone (best of {repeats})",
        )
    ]


def identical(left: Path, right: Path) -> bool:
    names = sorted(p.relative_to(left) for p in left.rglob("*") if p.is_file())
    if names != sorted(p.relative_to(right) for p in right.rglob("*") if p.is_file()):
        return False
    return not any(filecmp.cmpfiles(left, right, names, shallow=False)[1:])


def bench_resume(work: Path, films: Path, kills: int, limit: int) -> list[tuple[str, str, str]]:
    """SIGKILL to the whole process group at random moments, resume, compare byte for byte; and 1 worker against 2."""
    whole = work / "whole"
    _, seconds, _, _ = run(films, whole, workers=2, limit=limit)
    moments = random.Random(1)
    out, killed, finished = work / "killed", 0, 0
    while killed < kills:
        child = subprocess.Popen(command(films, out, 2, limit), start_new_session=True, stdout=subprocess.DEVNULL)
        try:
            child.wait(timeout=0.5 + moments.random() * min(seconds, 6.0))
            finished += 1
            shutil.rmtree(out)  # it got through before its moment came: begin anew
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            killed += 1
    run(films, out, workers=2, limit=limit)
    one = work / "one"
    run(films, one, workers=1, limit=limit)
    same = identical(located(whole), located(out)), identical(located(whole), located(one))
    for folder in (whole, out, one):
        shutil.rmtree(folder)
    words = {True: "byte-identical", False: "DIFFERENT"}
    return [
        (f"killed {killed} times (SIGKILL), resumed", words[same[0]], f"{limit or 'all'} films"),
        ("1 worker against 2", words[same[1]], ""),
    ]


def bench_startup() -> list[tuple[str, str, str]]:
    """The time of `updp --help` and `updp methods`, best of five."""
    out = []
    for arguments in (["--help"], ["methods"]):
        times = []
        for _ in range(5):
            began = time.monotonic()
            subprocess.run([sys.executable, "-m", "updp.cli", *arguments], stdout=subprocess.DEVNULL, check=True)
            times.append(time.monotonic() - began)
        out.append((f"`updp {arguments[0]}`", f"{min(times):.2f} s", "best of five"))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chestxray14", type=Path, help="folder of ChestX-ray14")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--films", type=int, default=1500, help="films of the resume benchmark")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=["memory", "overhead", "resume", "startup"])
    options = parser.parse_args()
    Policy.parse(POLICY)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        rows: list[tuple[str, str, str]] = []
        if "startup" in options.only:
            rows += bench_startup()
        if "memory" in options.only:
            rows += bench_memory(work)
        if options.chestxray14 and "overhead" in options.only:
            rows += bench_overhead(work, options.chestxray14, options.repeats)
        if options.chestxray14 and "resume" in options.only:
            rows += bench_resume(work, options.chestxray14, options.kills, options.films)
    print("| what | figure | detail |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
