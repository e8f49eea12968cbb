"""A hospital of drawn films and a recipe small enough for a test: the real stages, tiny models."""

from __future__ import annotations

import numpy as np

from updp.core.record import Report, Study
from updp.domains.chest.labels import FINDINGS
from updp.training.config import PackConfig

SIZE = 64
TINY = PackConfig(name="miniature", size=SIZE, imagenet=False, frozen=0, vocabulary=300, names=False).but(
    encoder_size=32,
    perceptual=False,
    crop=64,
    adversary=8,
    representation=6,
    finisher=4,
    half_way=8,
    own_latents=8,
    autoencoder_model={"channels": 8, "widths": [16, 16, 8, 8, 8]},
    vlm_model={"width": 32, "layers": 1, "heads": 2, "context": 24, "size": 32, "space": 16},
    generator_model={"widths": [32, 32], "context": 32, "layers": 1, "heads": 2, "length": 16, "sentence_layers": 2},
    sampling={"steps": 2, "guidance": 2.0, "grid": "cosine", "finish": [0.6]},
    code={"steps": 6, "batch": 4, "warmup": 1},
    decoder={"steps": 6, "batch": 4, "warmup": 1},
    decoder_own={"steps": 2, "batch": 4, "warmup": 1},
    vlm={"steps": 3, "batch": 8, "warmup": 1},
    vlm_text={"steps": 3, "batch": 16, "warmup": 1},
    generator_text={"steps": 2, "batch": 8, "warmup": 1},
    generator={"steps": 4, "batch": 8, "warmup": 1},
    generator_prior={"steps": 3, "batch": 8, "warmup": 1},
    generator_finisher={"steps": 2, "batch": 4, "warmup": 1},
    identity={"steps": 3, "batch": 8, "warmup": 1},
    classifier={"steps": 3, "batch": 8, "warmup": 1},
)


def film(patient: int, visit: int, finding: bool) -> np.ndarray:
    """A bright oval whose place is the patient's and whose width says the finding."""
    rng = np.random.default_rng([patient, visit])
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE - 0.5
    centre = np.random.default_rng(patient).normal(0, 0.1, 2)
    width = 0.3 if finding else 0.15
    oval = np.exp(-(((x - centre[0]) / width) ** 2 + ((y - centre[1]) / 0.25) ** 2))
    return np.clip(0.2 + 0.6 * oval + rng.normal(0, 0.02, oval.shape), 0, 1).astype(np.float32)


def studies(patients: int = 24, films: int = 2, labelled: bool = True, classes: int = 2):
    """Patients 0… with `films` each; every other patient has the finding, and every third a report."""
    for patient in range(patients):
        found = classes > 1 and patient % 2 == 0
        for visit in range(films):
            labels = ((FINDINGS[1],) if found else ()) if labelled else None
            text = "The heart is enlarged. Clear lungs." if found else "Heart size is normal. No acute disease."
            yield (
                "drawn",
                Study(
                    film_id=f"{patient}-{visit}",
                    study_id=f"{patient}-{visit}",
                    patient_id=str(patient),
                    view="PA",
                    labels=labels,
                    report=Report({"findings": text}) if patient % 3 == 0 and labelled else None,
                    pixels=film(patient, visit, found),
                    split="val" if patient % 4 == 3 else "train",
                ),
            )
