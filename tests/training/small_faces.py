"""A corpus of a few invented faces, and a pack of networks that learned next to nothing from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from updp.domains.face.frame import framed
from updp.domains.face.labels import DISEASES, GRADES
from updp.domains.face.manifestations import Sign, render
from updp.domains.face.people import people
from updp.models.pack import Pack
from updp.training.face_recipe import FacePackConfig, train_face_pack
from updp.training.faces import FaceCorpus

SIDE = 32
SMALL = {"steps": 2, "batch": 4, "warmup": 1}
CONFIG = FacePackConfig(
    name="tiny-faces",
    size=SIDE,
    identity_model={"space": 16, "widths": [8, 8]},
    classifier_model={"widths": [8, 8, 8]},
    segmenter_model={"widths": [8, 8]},
    medical_model={"widths": [8, 8, 16]},
    space_model={"components": 8, "eyes": 4, "persons": 4},
).but(identity=SMALL, classifier=SMALL, segmenter=SMALL, medical=SMALL)


def invented(count: int, side: int = SIDE) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Faces of the package in the frame, with their landmarks."""
    pairs = [framed(person.photo, person.points, side) for person in people(count)]
    return np.stack([film for film, _ in pairs]), np.stack([points for _, points in pairs])


def corpus(count: int = 6, side: int = SIDE) -> FaceCorpus:
    films, points = invented(count, side)
    made = []
    for n in range(count):
        sign = Sign(DISEASES[n % len(DISEASES)], GRADES[n % 3], "left", n)
        made += [render(films[n] / np.float32(255), points[n], own) for own in (None, sign)]
    labels = np.zeros((2 * count, len(DISEASES)), np.float32)
    labels[np.arange(1, 2 * count, 2), np.arange(count) % len(DISEASES)] = 1
    of = np.repeat(np.arange(count), 2)
    return FaceCorpus(
        np.stack([np.rint(one.pixels * 255).astype(np.uint8) for one in made]),
        np.stack([one.mask.astype(np.uint8) for one in made]),
        labels,
        np.array([f"0/{n // 2}" for n in of]),
        np.where(of < count - 2, "train", "val"),
        np.array([f"0/{n}+{k}" for k, n in enumerate(of)]),
        of,
        np.stack([one.points.astype(np.float32) for one in made]),
    )


def teacher(films: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A recogniser that looks at mean colours of sixteen places."""
    cells = films[:, :, :, 0].reshape(len(films), 4, films.shape[1] // 4, 4, -1).mean((2, 4)).reshape(len(films), 16)
    cells = cells - cells.mean(1, keepdims=True)
    unit: NDArray[np.float32] = (cells / np.maximum(np.linalg.norm(cells, axis=1, keepdims=True), 1e-6)).astype(
        np.float32
    )
    return unit


def pack(folder: Path) -> Pack:
    return train_face_pack(corpus(), folder, CONFIG, teacher=teacher, say=lambda line: None)
