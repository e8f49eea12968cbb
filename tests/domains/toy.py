"""A domain in one file: colour images, warm or cold."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from updp.core.measurement import Measurement
from updp.core.reasons import Reason
from updp.core.record import Study
from updp.domains.base import Domain
from updp.domains.labels import Label, LabelTable
from updp.evaluation.intervals import measure
from updp.evaluation.probes.base import Inquiry, Probe
from updp.evaluation.statistics import auc

COUNT = 48


@dataclass(frozen=True, kw_only=True)
class Swatch(Domain):
    def refuses(self, study: Study) -> Reason | None:
        height, width = study.pixels.shape[:2]
        return None if height == width else Reason.NOT_OF_DOMAIN


SWATCH = Swatch(
    name="swatch",
    summary="colour swatches",
    labels=LabelTable(
        [Label("warm", ("It is red.",), synonyms=("reddish",)), Label("cold", ("It is blue.",))], none=("neither",)
    ),
    channels=3,
    probes=("mean colour",),
    questions=("film",),
)


class MeanColour(Probe):
    """An attacker who compares the mean colour of a released image with that of real ones."""

    name = "mean colour"
    question = "film"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        pairs, exhibit = inquiry.pairs("another film", np.arange(len(inquiry.exhibit))), inquiry.exhibit
        distance = exhibit.released[pairs.left].mean((1, 2)) - exhibit.real[pairs.right].mean((1, 2))
        closeness = -np.linalg.norm(distance, axis=1)
        found = measure(
            "film linkage",
            auc,
            exhibit.patients[pairs.left],
            pairs.same,
            closeness,
            better="closer to chance",
            chance=0.5,
            seed=inquiry.seed,
            draws=inquiry.budget.draws,
            attacker="mean colour",
        )
        ends = (found.value - 0.5, found.low - 0.5, found.high - 0.5)
        beyond = Measurement("film linkage beyond twins", *ends, found.n, 0.0, "lower", found.attacker)
        return [found, beyond]


def draw(seed: int, *, wide: bool = False) -> Image.Image:
    """A patch of a patient's own shade: red for even patients, blue for odd ones."""
    rng = np.random.default_rng(seed)
    own = np.random.default_rng(seed // 2).integers(-30, 30, 3)
    shade = own + ([200, 90, 60] if seed // 2 % 2 == 0 else [60, 90, 200])
    noise = rng.integers(-12, 12, (80, 120 if wide else 80, 3))
    return Image.fromarray(np.clip(shade + noise, 0, 255).astype(np.uint8))


def export(folder: Path, count: int = COUNT) -> Path:
    """Two images of each patient, and a manifest."""
    folder.mkdir(parents=True)
    with (folder / "manifest.csv").open("w", newline="", encoding="utf-8") as out:
        table = csv.writer(out)
        table.writerow(["film_id", "patient_id", "image", "labels"])
        for n in range(count):
            draw(n).save(folder / f"{n}.png")
            table.writerow([f"f{n}", f"p{n // 2}", f"{n}.png", "reddish" if n // 2 % 2 == 0 else "cold"])
    return folder
