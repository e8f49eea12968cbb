"""What a pack of faces is trained on: framed photographs of training people, diseases rendered on them by the clinic.

A source whose people have several photographs stands for patients: people at a place below 0.5 under the benchmark key
may train (from 0.47 on they validate), the others never do. In a source with one photograph each, public faces, 3 in
100 validate. Every photograph is taken as it is, and with one or more rendered diseases.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.core.reasons import Refused
from updp.core.record import BENCHMARK_KEY, Study, place_of
from updp.domains.face.labels import DISEASES, GRADES
from updp.domains.face.landmarks import COUNT
from updp.training.corpus import NoUsableFilm, record_of_splits

RULE = (
    "people with several photographs at a place below 0.5 under the benchmark key, 0.47 to 0.5 for validation, the "
    "others reserved; of people with one photograph 3 in 100 for validation"
)
_MAY_TRAIN, _VALIDATES = 0.5, 0.47


@dataclass(frozen=True)
class FaceCorpus:
    """Framed photographs and what is rendered on them, row by row."""

    films: NDArray[np.uint8]  # N×S×S×3
    masks: NDArray[np.uint8]  # N×S×S, 1 where a disease shows
    labels: NDArray[np.float32]  # N×diseases; a row of zeros is normal
    patients: NDArray[np.str_]
    splits: NDArray[np.str_]  # train, val
    ids: NDArray[np.str_]
    photos: NDArray[np.int64]  # which photograph a row was made from
    points: NDArray[np.float32]  # N×106×2, in pixels of the frame

    def rows(self, split: str) -> NDArray[np.int64]:
        return np.flatnonzero(self.splits == split)

    def record_of_splits(self) -> dict[str, Any]:
        return {"rule": RULE, "name": "people"} | record_of_splits(self, ("train", "val"))


def split_for(person: str, photographs: int) -> str:
    """train, val or reserved."""
    if photographs > 1:
        place = place_of(person, BENCHMARK_KEY)
        return "reserved" if place >= _MAY_TRAIN else "val" if place >= _VALIDATES else "train"
    return "val" if int(hashlib.sha256(person.encode()).hexdigest()[:6], 16) % 100 < 3 else "train"


def prepare_faces(
    sources: Sequence[str | Path],
    directory: Path,
    size: int,
    *,
    looks: int = 3,
    seed: int = 0,
    limit: int | None = None,
    ill: int | None = None,
    say: Callable[[str], None] = print,
) -> FaceCorpus:
    """Frame the photographs of training people and render ``looks`` rows of each, the first as it is.

    Photographs are framed once into ``directory``; a call that was killed goes on with the next one. ``limit`` is the
    most photographs of each source, ``ill`` the most that diseases are rendered on, chosen by chance.
    """
    directory.mkdir(parents=True, exist_ok=True)
    table, pixels = directory / "photographs.jsonl", directory / "photographs.u8"
    if not (directory / "framed").exists():
        _frame(sources, table, pixels, size, limit, say)
        (directory / "framed").touch()
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    rows = [row for row in rows if row["points"]]
    if not any(row["split"] == "train" for row in rows):
        raise NoUsableFilm(f"no usable face to train on among {len(rows)} photographs: check the source")
    photos = np.fromfile(pixels, np.uint8).reshape(-1, size, size, 3)[: len(rows)]
    return _rendered(rows, photos, directory / "rendered.npz", looks, seed, ill, say)


def _frame(
    sources: Sequence[str | Path], table: Path, pixels: Path, size: int, limit: int | None, say: Callable[[str], None]
) -> None:
    from updp.domains.face.frame import framed
    from updp.domains.face.landmarks import points_of
    from updp.sources import open_source

    done = [json.loads(line) for line in table.read_text().splitlines()] if table.exists() else []
    held = {row["id"] for row in done}
    with open(table, "a", encoding="utf-8") as rows, open(pixels, "ab") as file:
        # A photograph is written before its row, so that after a kill there may be one photograph too many.
        os.truncate(file.fileno(), sum(bool(row["points"]) for row in done) * size * size * 3)
        for number, path in enumerate(sources):
            source = open_source(path, domain="face")
            for study, split in _shared_out(source, limit):
                name = f"{number}/{study.film_id}"
                if name in held:
                    continue
                row: dict[str, Any] = {"id": name, "patient": f"{number}/{study.patient_id}", "split": split}
                try:
                    found = source.domain.examined(source.load(study))
                    points = points_of(found)
                    assert found.pixels is not None
                    assert points is not None
                    photo, moved = framed(np.rint(found.pixels * 255).astype(np.uint8), points, size)
                    file.write(photo.tobytes())
                    file.flush()
                    row["points"] = np.round(moved, 2).ravel().tolist()
                except Refused:
                    row["points"] = []
                rows.write(json.dumps(row) + "\n")
                rows.flush()
            say(f"framed {path}")


def _shared_out(source: Any, limit: int | None) -> Iterator[tuple[Study, str]]:
    studies = [item for item in source if isinstance(item, Study)]
    counts = Counter(study.patient_id for study in studies)
    given = 0
    for study in studies:
        split = split_for(study.patient_id, counts[study.patient_id])
        if split != "reserved" and given != limit:
            given += 1
            yield study, split


def _rendered(
    rows: list[dict[str, Any]],
    photos: NDArray[np.uint8],
    path: Path,
    looks: int,
    seed: int,
    ill: int | None,
    say: Callable[[str], None],
) -> FaceCorpus:
    from updp.domains.face.manifestations import Sign, render

    if not path.exists():
        films, masks, diseases, moved, of = [], [], [], [], []
        with_diseases = set(np.random.default_rng([seed, *b"ill"]).permutation(len(rows))[:ill].tolist())
        for n, (row, photo) in enumerate(zip(rows, photos, strict=True)):
            points = np.array(row["points"], np.float64).reshape(COUNT, 2)
            for look in range(looks if n in with_diseases else 1):
                rng = np.random.default_rng([seed, n, look])
                which = -1 if look == 0 else int(rng.integers(len(DISEASES)))
                sign = None
                if which >= 0:
                    side, grade = ("left", "right")[int(rng.integers(2))], GRADES[int(rng.integers(3))]
                    sign = Sign(DISEASES[which], grade, side, int(rng.integers(2**31)), bool(rng.random() < 0.5))
                made = render(photo.astype(np.float32) / np.float32(255), points, sign)
                films.append(np.rint(made.pixels * 255).astype(np.uint8))
                masks.append(np.packbits(made.mask))
                diseases.append(which)
                moved.append(made.points.astype(np.float32))
                of.append(n)
            if n % 200 == 199:
                say(f"rendered {n + 1} of {len(rows)} photographs")
        part = path.with_suffix(".part.npz")
        np.savez(part, films=films, masks=masks, diseases=diseases, points=moved, photos=of)
        os.replace(part, path)
    held = np.load(path)
    films, photo_of, diseases = held["films"], held["photos"], held["diseases"]
    size = films.shape[1]
    labels = (diseases[:, None] == np.arange(len(DISEASES))).astype(np.float32)
    return FaceCorpus(
        films,
        np.unpackbits(held["masks"], axis=1)[:, : size * size].reshape(-1, size, size),
        labels,
        np.array([rows[n]["patient"] for n in photo_of]),
        np.array([rows[n]["split"] for n in photo_of]),
        np.array([f"{rows[n]['id']}+{k}" for k, n in enumerate(photo_of)]),
        photo_of,
        held["points"],
    )
