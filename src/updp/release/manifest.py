"""The manifest: one row per film, as Parquet. Beside film and report, its columns are all a receiver learns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Stream rows into a Parquet file; returns how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shape = schema()
    count = 0
    held: list[dict[str, Any]] = []

    def flush(writer: pq.ParquetWriter) -> None:
        writer.write_table(pa.Table.from_pylist(held, schema=shape))
        held.clear()

    with pq.ParquetWriter(path, shape, compression="zstd") as writer:
        for row in rows:
            held.append(_typed(row))
            count += 1
            if len(held) == _GROUP:
                flush(writer)
        if held or not count:
            flush(writer)
    return count


def read(path: Path) -> Iterable[dict[str, Any]]:
    """Rows of a manifest, a row group at a time."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as table:
        for batch in table.iter_batches(_GROUP):
            yield from batch.to_pylist()


def _typed(row: Mapping[str, Any]) -> dict[str, Any]:
    import datetime as dt

    out = {name: row.get(name) for name, _, _ in COLUMNS}
    if isinstance(out["date"], str):
        out["date"] = dt.date.fromisoformat(out["date"])
    if not isinstance(out["decided"], str):
        out["decided"] = json.dumps(out["decided"] or {}, sort_keys=True)
    return out
