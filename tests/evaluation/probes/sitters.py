"""An exhibit of invented faces for tests of the probes: people, and photographs of each with other light."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tests.domains.face.photographs import FACES, face
from updp.domains.face.finder import Face
from updp.domains.face.labels import LABELS
from updp.domains.face.landmarks import EYES, MOUTH_CORNERS, NOSE_TIP
from updp.evaluation.cohort.exhibit import Exhibit

PEOPLE, EACH, SIDE = 24, 2, 96


@lru_cache(maxsize=1)
def photographs() -> np.ndarray:
    out = []
    for n in range(PEOPLE):
        small = np.asarray(face(n).resize((SIDE, SIDE))).astype(int)
        for k in range(EACH):
            rng = np.random.default_rng([n, k])
            moved = np.roll(small, tuple(rng.integers(-2, 3, 2)), (0, 1))
            out.append(np.clip(moved * rng.uniform(0.85, 1.1) + rng.normal(0, 3, moved.shape), 0, 255).astype(np.uint8))
    return np.stack(out)


def exhibit(released: np.ndarray) -> Exhibit:
    """Real photographs beside these; every other person is labelled with a tumour."""
    count = PEOPLE * EACH
    patients = np.repeat([f"p{n:02d}" for n in range(PEOPLE)], EACH)
    labels = np.zeros((count, len(LABELS.classes)), np.float32)
    labels[np.arange(count) // EACH % 2 == 0, LABELS.classes.index("BCC")] = 1
    return Exhibit(
        real=photographs(),
        released=released,
        patients=patients,
        splits=np.repeat(["train" if n % 3 else "test" for n in range(PEOPLE)], EACH),
        views=np.full(count, "FRONTAL"),
        labels=labels,
        ages=np.full(count, np.nan, np.float32),
        sexes=np.full(count, ""),
        real_texts=[""] * count,
        released_texts=[""] * count,
        classes=LABELS.classes,
    )


def known_faces(photo: np.ndarray, certain: float = 0.5) -> list[Face]:
    """In place of the detector, which takes most of the time of a test: the face of the person whose photograph this
    nearly is, none in a photograph of one colour."""
    if photo.std() < 1:
        return []
    thumbs = photographs()[::EACH, ::8, ::8].astype(float)
    number = int(np.abs(thumbs - photo[::8, ::8]).mean((1, 2, 3)).argmin())
    points = np.load(FACES / "landmarks.npz")["points"][number] * (SIDE / 256)
    eyes = [points[list(eye.rim)].mean(0) for eye in EYES.values()]
    five = np.stack([*eyes, points[NOSE_TIP], points[MOUTH_CORNERS[0]], points[MOUTH_CORNERS[1]]])
    return [Face(np.r_[points.min(0), points.max(0)], 0.8, five, points)]
