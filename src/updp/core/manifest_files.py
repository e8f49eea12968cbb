"""What the manifest of a release is called: ``manifest.parquet``, or ``manifest-00000-of-00012.parquet`` and so on."""

from __future__ import annotations

import re
from pathlib import Path

_WHOLE = "manifest.parquet"
_PART = re.compile(r"manifest-\d{5,}-of-\d{5,}\.parquet")


def part_names(parts: int) -> list[str]:
    """The names of a manifest in so many files."""
    return [_WHOLE] if parts <= 1 else [f"manifest-{part:05d}-of-{parts:05d}.parquet" for part in range(parts)]


def is_manifest(name: str) -> bool:
    """Whether a file of this name is a manifest or a part of one."""
    return name == _WHOLE or _PART.fullmatch(name) is not None


def manifest_files(release: Path) -> list[Path]:
    """The files of the manifest of a release in their order; none if it has no manifest, or not all of it."""
    if (release / _WHOLE).is_file():
        return [release / _WHOLE]
    found = sorted(path for path in release.glob("manifest-*.parquet") if is_manifest(path.name) and path.is_file())
    return found if len(found) > 1 and [path.name for path in found] == part_names(len(found)) else []
