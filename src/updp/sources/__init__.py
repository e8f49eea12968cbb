"""Sources: one file a layout, recognised by what is in the folder.

The flow starts here: ``open_source("export/")`` looks at the folder, says which layout it is, and streams its films.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from updp.sources.base import Refusal, Source
from updp.sources.files import BadSource

if TYPE_CHECKING:
    from updp.sources.base import Layout

__all__ = ["LAYOUTS", "BadSource", "Entry", "Refusal", "Source", "open_source", "recognise"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A layout that can be read: where its class is, and what it is in one line."""

    module: str
    name: str
    description: str

    def load(self) -> type[Layout]:
        """The class itself, imported when asked for."""
        found: type[Layout] = getattr(import_module(self.module), self.name)
        return found


#: Every layout by name, in the order they are tried and listed.
LAYOUTS: Mapping[str, Entry] = {
    "release": Entry("updp.sources.release", "Release", "an updp release: manifest.parquet, images/, reports/"),
    "iu_xray": Entry("updp.sources.iu_xray", "IUXray", "IU X-Ray as R2Gen has it: annotation.json, images/"),
    "openi": Entry("updp.sources.openi", "OpenI", "Open-i (NLMCXR): ecgen-radiology/*.xml and PNG films"),
    "chestxray14": Entry("updp.sources.chestxray14", "ChestXray14", "NIH ChestX-ray14: Data_Entry_2017*.csv, images*/"),
    "chexpert": Entry("updp.sources.chexpert", "CheXpert", "CheXpert: train.csv, valid.csv, patientNNNNN/studyN/"),
    "mimic_cxr": Entry("updp.sources.mimic_cxr", "MimicCXR", "MIMIC-CXR(-JPG): mimic-cxr-2*-metadata.csv, files/p1x/"),
    "dicom": Entry("updp.sources.dicom", "Dicom", "a tree of DICOM files, reports beside them as text or DICOM SR"),
    "manifest": Entry("updp.sources.manifest", "Manifest", "a manifest.csv, .tsv, .jsonl or .parquet that names films"),
}


def recognise(path: str | Path) -> list[str]:
    """Names of the layouts found at ``path``: none, one or several."""
    root = Path(path)
    return [name for name, entry in LAYOUTS.items() if entry.load().recognises(root)]


def open_source(
    path: str | Path,
    layout: str | None = None,
    *,
    frontal_only: bool = True,
    limit: int | None = None,
    max_pixels: int | None = None,
    min_side: int | None = None,
) -> Source:
    """The source at ``path``, its layout recognised unless given; the last two default to the policy's defaults."""
    root = Path(path)
    known = ", ".join(LAYOUTS)
    if layout is not None and layout not in LAYOUTS:
        raise BadSource(f"unknown layout; known: {known}")
    if limit is not None and limit < 0:
        raise BadSource("limit is a number of films, zero or more")
    try:
        if not root.exists():
            raise BadSource(f"{path}: no such folder")
        if root.is_dir() and next(root.iterdir(), None) is None:
            raise BadSource(f"{path}: the folder is empty")
        found = recognise(root)
    except PermissionError:
        raise BadSource(f"{path}: the folder cannot be read; check its permissions") from None
    except OSError:
        raise BadSource(f"{path}: the folder cannot be read") from None
    if layout is None:
        if not found:
            raise BadSource(f"{path}: no known layout was recognised; known: {known}. See docs/how-to/sources")
        if len(found) > 1:
            choices = " or ".join(f"--layout {name}" for name in found)
            raise BadSource(f"{path}: several layouts in one folder ({', '.join(found)}); say which: {choices}")
        layout = found[0]
    elif layout not in found:
        raise BadSource(f"{path}: this folder does not hold the layout {layout}. See docs/how-to/sources")
    try:
        return LAYOUTS[layout].load()(
            root, frontal_only=frontal_only, limit=limit, max_pixels=max_pixels, min_side=min_side
        )
    except BadSource as error:
        # Layouts name no files: the folder is the user's own word, a file's name may be a patient's.
        raise BadSource(f"{path}: {error}") from None
