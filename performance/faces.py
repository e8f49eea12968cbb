"""How far recognisers follow a person into released faces: ``python performance/faces.py --data CELEBA``.

People are those whom no model of the package may learn from (``training.faces.split_for``), with two photographs each
or more. Every recogniser that is installed compares released photographs with other real photographs of the same and of
other people. Prints, per method and recogniser: ID distance of a released photograph to its original beside that of two
different people, verification AUC and accuracy, rank-1 in a gallery of other photographs. Of methods that can be turned
back: how near the recovered photographs are, with the right password and with one that is wrong in one bit.

``--out FILE`` keeps each method's figures; a method that is in the file already is not run again.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from updp.core.cache import MemoryCache
from updp.core.reasons import Refused
from updp.core.record import Study
from updp.domains.face.frame import GOAL, five_of, framed
from updp.domains.face.landmarks import points_of
from updp.evaluation.probes.base import balanced_pairs
from updp.evaluation.probes.photographs import find_all
from updp.evaluation.statistics import auc
from updp.imaging.square import square
from updp.methods import make_method, method_info
from updp.methods.base import BadPassword, Reversible
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


def psnr(truth: Any, found: Any) -> float:
    error = [np.mean((a.astype(float) - b) ** 2) / 255**2 for a, b in zip(truth, found, strict=True)]
    return float(np.mean(-10 * np.log10(np.maximum(error, 1e-9))))


def perceptual(truth: Any, found: Any) -> float | None:
    """LPIPS with AlexNet, if its weights are installed."""
    import torch

    from updp.models.lpips import Lpips, installed_weights

    try:
        measure = Lpips(installed_weights())
    except Exception:  # a figure more, not one that is needed
        return None
    a, b = (torch.from_numpy(np.stack(x)).permute(0, 3, 1, 2).float() / 255 for x in (truth, found))
    with torch.no_grad():
        return float(torch.cat([measure(x, y) for x, y in zip(a.split(8), b.split(8), strict=True)]).mean())


def verified(same: Any, score: Any) -> float:
    """Accuracy at the threshold of the other half of the pairs."""
    out = []
    for half in (0, 1):
        learn, rest = slice(half, None, 2), slice(1 - half, None, 2)
        limits = np.unique(score[learn])
        best = limits[np.argmax([((score[learn] >= limit) == same[learn]).mean() for limit in limits])]
        out.append(((score[rest] >= best) == same[rest]).mean())
    return float(np.mean(out))


def measured(setting: str, options: dict[str, Any], studies: list[Study], real: dict[str, Any], pairs: Any) -> Any:
    """Figures of one method."""
    import time

    name, _, strength = setting.partition(":")
    method = make_method(name, options, "face")
    people = np.array([study.patient_id for study in studies])
    points = [points_of(study) for study in studies]
    photos = [eight(study.pixels) for study in studies]
    size = photos[0].shape[0]
    words = [np.random.default_rng([1, n]).bytes(32) for n in range(len(studies))]
    streams = [np.random.default_rng([1, n]) for n in range(len(studies))]
    begun = time.process_time()
    made = method.deidentify(studies, float(strength) if strength else None, streams)
    figures: dict[str, Any] = {"seconds": (time.process_time() - begun) / len(studies)}
    films = [eight(one.pixels) for one in made]
    released = np.stack([eight(square(film / np.float32(255), size, "stretch")) for film in films])
    found = find_all(released, MemoryCache())
    figures["faces found"] = float(found.there.mean())
    for recogniser, own in real.items():
        new = recognisers.embed(recogniser, released, found.fives)
        score = np.einsum("ij,ij->i", new[pairs.left], own[pairs.right])
        alike = new @ own.T
        np.fill_diagonal(alike, -np.inf)
        figures[recogniser] = {
            "ID distance": float(np.linalg.norm(new - own, axis=1).mean()),
            "AUC": float(auc(pairs.same, score)),
            "verification": verified(pairs.same, score),
            "rank-1": float((people[alike.argmax(1)] == people).mean()),
        }
    if not isinstance(method, Reversible) or getattr(method.options, "recovery", "") == "none":
        return figures
    truth = [framed(photo, own, len(film))[0] for photo, own, film in zip(photos, points, films, strict=True)]
    fives = np.repeat(GOAL[None] * len(films[0]), len(films), 0)
    near = [bytes([word[0] ^ 1]) + word[1:] for word in words]
    for which, given in (("right", words), ("near", near)):
        try:
            back = method.recover(films, given)
        except BadPassword:
            figures[which] = "refused"
            continue
        figures[which] = {"PSNR": psnr(truth, back), "LPIPS": perceptual(truth, back)}
        for recogniser in real:
            a, b = (recognisers.embed(recogniser, np.stack(x), fives) for x in (truth, back))
            figures[which][f"ID distance {recogniser}"] = float(np.linalg.norm(a - b, axis=1).mean())
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--photographs", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=["keep", "invented-face:1.0", "invented-face:0.5", "eye-box"])
    parser.add_argument("--pack", help="the pack of faces for methods that need one; default: their own")
    parser.add_argument("--out", type=Path, help="JSON file that keeps the figures")
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    studies = reserved(given.data, given.people, given.photographs)
    people = np.array([study.patient_id for study in studies])
    print(f"{len(studies)} photographs of {len(set(people.tolist()))} people", flush=True)
    points = [points_of(study) for study in studies]
    fives = np.stack([five_of(own) for own in points])
    size = studies[0].pixels.shape[0] if studies[0].pixels is not None else 0
    same_size = np.stack([eight(square(study.pixels, size, "crop")) for study in studies])
    real = {name: recognisers.embed(name, same_size, fives) for name in recognisers.available()}
    print("recognisers:", ", ".join(real), flush=True)
    pairs = balanced_pairs(people, np.arange(len(people)), np.random.default_rng(0), 6, ordered=True)
    for name, own in real.items():
        apart = np.linalg.norm(own[pairs.left] - own[pairs.right], axis=1)
        kept[f"real {name}"] = [float(apart[pairs.same].mean()), float(apart[~pairs.same].mean())]
        print(
            f"{name}: real, same person {kept[f'real {name}'][0]:.3f}, others {kept[f'real {name}'][1]:.3f}", flush=True
        )
    for setting in given.methods:
        if setting not in kept:
            packed = bool({"space", "medical"} & method_info(setting.partition(":")[0]).needs)
            options = {"pack": given.pack} if given.pack and packed else {}
            kept[setting] = measured(setting, options, studies, real, pairs)
            if given.out:
                given.out.write_text(json.dumps(kept, indent=1))
        print(f"{setting} | {json.dumps(kept[setting])}", flush=True)


if __name__ == "__main__":
    main()
