"""How far recognisers follow a person into released faces: ``python performance/faces.py --data CELEBA``.

People are those whom no model of the package may learn from (``training.faces.split_for``), with two photographs each
or more. Every recogniser that is installed compares released photographs with other real photographs of the same and of
other people. Prints, per method and recogniser: ID distance of a released photograph to its original beside that of two
different people, verification AUC, rank-1 in a gallery of other photographs; and how well originals come back.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from updp.core.cache import MemoryCache
from updp.core.reasons import Refused
from updp.core.record import Study
from updp.domains.face.frame import five_of, framed
from updp.domains.face.landmarks import points_of
from updp.evaluation.probes.base import balanced_pairs
from updp.evaluation.probes.photographs import find_all
from updp.evaluation.statistics import auc
from updp.imaging.square import square
from updp.methods import make_method
from updp.methods.base import Reversible
from updp.models import recognisers
from updp.sources import open_source
from updp.training.faces import split_for


def reserved(data: Path, people: int, photographs: int) -> list[Study]:
    """Photographs of reserved people, with landmarks."""
    source = open_source(data, domain="face")
    items = [item for item in source if isinstance(item, Study)]
    counts = Counter(item.patient_id for item in items)
    taken: dict[str, list[Study]] = {}
    for item in items:
        own = taken.get(item.patient_id, [])
        if split_for(item.patient_id, counts[item.patient_id]) != "reserved" or len(own) == photographs:
            continue
        if item.patient_id not in taken and len(taken) == people:
            continue
        try:
            taken.setdefault(item.patient_id, []).append(source.domain.examined(source.load(item)))
        except Refused:
            continue
    return [study for own in taken.values() if len(own) > 1 for study in own]


def eight(pixels: Any) -> Any:
    return np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--photographs", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=["keep", "invented-face:1.0", "invented-face:0.5", "eye-box"])
    given = parser.parse_args()
    studies = reserved(given.data, given.people, given.photographs)
    people = np.array([study.patient_id for study in studies])
    print(f"{len(studies)} photographs of {len(set(people.tolist()))} people", flush=True)
    photos = [eight(study.pixels) for study in studies]
    points = [points_of(study) for study in studies]
    fives = np.stack([five_of(own) for own in points])
    size = photos[0].shape[0]
    same_size = np.stack([eight(square(study.pixels, size, "crop")) for study in studies])
    real = {name: recognisers.embed(name, same_size, fives) for name in recognisers.available()}
    print("recognisers:", ", ".join(real), flush=True)
    pairs = balanced_pairs(people, np.arange(len(people)), np.random.default_rng(0), 6, ordered=True)
    for name, own in real.items():
        apart = np.linalg.norm(own[pairs.left] - own[pairs.right], axis=1)
        print(
            f"{name}: real, same person {apart[pairs.same].mean():.3f}, others {apart[~pairs.same].mean():.3f}",
            flush=True,
        )
    for setting in given.methods:
        method_name, _, strength = setting.partition(":")
        method = make_method(method_name, {}, "face")
        streams = [np.random.default_rng([1, n]) for n in range(len(studies))]
        made = method.deidentify(studies, float(strength) if strength else None, streams)
        films = [eight(one.pixels) for one in made]
        released = np.stack([eight(square(film / np.float32(255), size, "stretch")) for film in films])
        found = find_all(released, MemoryCache())
        for name, own in real.items():
            new = recognisers.embed(name, released, found.fives)
            score = np.einsum("ij,ij->i", new[pairs.left], own[pairs.right])
            alike = new @ own.T
            np.fill_diagonal(alike, -np.inf)
            first = float((people[alike.argmax(1)] == people).mean())
            print(
                f"{setting} | {name} | ID distance {np.linalg.norm(new - own, axis=1).mean():.3f} | "
                f"AUC {auc(pairs.same, score):.3f} | rank-1 {first:.3f} | faces found {found.there.mean():.2f}",
                flush=True,
            )
        if isinstance(method, Reversible):
            words = [np.random.default_rng([1, n]).bytes(32) for n in range(len(studies))]
            back = method.recover(films, words)
            truth = [framed(photo, own, len(film))[0] for photo, own, film in zip(photos, points, films, strict=True)]
            error = [np.mean((a.astype(float) - b) ** 2) / 255**2 for a, b in zip(truth, back, strict=True)]
            print(f"{setting} | recovery PSNR {np.mean(-10 * np.log10(np.maximum(error, 1e-9))):.2f} dB", flush=True)


if __name__ == "__main__":
    main()
