"""The invented people of the package: faces that a generator drew, of nobody who lives (see ``invented/README.md``)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Person:
    name: str
    sex: str  # F or M
    photo: NDArray[np.uint8]
    points: NDArray[Any]  # 106 landmarks


@lru_cache(maxsize=1)
def names() -> tuple[tuple[str, str], ...]:
    """Name and sex of each."""
    text = _folder().joinpath("people.csv").read_text("utf-8")
    return tuple((row["face"], row["sex"]) for row in csv.DictReader(io.StringIO(text)))


def people(count: int | None = None) -> Iterator[Person]:
    """All of them, or the first ones, in one order."""
    import numpy as np
    from PIL import Image

    with _folder().joinpath("landmarks.npz").open("rb") as file:
        points = np.load(file)["points"]
    for n, (name, sex) in enumerate(names()[:count]):
        with _folder().joinpath(f"{name}.jpg").open("rb") as file, Image.open(file) as image:
            yield Person(name, sex, np.asarray(image.convert("RGB")), points[n])


def _folder() -> Any:
    return resources.files("updp.domains.face").joinpath("invented")
