"""The manifest: one row per film, as Parquet. Beside film and report, its columns are all a receiver learns.

It is the file ``manifest.parquet``, or of a release of more than ``MOST`` films the files
``manifest-00000-of-00012.parquet`` and so on, each with ``MOST`` rows at most. Rows of a shard stand together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.manifest_files import manifest_files, part_names

if TYPE_CHECKING:
    import pyarrow as pa

#: Column, its Arrow type, and what it says; the documentation and the Croissant record are made from this table.
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("release_id", "string", "name of the film in the release"),
    ("patient", "string", "pseudonym: films of one person share it"),
    ("study", "string", "pseudonym: films of one examination share it"),
    ("split", "string", "train, val or test; all films of a patient are in one"),
    ("file_name", "string", "path of the film within the release"),
    ("shard", "string", "the folder and report file that hold it"),
    ("has_report", "bool", "whether reports/<shard>.jsonl has a line for it"),
    ("view", "string", "PA, AP, LATERAL or null"),
    (
        "labels",
        "list<string>",
        "findings present; empty: none found; null: not labelled, withheld or unknown",
    ),
    (
        "labels_from",
        "string",
        "source: as the hospital gave them; report: derived from the report; null without labels",
    ),
    ("sex", "string", "F, M, or null (withheld unless the policy releases it)"),
    ("age", "int16", "years, 90 for all above 89; null unless the policy releases it"),
    ("date", "date32", "shifted by the patient's own interval; null unless the policy releases it"),
    ("decided", "string", "what the method decided for this film, as JSON"),
)

#: Rows a Parquet row group: large enough to compress, small enough to stream.
_GROUP = 8192
#: Rows held as Python objects at a time: these take far more memory than the row group.
_HELD = 256
#: Rows of one file; a release of more films has several, and a list of checksums for every shard.
MOST = 100_000


def names(films: int) -> list[str]:
    """The names of the manifest of a release of so many films."""
    return part_names(-(-films // MOST))


def digest(release: Path) -> str:
    """What tells the manifest of a release from every other: the SHA-256 of its file, or of those of its parts."""
    from updp.release.signature import file_sum

    sums = [file_sum(path) for path in manifest_files(release)]
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()


def schema() -> pa.Schema:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bool": pa.bool_(),
        "int16": pa.int16(),
        "date32": pa.date32(),
        "list<string>": pa.list_(pa.string()),
    }
    return pa.schema([pa.field(name, types[kind]) for name, kind, _ in COLUMNS])


def record_of(row: Mapping[str, Any]) -> str:
    """What a row publishes of its patient, as one word: view, label set, sex, decade of age."""
    labels, age = row.get("labels"), row.get("age")
    published = (row.get("view"), None if labels is None else sorted(labels), row.get("sex"), age and age // 10)
    return json.dumps(published)


def write(release: Path, rows: Iterable[Mapping[str, Any]], count: int) -> None:
    """Stream ``count`` rows into the manifest of a release, in as many files as it takes."""
    source = iter(rows)
    written = sum(_write_file(release / name, islice(source, MOST)) for name in names(count))
    if written != count or next(source, None) is not None:
        raise ValueError("there are more or fewer rows than were counted")


def _write_file(path: Path, rows: Iterator[Mapping[str, Any]]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    shape, count = schema(), 0
    with pq.ParquetWriter(path, shape, compression="zstd") as writer:
        held = [_typed(row) for row in islice(rows, _GROUP)]
        while True:
            writer.write_table(pa.Table.from_pylist(held, schema=shape))
            count += len(held)
            if not (held := [_typed(row) for row in islice(rows, _GROUP)]):
                return count


def read(release: Path) -> Iterator[dict[str, Any]]:
    """Rows of the manifest of a release, a few at a time."""
    import pyarrow.parquet as pq

    files = manifest_files(release)
    if not files:  # a release without a film has a manifest too
        raise FileNotFoundError(f"{release} has no manifest")
    for path in files:
        with pq.ParquetFile(path) as table:
            for batch in table.iter_batches(_HELD, use_threads=False):
                yield from batch.to_pylist()


def _typed(row: Mapping[str, Any]) -> dict[str, Any]:
    import datetime as dt

    out = {name: row.get(name) for name, _, _ in COLUMNS}
    if isinstance(out["date"], str):
        out["date"] = dt.date.fromisoformat(out["date"])
    if not isinstance(out["decided"], str):
        out["decided"] = json.dumps(out["decided"] or {}, sort_keys=True)
    return out
