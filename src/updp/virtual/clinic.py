"""The virtual eye clinic: photographs of people with rendered diseases, since no real ones may be published.

The people are the invented faces of the package, or those of a source of photographs given by path; of an invented
person several photographs are made, with another expression, light and camera. A person's disease, its grade, side and
shape are the same on all photographs. Everything comes from one seed. Each photograph has its labels, a mask, and its
landmarks as they were rendered.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.reasons import Refused
from updp.core.record import Sex, Study
from updp.core.registry import unknown
from updp.core.storage import write_bytes
from updp.domains.face.labels import DISEASES, GRADES, UNSEEN
from updp.virtual.chance import stream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from updp.domains.face.manifestations import Sign

#: Share of people without a disease; the others are spread evenly over the diseases.
NORMAL = 0.125
PHOTOGRAPHS = 3
COLUMNS = ("film_id", "patient_id", "image", "labels", "sex", "age", "mask")


class BadClinic(ValueError):
    """The clinic cannot be made; the message says why."""


@dataclass(frozen=True)
class Sitter:
    """A person who is photographed: one photograph per visit, or one that further visits are made from."""

    name: str
    sex: Sex | None
    photographs: tuple[tuple[NDArray[np.float32], NDArray[Any]], ...]  # pixels, and 106 landmarks
    age: int | None = None


@dataclass(frozen=True)
class Clinic:
    """What was written."""

    folder: Path
    people: int
    photographs: int
    refused: int  # photographs of the source without exactly one frontal face


def make_clinic(
    out: Path,
    *,
    seed: int,
    people: int | None = None,
    photographs: int = PHOTOGRAPHS,
    source: Path | None = None,
    unseen: bool = False,
    only: tuple[str, ...] | None = None,
) -> Clinic:
    """Write a clinic as a manifest with images and masks; ``unseen`` adds entropion and eyelid nevus, ``only`` takes
    these diseases alone."""
    known = (*DISEASES, *UNSEEN)
    if wrong := [name for name in only or () if name not in known]:
        raise BadClinic(unknown("disease", wrong[0], known))
    if photographs < 1 or (people is not None and people < 1):
        raise BadClinic("a clinic has one person or more, and one photograph or more of each")
    if (out / "manifest.csv").exists():
        raise BadClinic(f"{out} holds a clinic already; choose another folder")
    for folder in ("images", "masks"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    diseases = only or (known if unseen else DISEASES)
    sitters: _Source | _Invented = _Source(source, people, photographs) if source else _Invented(people)
    rows: list[dict[str, str]] = []
    count = 0
    for sitter in sitters:
        sign = sign_of(seed, count, diseases)
        rows += _photographed(out, seed, count, sitter, sign, photographs, again=source is None)
        count += 1
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_bytes(out / "manifest.csv", table.getvalue().encode())
    return Clinic(out, count, len(rows), sitters.refused)


def sign_of(seed: int, person: int, diseases: tuple[str, ...]) -> Sign | None:
    """A person's disease and how it looks. People take the diseases in turn, so that a small clinic has them all."""
    from updp.domains.face.manifestations import Sign

    rng = stream(seed, "sign", person)
    if rng.random() < NORMAL:
        return None
    disease = diseases[(person + seed) % len(diseases)]
    grade, side = GRADES[int(rng.integers(3))], ("left", "right")[int(rng.integers(2))]
    return Sign(disease, grade, side, int(rng.integers(2**31)), bool(rng.random() < 0.5))


class _Invented:
    """The faces of the package."""

    def __init__(self, people: int | None) -> None:
        from updp.domains.face.people import names

        if people is not None and people > len(names()):
            raise BadClinic(f"there are {len(names())} invented faces; give a source of photographs for more")
        self.people, self.refused = people, 0

    def __iter__(self) -> Iterator[Sitter]:
        import numpy as np

        from updp.domains.face.people import people

        for person in people(self.people):
            sex: Sex = "M" if person.sex == "M" else "F"
            pixels = person.photo.astype(np.float32) / np.float32(255)
            yield Sitter(f"invented-{person.name}", sex, ((pixels, person.points),))


class _Source:
    """People of a source of photographs, as many photographs of each as there are, up to a number."""

    def __init__(self, path: Path, people: int | None, photographs: int) -> None:
        from updp.sources import open_source

        self.source = open_source(path, domain="face")
        self.people, self.photographs, self.refused = people, photographs, 0

    def __iter__(self) -> Iterator[Sitter]:
        from updp.domains.face.landmarks import points_of

        chosen: dict[str, list[Study]] = {}
        for item in self.source:
            if isinstance(item, Study):
                chosen.setdefault(item.patient_id, []).append(item)
        given = 0
        for number, studies in enumerate(chosen.values()):
            taken: list[tuple[NDArray[np.float32], NDArray[Any]]] = []
            for study in studies:
                if len(taken) == self.photographs or given == self.people:
                    break
                try:
                    found = self.source.domain.examined(self.source.load(study))
                except Refused:
                    self.refused += 1
                    continue
                points = points_of(found)
                assert found.pixels is not None
                assert points is not None
                taken.append((found.pixels, points))
            if taken:
                given += 1
                yield Sitter(f"person-{number:05d}", studies[0].sex, tuple(taken), studies[0].age)


def _photographed(
    out: Path, seed: int, person: int, sitter: Sitter, sign: Sign | None, photographs: int, again: bool
) -> Iterator[dict[str, str]]:
    """Rows of a person's photographs, which are written; ``again`` makes several from one."""
    import numpy as np
    from PIL import Image

    from updp.domains.face.manifestations import render
    from updp.imaging.encode import encode_png

    visits = photographs if again else len(sitter.photographs)
    rendered = [render(pixels, points, sign) for pixels, points in sitter.photographs[:visits]]
    for visit in range(visits):
        made = rendered[0 if again else visit]
        rng = stream(seed, "visit", person, visit)
        shown, mask = made.pixels, made.mask
        if again:
            shown, mask, _ = retaken(shown, mask, made.points, rng)
        name = f"{sitter.name}-{visit}"
        picture = io.BytesIO()
        Image.fromarray(np.round(shown * 255).astype(np.uint8)).save(picture, "JPEG", quality=int(rng.integers(88, 96)))
        write_bytes(out / "images" / f"{name}.jpg", picture.getvalue())
        row = {"film_id": name, "patient_id": sitter.name, "image": f"images/{name}.jpg", "sex": sitter.sex or ""}
        row["age"] = "" if sitter.age is None else str(sitter.age)
        row |= {"labels": "Normal" if sign is None else f"{sign.disease}|{sign.grade}", "mask": ""}
        if sign is not None:
            write_bytes(out / "masks" / f"{name}.png", encode_png(mask.astype(np.float32)))
            row["mask"] = f"masks/{name}.png"
        yield row


def retaken(
    pixels: NDArray[np.float32], mask: NDArray[np.bool_], points: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float64]]:
    """The person at another visit: expression, camera and light differ, mask and landmarks move along."""
    import numpy as np
    from scipy.ndimage import map_coordinates

    from updp.domains.face.landmarks import EYES, MOUTH_CORNERS, between_eyes

    unit = between_eyes(points)
    height, width = mask.shape
    y, x = np.mgrid[:height, :width].astype(np.float64)
    angle, scale = np.deg2rad(rng.uniform(-6, 6)), rng.uniform(0.94, 1.06)
    shift = rng.uniform(-0.08, 0.08, 2) * unit
    centre = np.array([width, height]) / 2
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) / scale
    place = np.stack([x, y], -1) - centre - shift
    place = place @ turn.T + centre
    # Expression: the corners of the mouth and the brows move a little, and the skin around them with them.
    smile, brows = rng.uniform(-0.05, 0.07) * unit, rng.uniform(-0.05, 0.05) * unit
    moves = [(points[corner], np.array([0.0, -smile]), 0.35 * unit) for corner in MOUTH_CORNERS]
    moves += [(points[list(eye.brow)].mean(0), np.array([0.0, -brows]), 0.22 * unit) for eye in EYES.values()]
    for at, by, reach in moves:
        near = np.exp(-((place - at) ** 2).sum(-1) / (2 * reach**2))
        place = place - near[..., None] * by
    rows = [place[..., 1], place[..., 0]]
    out = np.stack([map_coordinates(pixels[..., c], rows, order=1, mode="nearest") for c in range(3)], -1)
    moved = map_coordinates(mask.astype(np.float32), rows, order=1) > 0.5
    new = points.copy()
    for at, by, reach in moves:
        new = new + np.exp(-((points - at) ** 2).sum(-1) / (2 * reach**2))[:, None] * by
    new = (new - centre) @ np.linalg.inv(turn).T + centre + shift
    light = rng.uniform(0.88, 1.1) * rng.uniform(0.95, 1.05, 3)
    slope = rng.uniform(-0.12, 0.12) * (x / width - 0.5) + rng.uniform(-0.08, 0.08) * (y / height - 0.5)
    out = np.clip(out, 0, 1) ** rng.uniform(0.88, 1.14) * light * (1 + slope[..., None])
    out += rng.normal(0, rng.uniform(0.004, 0.012), out.shape)
    return np.clip(out, 0, 1).astype(np.float32), moved, new
