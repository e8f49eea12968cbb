"""A release as tar shards for WebDataset: a film, its row and its report stand together, shards are read in a stream.

Shards are made by the receiver from a release that was checked; they are no part of it and carry no signature. The same
release gives the same bytes.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from updp.core.storage import OutputError
from updp.release import manifest
from updp.release.shard import STAMP


def write_shards(release: str | Path, out: str | Path, size: int = 1000) -> dict[str, int]:
    """Write ``<split>-<number>.tar`` with at most ``size`` films each; returns films by split."""
    root, target = Path(release), Path(out)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise OutputError("the folder for the shards is not empty; choose another")
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in manifest.read(root):
        rows.setdefault(str(row["split"]), []).append(row)
    for split, own in rows.items():
        for number, start in enumerate(range(0, len(own), size)):
            with tarfile.open(target / f"{split}-{number:06d}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
                for name, data in _members(root, own[start : start + size]):
                    entry = tarfile.TarInfo(name)
                    entry.size, entry.mtime, entry.mode = len(data), STAMP, 0o644
                    tar.addfile(entry, io.BytesIO(data))
    return {split: len(own) for split, own in rows.items()}


def _members(root: Path, rows: list[Mapping[str, Any]]) -> Iterator[tuple[str, bytes]]:
    reports: dict[str, dict[str, Any]] = {}
    for row in rows:
        key, shard = str(row["release_id"]), str(row["shard"])
        film = root / str(row["file_name"])
        yield f"{key}{film.suffix}", film.read_bytes()
        fields = {name: value for name, value in row.items() if name not in ("file_name", "shard")}
        yield f"{key}.json", json.dumps(fields, default=str).encode()
        if row["has_report"]:
            if shard not in reports:
                reports = {shard: _reports(root / "reports" / f"{shard}.jsonl")}  # rows come shard by shard
            yield f"{key}.txt", "\n\n".join(reports[shard][key].values()).encode()


def _reports(path: Path) -> dict[str, Any]:
    lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return {line["release_id"]: line["sections"] for line in lines}
