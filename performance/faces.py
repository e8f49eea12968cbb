"""The figures of faces by one command: ``python performance/faces.py --celeba CELEBA --utkface UTKFACE --out WORK``.

A clinic is rendered on one half of UTKFace, a set of patients who do not exist is built from it with the other half as
public faces (`updp mema build`), and every method is measured on the reserved people of CelebA (`updp bench faces`).
What is there already is passed over. ``--install`` copies the figures into ``docs/figures`` and writes the page.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
#: Photographs of the clinic and of the public.
CLINIC, PUBLIC = 300, 400


def halved(source: Path, out: Path, most: int, half: int) -> Path:
    """Every second photograph of a manifest as a source of its own."""
    with open(source / "manifest.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    out.mkdir(parents=True, exist_ok=True)
    chosen = rows[half::2][:most]
    for row in chosen:
        place = out / row["image"]
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copy(source / row["image"], place)
    with open(out / "manifest.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(chosen)
    return out


def steps(celeba: Path, utkface: Path, out: Path, steps: int, pack: str) -> Iterator[tuple[str, Path, list[str]]]:
    """Name, what is there once it is done, and arguments of `updp`."""
    yield "clinic", out / "clinic" / "manifest.csv", [
        "virtual", "clinic", str(out / "clinic"), "--source", str(out / "patients"), "--photographs", "1",
    ]  # fmt: skip
    yield "mema", out / "mema" / "figures.json", [
        "mema", "build", str(out / "clinic"), str(out / "mema"), "--public", str(out / "public"), "--masks", pack,
        "--steps", str(steps),
    ]  # fmt: skip
    yield "faces", out / "faces" / "faces.json", [
        "bench", "faces", "--data", str(celeba), "--data", str(utkface), "--pack", pack, "--out", str(out / "faces"),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    for name in ("--celeba", "--utkface", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--steps", type=int, default=900, help="of the generator of patients")
    parser.add_argument("--pack", default="face128")
    parser.add_argument("--install", action="store_true")
    given = parser.parse_args()
    for half, (name, most) in enumerate((("patients", CLINIC), ("public", PUBLIC))):
        halved(given.utkface, given.out / name, most, half)
    names = {str(given.out): "WORK", str(given.celeba): "CELEBA", str(given.utkface): "UTKFACE"}
    for name, made, arguments in steps(given.celeba, given.utkface, given.out, given.steps, given.pack):
        if not made.exists():
            subprocess.run([sys.executable, "-m", "updp", *arguments], check=True)
        if given.install and name != "clinic":
            words = " ".join(["updp", *arguments])
            for path, short in names.items():
                words = words.replace(path, short)
            facts = {"command": words, **json.loads(made.read_text("utf-8"))}
            (DOCS / "figures" / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    if given.install:
        subprocess.run([sys.executable, str(DOCS / "generate.py")], check=True)


if __name__ == "__main__":
    main()
