"""Films that are nobody's: those a model pack brings, else drawn ones (``updp.virtual.drawing``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from updp.core.record import Sex
from updp.domains.chest import PACK
from updp.domains.chest.views import View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from updp.virtual.drawing import Finding
from updp.virtual.chance import stream, word_lists
from updp.virtual.ledger import Origin


@dataclass(frozen=True, slots=True)
class VirtualFilm:
    """A film that is nobody's, made when it is asked for."""

    view: View
    findings: tuple[Finding, ...]
    origin: Origin
    pixels: Callable[[], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class VirtualPatient:
    """Films of one invented person, examination by examination."""

    sex: Sex
    examinations: tuple[tuple[VirtualFilm, ...], ...]


def films(seed: int, patients: int, *, pack: Traversable | None = None) -> Iterator[VirtualPatient]:
    """Films for so many patients: the pack's while they last, then drawn ones.

    A pack brings a folder ``virtual`` with ``films.json`` (``{"films": [{"patient": 0, "study": 0, "view": "PA",
    "findings": ["Effusion"], "file": "0-0.jpg", "sex": "F"}, ...]}``; ``sex`` may be left out) and the files it names.
    """
    found = pack if pack is not None else _packed()
    made = _generated(found, seed) if found is not None else []
    for index in range(patients):
        yield made[index] if index < len(made) else draw_patient(stream(seed, "film", index))


def _packed() -> Traversable | None:
    """The virtual films of the embedded model pack, if this installation has them."""
    try:
        folder = resources.files("updp") / "packs" / PACK / "virtual"
        return folder if (folder / "films.json").is_file() else None
    except (ModuleNotFoundError, OSError):
        return None


def _generated(folder: Traversable, seed: int) -> list[VirtualPatient]:
    from updp.virtual.drawing import Finding

    rows: dict[int, dict[int, list[VirtualFilm]]] = {}
    sexes: dict[int, Sex] = {}
    for row in json.loads((folder / "films.json").read_text("utf-8"))["films"]:
        picture = folder / row["file"]
        found = tuple(Finding(name) for name in row["findings"])
        film = VirtualFilm(row["view"], found, "generated", lambda picture=picture: _decoded(picture))  # type: ignore[misc]
        rows.setdefault(row["patient"], {}).setdefault(row["study"], []).append(film)
        if row.get("sex") in ("F", "M"):
            sexes[row["patient"]] = row["sex"]
    out = []
    for patient, studies in sorted(rows.items()):
        sex: Sex = sexes.get(patient) or ("F" if stream(seed, "sex", patient).random() < 0.5 else "M")
        out.append(VirtualPatient(sex, tuple(tuple(studies[number]) for number in sorted(studies))))
    return out


def _decoded(picture: Traversable) -> NDArray[np.float32]:
    import numpy as np
    from PIL import Image

    with picture.open("rb") as file, Image.open(file) as image:
        small = image.convert("L")
        side = max(512, *small.size)
        scale = side / max(small.size)
        large = small.resize((round(small.width * scale), round(small.height * scale)), Image.Resampling.BICUBIC)
    return np.asarray(large, dtype=np.float32) / np.float32(255)


def draw_patient(rng: np.random.Generator) -> VirtualPatient:
    from updp.virtual import drawing

    sex: Sex = "F" if rng.random() < 0.5 else "M"
    anatomy = drawing.Anatomy.sample(rng, sex)
    size = int(rng.integers(560, 900)), int(rng.integers(512, 820))
    lasting = tuple(_sampled(rng, lasting=True))
    examinations = []
    for _ in range(int(rng.integers(2, 6))):
        found = lasting + tuple(_sampled(rng, lasting=False))
        view: View = "AP" if rng.random() < 0.3 else "PA"
        taken = [_sketch(anatomy, found, view, size, int(rng.integers(2**63)))]
        if view == "PA" and rng.random() < 0.3:
            taken.append(_sketch(anatomy, found, "LATERAL", size, int(rng.integers(2**63))))
        examinations.append(tuple(taken))
    return VirtualPatient(sex, tuple(examinations))


def _sketch(anatomy: Any, found: tuple[Finding, ...], view: View, size: tuple[int, int], seed: int) -> VirtualFilm:
    import numpy as np

    from updp.virtual import drawing

    def pixels() -> NDArray[np.float32]:
        return drawing.draw(anatomy, found, view, size, np.random.Generator(np.random.PCG64(seed)))

    return VirtualFilm(view, found, "drawn", pixels)


def _sampled(rng: np.random.Generator, *, lasting: bool) -> Iterator[Finding]:
    """The findings of a person or of a day."""
    from updp.virtual.drawing import Finding

    for name, facts in word_lists()["findings"].items():
        if facts["stays"] is lasting and rng.random() < facts["share"]:
            low, high = facts.get("millimetres", (0, 0))
            yield Finding(
                name,
                side=("left", "right")[int(rng.integers(2))] if facts.get("sided") else None,
                zone=("upper", "mid", "lower")[int(rng.integers(3))] if facts.get("zoned") else None,
                millimetres=int(rng.integers(low, high)) if high else None,
            )
