"""Photographs for tests: the invented faces of the package, and what a camera may make of them."""

from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path

import numpy as np
from PIL import Image

FACES = Path(str(resources.files("updp.domains.face").joinpath("invented")))
PHOTOS = Path(__file__).parent / "photos"


def face(number: int = 0) -> Image.Image:
    """An invented face, 256 pixels."""
    return Image.open(FACES / f"{number:03d}.jpg").convert("RGB")


def unit(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(np.float32) / 255


def drawing() -> Image.Image:
    """A face as a child draws it."""
    from PIL import ImageDraw

    image = Image.new("RGB", (256, 256), (250, 240, 200))
    pen = ImageDraw.Draw(image)
    pen.ellipse((40, 40, 216, 216), outline=(20, 20, 120), width=4)
    for x in (95, 161):
        pen.ellipse((x - 8, 100, x + 8, 116), fill=(20, 20, 120))
    pen.arc((90, 120, 166, 180), 20, 160, fill=(200, 30, 30), width=4)
    return image


def export(folder: Path, photographs: dict[str, tuple[str, str]]) -> Path:
    """A manifest of files that lie in ``folder`` already: name -> (patient, labels)."""
    with (folder / "manifest.csv").open("w", newline="", encoding="utf-8") as out:
        table = csv.writer(out)
        table.writerow(["film_id", "patient_id", "image", "labels"])
        table.writerows([name, patient, name, labels] for name, (patient, labels) in photographs.items())
    return folder
