"""One folder per person with photographs inside, as Labeled Faces in the Wild has it (Huang et al. 2007).

The folder's name is the person, as ``lfw/Ann_Example/Ann_Example_0001.jpg``. Nothing is labelled. ``pairs.txt`` and
other lists beside the folders are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from updp.core.reasons import Refused
from updp.core.record import Study
from updp.sources.base import Layout, Refusal
from updp.sources.mema import PICTURES, Mema, pictures

#: A table beside the folders says what they hold; they are then not people.
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".gz", ".toml", ".xml")
_LOOK = 20  # folders looked at to tell the layout


class People(Layout):
    """One folder of photographs per person (LFW)."""

    holds = "face"

    @classmethod
    def recognises(cls, root: Path) -> bool:
        if not root.is_dir() or Mema.recognises(root) or any(path.suffix in _TABLES for path in root.iterdir()):
            return False
        people = _folders(root)[:_LOOK]
        if len(people) < 2 or not all(_only_pictures(folder) for folder in people):
            return False
        return colour(next(pictures(people[0])))

    def rows(self) -> Iterator[Study | Refusal]:
        for folder in _folders(self.root):
            for path in pictures(folder):
                film_id = f"{folder.name}/{path.name}"
                try:
                    found = self.found(film_id)
                except Refused as refused:
                    yield Refusal(film_id, refused.reason)
                    continue
                yield Study(film_id=film_id, study_id=film_id, patient_id=folder.name, path=found)


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def _only_pictures(folder: Path) -> bool:
    inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return bool(inside) and all(path.suffix.lower() in PICTURES and path.is_file() for path in inside)


def colour(path: Path) -> bool:
    """Whether a picture is stored in colour: films are not, and a tree of them is no source of faces."""
    from PIL import Image

    from updp.imaging.pictures import FORMATS

    try:
        with Image.open(path, formats=FORMATS) as image:
            return image.mode in ("RGB", "RGBA", "CMYK", "YCbCr", "P")
    except (OSError, ValueError, Image.DecompressionBombError):
        return False
