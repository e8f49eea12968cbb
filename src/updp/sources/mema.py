"""MeMa and sets built like it (Tian et al., AAAI 2025): one folder per disease, below folders of splits or without.

Every image is a patient of its own, since each was generated anew. The folder gives the label; ``Normal`` is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from updp.core.reasons import Refused
from updp.core.record import Split, Study
from updp.domains.face.labels import DISEASES, LABELS
from updp.sources.base import Layout, Refusal

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")
_SPLITS: tuple[Split, ...] = ("train", "val", "test")


class Mema(Layout):
    """MeMa: one folder per disease, below train, val and test or without them."""

    holds = "face"

    @classmethod
    def recognises(cls, root: Path) -> bool:
        # Two folders named after diseases: one alone may be a person called so.
        return root.is_dir() and len({label for _, folder in _folders(root) for label in _label(folder)}) >= 2

    def rows(self) -> Iterator[Study | Refusal]:
        for split, folder in _folders(self.root):
            for path in pictures(folder):
                film_id = path.relative_to(self.root).as_posix()
                try:
                    found = self.found(film_id)
                except Refused as refused:
                    yield Refusal(film_id, refused.reason)
                    continue
                yield Study(film_id, film_id, film_id, path=found, labels=_label(folder), split=split)


def _folders(root: Path) -> Iterator[tuple[Split | None, Path]]:
    """The folders of diseases with the split they are below."""
    places: list[tuple[Split | None, Path]] = [(split, root / split) for split in _SPLITS if (root / split).is_dir()]
    for split, place in places or [(None, root)]:
        for folder in sorted(path for path in place.iterdir() if path.is_dir()):
            if _label(folder) or folder.name.lower() == "normal":
                yield split, folder


def pictures(folder: Path) -> Iterator[Path]:
    """The picture files of a folder in order of their names."""
    yield from sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES and path.is_file())


def _label(folder: Path) -> tuple[str, ...]:
    """The disease that a folder is named after; of any other folder, none."""
    label = LABELS.find(folder.name)
    return (label.name,) if label is not None and label.name in DISEASES else ()
