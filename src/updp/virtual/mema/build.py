"""`updp mema build`: a set of photographs of patients who do not exist (Tian et al., AAAI 2025, "MeMa").

A generator learns a clinic's patients. Sampled directly it repeats them; with the features of a public face injected,
at a weight drawn from 0.2 to 0.4, it does less. Diseases, grades, ages and sexes are drawn as the clinic has them. What
is nearer to a patient than a recogniser's threshold, which one in a thousand pairs of strangers exceeds, is left out.
Photographs with a tumour get a mask from the segmenter of a pack; those with one are the segmentation subset.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from updp.core.storage import write_bytes
from updp.domains.face.frame import GOAL
from updp.domains.face.labels import DISEASES, GRADES
from updp.models.face_patients import PatientDenoiser
from updp.models.face_space import FaceSpace
from updp.models.faces import EyeSegmenter
from updp.training.face_stages import latents_of
from updp.training.loop import StageConfig
from updp.virtual.mema.training import CONFIG, People, one_hot, read_people, train_patients

#: Weight of a public face, and the shares of the splits, as in the paper.
WEIGHTS, SPLITS = (0.2, 0.4), {"train": 0.80, "val": 0.09, "test": 0.11}
FALSE_ACCEPTANCE = 1e-3
_BATCH = 64
#: Diseases whose lesion is masked, and the share of the frame that a mask covers: less is noise, more is no tumour.
TUMOURS, COVERED = ("BCC", "SCC"), (5e-4, 0.05)

#: Framed photographs to unit features.
Recogniser = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


class BadMema(ValueError):
    """The set cannot be built; the message says why."""


@dataclass(frozen=True)
class Wanted:
    """What a sample shall show: rows of the sampling."""

    disease: NDArray[np.int64]
    grade: NDArray[np.int64]
    public: NDArray[np.int64]  # row of the public face


def guided(clinic: People, public: People, count: int, rng: np.random.Generator) -> Wanted:
    """Diseases, grades, ages and sexes as in the clinic: a patient is drawn, and a public face like him."""
    patients = rng.integers(len(clinic), size=count)
    chosen = np.zeros(count, np.int64)
    for n, row in enumerate(patients):
        alike = np.ones(len(public), bool)
        for ours, theirs in ((clinic.sex, public.sex), (clinic.age, public.age)):
            same = alike & (theirs == ours[row])
            if str(ours[row]) not in ("", "-1") and same.any():
                alike = same
        chosen[n] = rng.choice(np.flatnonzero(alike))
    return Wanted(clinic.disease[patients], clinic.grade[patients], chosen)


def at_random(public: People, count: int, rng: np.random.Generator) -> Wanted:
    """Every disease and every public face as likely as any other."""
    disease = rng.integers(-1, len(DISEASES), size=count)
    return Wanted(
        disease, np.where(disease < 0, -1, rng.integers(len(GRADES), size=count)), rng.integers(len(public), size=count)
    )


def sampled(
    net: PatientDenoiser, space: FaceSpace, wanted: Wanted, public: People | None, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Photographs; without public people nothing is injected."""
    out = []
    for start in range(0, len(wanted.disease), _BATCH):
        part = slice(start, start + _BATCH)
        disease, grade = one_hot(wanted.disease[part], len(DISEASES)), one_hot(wanted.grade[part], len(GRADES))
        noise = torch.from_numpy(rng.standard_normal((len(disease), net.components), np.float32))
        weight = torch.from_numpy(rng.uniform(*WEIGHTS, len(disease)).astype(np.float32))
        faces = None
        if public is not None:
            faces = latents_of(space, public.films[wanted.public[part]])[:, : space.components]
        made = net.sample(disease, grade, noise, faces, weight)
        with torch.no_grad():
            face, eyes = made[:, : space.components], made[:, space.components :]
            images = (space.decode(face) + space.decode_eyes(eyes)).clamp(0, 1)
        out.append((images * 255).round().byte().permute(0, 2, 3, 1).numpy())
    return np.concatenate(out)


def threshold(features: NDArray[np.float32], people: NDArray[np.str_]) -> float:
    """The cosine that one in a thousand pairs of different people exceeds."""
    alike = features @ features.T
    others = alike[people[:, None] != people[None]]
    if len(others) < 2:
        raise BadMema("a clinic with one person gives no threshold: give one with several")
    return float(np.quantile(others, 1 - FALSE_ACCEPTANCE))


def leaked(made: NDArray[np.float32], clinic: NDArray[np.float32], limit: float) -> NDArray[np.bool_]:
    """Which samples are as near to a patient as only one in a thousand strangers is."""
    near: NDArray[np.bool_] = (made @ clinic.T).max(1) > limit
    return near


def variation(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """Total variation between two distributions over the same values."""
    values = np.unique(np.concatenate([ours, theirs]))
    return float(0.5 * sum(abs((ours == value).mean() - (theirs == value).mean()) for value in values))


def wasserstein(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> float | None:
    """Wasserstein distance of ages in decades; None where an age is not known."""
    from scipy.stats import wasserstein_distance

    known = [x[x >= 0] for x in (ours, theirs)]
    return float(wasserstein_distance(*known)) if all(map(len, known)) else None


def installed_recognisers() -> dict[str, Recogniser]:
    from updp.models import recognisers

    def asked(name: str) -> Recogniser:
        def features(films: NDArray[np.uint8]) -> NDArray[np.float32]:
            return recognisers.embed(name, films, np.repeat(GOAL[None] * films.shape[1], len(films), 0))

        return features

    return {name: asked(name) for name in recognisers.available()}


def build(
    clinic: Path,
    public: Path,
    out: Path,
    space: FaceSpace,
    *,
    seed: int,
    images: int = 200,
    judged: int = 200,
    config: StageConfig = CONFIG,
    model: dict[str, Any] | None = None,
    recognisers: dict[str, Recogniser] | None = None,
    segmenter: EyeSegmenter | None = None,
    run: Path | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Write the set to ``out`` in MeMa's layout, with a card and its figures; gives the figures.

    ``judged`` samples of each way of sampling say how many patients leak. Without a ``segmenter`` there are no masks. A
    second call goes on with the training.
    """
    if out.exists() and any(out.iterdir()):
        raise BadMema(f"{out} is not empty; choose another folder")
    run = run or out.with_name(out.name + ".run")
    patients, others = read_people(clinic, space.side), read_people(public, space.side)
    say(f"{len(patients)} photographs of the clinic, {len(others)} public faces")
    net = train_patients(patients, space, run, config, model, say)
    asked = recognisers if recognisers is not None else installed_recognisers()
    real = {name: ask(patients.films) for name, ask in asked.items()}
    limits = {name: threshold(found, patients.patients) for name, found in real.items()}
    figures: dict[str, Any] = {"leakage": {}, "distance": {}, "thresholds": limits}

    def near(films: NDArray[np.uint8]) -> dict[str, NDArray[np.bool_]]:
        return {name: leaked(ask(films), real[name], limits[name]) for name, ask in asked.items()}

    rng = np.random.default_rng([seed, *b"mema"])
    ways = {
        "direct": (guided(patients, others, judged, rng), None),
        "injected": (guided(patients, others, judged, rng), others),
    }
    for way, (wanted, faces) in ways.items():
        share = {name: float(rows.mean()) for name, rows in near(sampled(net, space, wanted, faces, rng)).items()}
        figures["leakage"][way] = share | {"average": float(np.mean(list(share.values()))) if share else None}
    for way, wanted in (("random", at_random(others, images, rng)), ("guided", guided(patients, others, images, rng))):
        figures["distance"][way] = {
            "disease (total variation)": variation(wanted.disease, patients.disease),
            "sex (total variation)": variation(others.sex[wanted.public], patients.sex),
            "age (decades, Wasserstein)": wasserstein(others.age[wanted.public], patients.age),
        }
    wanted = guided(patients, others, images, rng)
    films = sampled(net, space, wanted, others, rng)
    dropped = np.zeros(images, bool)
    for rows in near(films).values():
        dropped |= rows
    figures["written"], figures["dropped"] = int((~dropped).sum()), int(dropped.sum())
    out.mkdir(parents=True, exist_ok=True)
    masks = masks_of(films, wanted, segmenter)
    figures["tumours"] = sum(n in masks for n in np.flatnonzero(~dropped).tolist())
    _write(out, films, masks, wanted, dropped, rng)
    write_bytes(out / "figures.json", json.dumps(figures, indent=1).encode())
    write_bytes(out / "README.md", _card(figures, len(patients)).encode())
    return figures


def masks_of(
    films: NDArray[np.uint8], wanted: Wanted, segmenter: EyeSegmenter | None
) -> dict[int, NDArray[np.float32]]:
    """Masks of the photographs that were drawn with a tumour, where the segmenter finds one of a tumour's size."""
    from updp.methods.invented_face.method import as_tensor

    rows = np.flatnonzero(np.isin(wanted.disease, [DISEASES.index(name) for name in TUMOURS]))
    if segmenter is None or not len(rows):
        return {}
    found = (segmenter.masks(as_tensor(films[rows])) > 0.5).float().numpy()[:, 0]
    return {int(n): mask for n, mask in zip(rows, found, strict=True) if COVERED[0] <= float(mask.mean()) <= COVERED[1]}


def _write(
    out: Path,
    films: NDArray[np.uint8],
    masks: dict[int, NDArray[np.float32]],
    wanted: Wanted,
    dropped: NDArray[np.bool_],
    rng: np.random.Generator,
) -> None:
    from updp.imaging.encode import encode_png

    splits = rng.choice(list(SPLITS), size=len(films), p=list(SPLITS.values()))
    for n, film in enumerate(films):
        if dropped[n]:
            continue
        name = DISEASES[wanted.disease[n]] if wanted.disease[n] >= 0 else "Normal"
        grade = f"-{GRADES[wanted.grade[n]]}" if wanted.grade[n] >= 0 else ""
        path = out / str(splits[n]) / name / f"{n:06d}{grade}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, encode_png(film.astype(np.float32) / np.float32(255)))
        if n in masks:
            mask = out / "masks" / path.relative_to(out)
            mask.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(mask, encode_png(masks[n]))


def _card(figures: dict[str, Any], photographs: int) -> str:
    lines = [
        "# Photographs of patients who do not exist",
        "",
        f"Made by `updp mema build` after MeMa (Tian et al., AAAI 2025) from {photographs} photographs of a clinic. No",
        "photograph is of a person; each was drawn in a linear space of faces and is smooth, as such faces are.",
        "",
        f"{figures['written']} photographs; {figures['dropped']} were rejected: too near to a patient.",
        f"{figures['tumours']} with a tumour have a mask (below `masks`), as a network found it.",
        "",
        "| sampled | recogniser | nearest patient within the threshold |",
        "|---|---|---|",
    ]
    for way, shares in figures["leakage"].items():
        lines += [f"| {way} | {name} | {'–' if share is None else f'{share:.1%}'} |" for name, share in shares.items()]
    lines += ["", "| drawn | distance to the clinic | |", "|---|---|---|"]
    for way, shares in figures["distance"].items():
        lines += [f"| {way} | {name} | {'–' if v is None else f'{v:.3f}'} |" for name, v in shares.items()]
    return "\n".join(lines) + "\n"
