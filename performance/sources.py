"""What reading costs: memory of iterating long manifests, and time of the path from file to released PNG.

    python performance/sources.py                      # invented manifests, drawn films
    python performance/sources.py --films DIR          # the films below DIR instead of drawn ones

Memory is the peak resident set of a fresh process that iterates the manifest, and how much of it iterating added to
what imports and opening had taken. Time is that of updp over plain Pillow's (decode, resize, save at the same
compression level, once with Pillow's own zlib strategy, once with that of updp) in processor time, film by film in
turn, so that a busy machine weighs on all alike; the median of several rounds.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

REPORT = (
    "The cardiomediastinal silhouette is within normal limits. No focal consolidation, pleural effusion or "
    "pneumothorax is seen. Degenerative changes of the thoracic spine. "
) * 3
KINDS = ("csv", "jsonl", "parquet")


def rows(count: int) -> Iterator[dict[str, object]]:
    for number in range(count):
        yield {
            "film_id": f"film-{number:08d}",
            "study_id": f"study-{number // 2:08d}",
            "patient_id": f"patient-{number // 5:08d}",
            "image": f"films/{number % 100:02d}.png",
            "view": "PA" if number % 3 else "LATERAL",
            "findings": f"{REPORT} Film {number}.",
            "impression": "No acute cardiopulmonary process.",
            "labels": "Cardiomegaly|Effusion",
            "age": number % 90,
        }


def write_manifest(path: Path, count: int) -> None:
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.Table.from_pylist(list(rows(1))).schema
        with pq.ParquetWriter(path, schema) as writer:
            held: list[dict[str, object]] = []
            for row in rows(count):
                held.append(row)
                if len(held) == 20_000:
                    writer.write_table(pa.Table.from_pylist(held, schema))
                    held.clear()
            if held:
                writer.write_table(pa.Table.from_pylist(held, schema))
        return
    with open(path, "w", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows(count))
        else:
            writer = csv.DictWriter(file, list(next(rows(1))))
            writer.writeheader()
            writer.writerows(rows(count))


def iterate(path: str) -> None:
    """In a process of its own: iterate a manifest; print count, seconds, memory in KiB before and at the peak."""
    from updp.core.record import Study
    from updp.sources import open_source

    if path.endswith(".parquet"):
        import pyarrow.parquet  # noqa: F401 - its footprint is no part of iterating
    source = open_source(path)
    before, start = _status("VmHWM"), time.perf_counter()
    count = sum(isinstance(row, Study) for row in source) + source.skipped
    print(json.dumps([count, time.perf_counter() - start, before, _status("VmHWM")]))


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise SystemExit("memory is measured on Linux only")


def measure_memory(counts: list[int]) -> None:
    print("| manifest | rows | rows/s | peak, MiB | added by iterating, MiB | peak against the smallest |")
    print("|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(100):
            drawn(Path(folder, "films", f"{number:02d}.png"), 64, number)
        for kind in KINDS:
            least = 0.0
            for count in counts:
                path = Path(folder, f"manifest.{kind}")
                write_manifest(path, count)
                out = subprocess.run(
                    [sys.executable, __file__, "--iterate", str(path)], check=True, capture_output=True, text=True
                )
                found, seconds, before, peak = json.loads(out.stdout)
                if found != count:
                    raise SystemExit(f"{kind}: {found} rows instead of {count}")
                least = least or peak
                added = (peak - before) / 1024
                print(
                    f"| {kind} | {count} | {count / seconds:,.0f} | {peak / 1024:.1f} | {added:.1f} "
                    f"| {peak / least:.3f} |",
                    flush=True,
                )
                path.unlink()


def drawn(path: Path, side: int, seed: int) -> Path:
    """A noisy film: compresses about as well as a real one."""
    import numpy as np
    from PIL import Image

    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    noise = np.random.default_rng(seed).normal(0, 4, (side, side))
    film = 230 * np.exp(-(x**2) * 2 - (y**2)) + noise
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(film, 0, 255).astype(np.uint8)).save(path)
    return path


def measure_time(films: dict[str, list[Path]], size: int, rounds: int) -> None:
    from PIL import Image

    from updp.imaging.encode import PNG_LEVEL, PNG_STRATEGY, encode_png
    from updp.imaging.read import read_film
    from updp.imaging.square import square

    def ours(path: Path) -> bytes:
        pixels = read_film(path, max_pixels=100_000_000, min_side=16)
        return encode_png(square(pixels, size, "pad"))

    def pillow(path: Path, strategy: int = -1) -> bytes:
        out = io.BytesIO()
        with Image.open(path) as image:
            small = image.convert("L").resize((size, size))
            small.save(out, "PNG", compress_level=PNG_LEVEL, compress_type=strategy)
        return out.getvalue()

    def pillow_as_ours(path: Path) -> bytes:
        return pillow(path, PNG_STRATEGY)

    makers: list[Callable[[Path], bytes]] = [ours, pillow, pillow_as_ours]
    print("\n| films | size | updp, ms | Pillow, ms | updp / Pillow | updp / Pillow, same PNG strategy | bytes |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, paths in films.items():
        spent: list[list[float]] = [[] for _ in makers]
        bulk = [0] * len(makers)
        for turn in range(rounds):
            took = [0.0] * len(makers)
            for number, path in enumerate(paths):
                for at in range(len(makers)):
                    which = (at + number + turn) % len(makers)  # each goes first equally often
                    start = time.process_time()
                    data = makers[which](path)
                    took[which] += time.process_time() - start
                    bulk[which] += len(data)
            for total, seconds in zip(spent, took, strict=True):
                total.append(seconds)
        ratios = [statistics.median(a / b for a, b in zip(spent[0], other, strict=True)) for other in spent[1:]]
        per = [1000 * statistics.median(total) / len(paths) for total in spent]
        print(
            f"| {name} ({len(paths)}) | {size} | {per[0]:.2f} | {per[1]:.2f} | {ratios[0]:.2f} | {ratios[1]:.2f} "
            f"| {bulk[0] / bulk[1]:.3f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000, 50_000, 400_000])
    parser.add_argument("--films", type=Path, help="folder of films for the time of reading")
    parser.add_argument("--count", type=int, default=300, help="films to read")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("memory", "time"))
    parser.add_argument("--iterate", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.iterate:
        return iterate(options.iterate)
    if options.only != "time":
        measure_memory(options.rows)
    if options.only != "memory":
        with tempfile.TemporaryDirectory() as folder:
            films = {
                f"drawn PNG of {side} px": [drawn(Path(folder, f"{side}-{n}.png"), side, n) for n in range(count)]
                for side, count in ((1024, 40), (2500, 10))
            }
            if options.films:
                found = sorted(path for path in options.films.rglob("*") if path.suffix in (".jpg", ".png", ".jpeg"))
                films = {f"films of {options.films.name}": found[: options.count], **films}
            measure_time(films, options.size, options.rounds)


if __name__ == "__main__":
    main()
