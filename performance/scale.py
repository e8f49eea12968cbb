"""Survey and assembly of many rows, without their films: time of the processor and peak memory.

    python performance/scale.py [--rows 1000000] [--part survey assembly]

The survey reads a manifest of so many rows that name one stub film. The assembly takes records of so many landed films,
as a run with `keep` leaves them, to a signed release; the films themselves are not there. Each part runs in a process
of its own; what it takes to write the manifest and the records is not counted.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from updp.core.keys import Key
from updp.core.policy import Policy
from updp.pipeline.run import take_survey
from updp.release.assemble import assemble
from updp.release.shard import release_shard, shard_name
from updp.release.signature import Seal
from updp.sources import open_source

KEY = Key(bytes(range(32)))
SHARD = 1024  # films per shard, as for a run of this size


def write_manifest(folder: Path, rows: int) -> None:
    folder.mkdir()
    Image.fromarray(np.arange(80 * 80, dtype=np.uint8).reshape(80, 80)).save(folder / "stub.png")
    with (folder / "manifest.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["film_id", "study_id", "patient_id", "image", "findings", "labels", "view"])
        for n in range(rows):
            table.writerow([f"f{n}", f"s{n}", f"p{n // 4}", "stub.png", "No effusion.", "No Finding", "PA"])


def write_records(out: Path, rows: int) -> None:
    shards, images = out / ".work" / "shards", out / ".work" / "build" / "images"
    for folder in (shards, images, out / "vault"):
        folder.mkdir(parents=True)
    folders = -(-rows // SHARD)
    for index in range(folders):
        (images / shard_name(index)).mkdir()
        films = []
        for n in range(index * SHARD, min(rows, (index + 1) * SHARD)):
            name, patient = KEY.film(f"f{n}"), KEY.patient(f"p{n // 4}")
            shard = release_shard(name, folders)
            row = {
                "release_id": name, "patient": patient, "study": f"s{n:012x}", "split": KEY.split(f"p{n // 4}"),
                "file_name": f"images/{shard}/{name}.png", "shard": shard, "has_report": True, "view": "PA",
                "labels": ["No Finding"], "decided": {},
            }  # fmt: skip
            said = {"report": {"findings": "No effusion."}, "content": f"{n:016x}", "ref": f"r{n}"}
            films.append({"row": row, **said, "sum": "0" * 64, "size": 1})
        record = {"shard": shard_name(index), "members": "", "films": films, "quarantine": [], "tallies": {}}
        (shards / f"{shard_name(index)}.json").write_text(json.dumps(record))


def survey(folder: Path) -> int:
    return take_survey(open_source(folder), KEY).films


def assembly(out: Path) -> int:
    policy = Policy.parse("[method]\nname = 'keep'\n")
    return assemble(out, policy, KEY, Seal("scale", 1, dt.date(2026, 1, 1))).released


PARTS = {"survey": (write_manifest, survey), "assembly": (write_records, assembly)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--part", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        began, processor = time.monotonic(), time.process_time()
        films = PARTS[options.run[0]][1](Path(options.run[1]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(films, time.monotonic() - began, time.process_time() - processor, peak)
        return
    print("| part | rows | minutes of the processor | minutes in all | peak memory |\n|---|---|---|---|---|")
    for part in options.part:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[part][0](Path(folder) / "rows", options.rows)
            command = [sys.executable, __file__, "--run", part, str(Path(folder) / "rows")]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            films, wall, processor, peak = map(float, done.stdout.split())
            print(f"| {part} | {films:.0f} | {processor / 60:.2f} | {wall / 60:.2f} | {peak:.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
