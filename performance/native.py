"""Native films: what `updp clean` costs a film beside a tool that cleans headers alone.

    python performance/native.py [--films N] [--rounds N] [--ocr N]

Invented DX films of 2 500 x 2 000 pixels at 12 bits, headers as in `headers.py`. dicom-anonymizer (2024b rules)
reads, cleans the header and saves; pixels are not looked at. updp decodes the pixels, cleans the header, reads the film
for burned-in text (the last row), encodes, writes and sums up every film. The floor is below whatever writes a film and
its checksum: the bytes are read, summed up by SHA-256 and written, and nothing else. Seconds are of the processor, in
one process and on one thread, the tools taking turns; best of the rounds.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from performance.headers import _save, ordinary
from updp.core.global_state import quiet
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.record import Study
from updp.pipeline import stations
from updp.release.film_file import film_file
from updp.release.shard import Film, place_film
from updp.sources import open_under

warnings.simplefilter("ignore")
SIDES = (2500, 2000)
KEY = Key(b"benchmark key, 32 bytes long....!"[:32])


def film(number: int) -> np.ndarray:
    """A field with a bright middle and grain, over most of twelve bits."""
    y, x = np.mgrid[-1 : 1 : SIDES[0] * 1j, -1 : 1 : SIDES[1] * 1j]
    shade = 300 + 3000 * np.exp(-1.5 * ((x - 0.1 * number / 8) ** 2 + y**2)) * (1 + 0.2 * np.cos(9 * x))
    return (shade + np.random.default_rng(number).normal(0, 12, SIDES)).clip(0, 4095).astype(np.uint16)


def write_films(folder: Path, count: int) -> list[Path]:
    folder.mkdir()
    paths = []
    for number in range(count):
        dataset = ordinary(number + 1, "DX")
        dataset.Rows, dataset.Columns = SIDES
        dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 16, 12, 11, 0
        dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
        dataset.WindowCenter, dataset.WindowWidth = 2048, 4096
        dataset.PixelData = film(number).tobytes()
        dataset["PixelData"].VR = "OW"
        paths.append(folder / f"{number}.dcm")
        _save(dataset, paths[-1])
    return paths


def header_only(paths: list[Path], out: Path) -> Callable[[], None]:
    from dicomanonymizer.simpledicomanonymizer import (  # type: ignore[import-untyped]
        anonymize_dicom_file,
        initialize_actions_2024b,
    )

    def work() -> None:
        for path in paths:
            anonymize_dicom_file(str(path), str(out / path.name), base_rules_gen=initialize_actions_2024b)

    return work


def floor(paths: list[Path], out: Path, digest: bool) -> Callable[[], None]:
    def work() -> None:
        for path in paths:
            data = path.read_bytes()
            if digest:
                hashlib.sha256(data).hexdigest()
            (out / path.name).write_bytes(data)

    return work


def cleaning(folder: Path, out: Path, mode: str, syntax: str, limit: int | None) -> Callable[[], None]:
    policy = Policy.preset("clean-only").with_image(transfer_syntax=syntax)
    policy = policy.model_copy(update={"burned_in": policy.burned_in.model_copy(update={"mode": mode})})
    source = open_under(policy, folder, limit=limit, native=True)
    line = stations.build(source, policy, KEY)
    make = stations.MakeFilm(policy, KEY, 0, source.domain.name)
    (out / ".work" / "build" / "images").mkdir(parents=True)
    studies = [item for item in source if isinstance(item, Study)]

    @quiet()  # as the pipeline does, once per shard
    def work() -> None:
        for study in studies:
            passed = stations.passage(study, line)
            assert isinstance(passed, Study), passed
            (made,) = make([passed])
            assert isinstance(made, Study)
            data, suffix = film_file(made, policy)
            row = stations.manifest_row(made, "00000", suffix, policy)
            place_film(out, Film(data, None, row, "", ""))

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ocr", type=int, default=2, help="films that are read for burned-in text, in one round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        paths = write_films(place / "films", options.films)
        for name in ("peer", "floor"):
            (place / name).mkdir()
        works = {
            "dicom-anonymizer 2024b, header only": (header_only(paths, place / "peer"), options.films),
            "floor: read, summed up, written": (floor(paths, place / "floor", True), options.films),
            "read and written alone": (floor(paths, place / "floor", False), options.films),
        }
        for name, mode, syntax, count in (
            ("updp clean without OCR, uncompressed", "off", "explicit-le", options.films),
            ("updp clean without OCR, JPEG-LS", "off", "jpeg-ls", min(2, options.films)),
            ("updp clean without OCR, JPEG 2000", "off", "jpeg-2000", min(2, options.films)),
            ("updp clean with OCR, uncompressed", "ocr", "explicit-le", min(options.ocr, options.films)),
        ):
            out = place / f"{mode}-{syntax}"
            works[name] = cleaning(place / "films", out, mode, syntax, count), count
        best: dict[str, float] = {}
        for turn in range(options.rounds + 1):
            for name, (work, count) in works.items():
                if turn > 1 and count < options.films:
                    continue  # slow ones once, after the round in which models and tables are loaded
                start = time.process_time()
                work()
                spent = (time.process_time() - start) / count
                if turn:
                    best[name] = min(best.get(name, spent), spent)
    peer = next(iter(best.values()))
    print("| tool | ms per film | films per second beside header only |\n|---|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {1000 * seconds:.0f} | {peer / seconds:.2f} x |")


if __name__ == "__main__":
    main()
