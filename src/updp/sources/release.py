"""An ``updp`` release as a source: to be evaluated, mixed with local data, or checked.

``manifest.parquet``, or its parts, have one row per film; its report is a line of ``reports/<shard>.jsonl`` and is read
with the film. Ids are the release's pseudonyms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from updp.core.manifest_files import manifest_files
from updp.core.policy import BadPolicy, Policy
from updp.core.reasons import Reason, Refused
from updp.core.record import Report, Study
from updp.sources.base import Layout, Refusal
from updp.sources.fields import age_of, date_of, sex_of, split_of
from updp.sources.files import BadSource, checked_text, open_parquet, raw_lines

_COLUMNS = (
    "release_id",
    "patient",
    "study",
    "split",
    "file_name",
    "shard",
    "has_report",
    "view",
    "labels",
    "labels_from",
    "sex",
    "age",
    "date",
)
_NEEDED = {"release_id", "patient", "study", "file_name", "shard"}
_BATCH = 512


class Release(Layout):
    """An updp release: manifest.parquet, images/, reports/."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        if not manifest_files(root):
            raise BadSource("the release's manifest is missing or not whole")
        with open_parquet(manifest_files(root)[0]) as table:
            if missing := _NEEDED - set(table.schema_arrow.names):
                raise BadSource(f"the release's manifest lacks {', '.join(sorted(missing))}")

    @classmethod
    def recognises(cls, root: Path) -> bool:
        if not (found := manifest_files(root)):
            return False
        try:
            with open_parquet(found[0]) as table:
                return "release_id" in table.schema_arrow.names
        except BadSource:
            return False

    @classmethod
    def domain_of(cls, root: Path) -> str | None:
        try:
            return Policy.load(root / "policy.toml").source.domain
        except BadPolicy:  # a release is read without its policy too; `verify` says what is missing
            return None

    def rows(self) -> Iterator[Study | Refusal]:
        for number, row in enumerate(self._listed(), start=1):
            try:
                yield self._study(row)
            except Refused as refused:
                yield Refusal(str(row["release_id"] or f"row {number}"), refused.reason)

    def _listed(self) -> Iterator[dict[str, Any]]:
        import pyarrow as pa

        for path in manifest_files(self.root):
            with open_parquet(path) as table:
                columns = [name for name in _COLUMNS if name in table.schema_arrow.names]
                try:
                    for batch in table.iter_batches(batch_size=_BATCH, columns=columns, use_threads=False):
                        yield from batch.to_pylist()
                except (pa.ArrowException, OSError, UnicodeDecodeError):
                    raise BadSource("the release's manifest is damaged") from None

    def _study(self, row: Mapping[str, Any]) -> Study:
        film_id, study_id, patient_id = (str(row[name] or "") for name in ("release_id", "study", "patient"))
        if not (film_id and study_id and patient_id):
            raise Refused(Reason.ID_MISSING)
        labels = row.get("labels")
        return Study(
            film_id=film_id,
            study_id=study_id,
            patient_id=patient_id,
            path=self.found(str(row["file_name"] or "")),
            view=self.domain.view(row.get("view")),
            labels=None if labels is None else tuple(labels),
            labels_from="report" if row.get("labels_from") == "report" else "source",
            report_path=self._reports(str(row["shard"] or "")) if row.get("has_report", True) else None,
            age=age_of(row.get("age")),
            sex=sex_of(row.get("sex")),
            date=date_of(row.get("date")),
            split=split_of(row.get("split")),
        )

    def _reports(self, shard: str) -> Path:
        try:
            return self.found(f"reports/{shard}.jsonl")
        except Refused as refused:
            raise Refused(
                Reason.REPORT_UNREADABLE if refused.reason is Reason.IMAGE_MISSING else refused.reason
            ) from None

    def load_report(self, study: Study) -> Study:
        if study.report is not None or study.report_path is None:
            return study
        return study.but(report=_line(study.report_path, study.film_id))


def _line(path: Path, release_id: str) -> Report:
    """The report of one film in a shard's file."""
    wanted = json.dumps(release_id).encode()
    try:
        with open(path, "rb") as raw:
            for line in raw_lines(raw):
                if wanted not in line:  # cheaper than parsing every report of the shard
                    continue
                row = json.loads(line)
                if row["release_id"] == release_id:
                    return Report({str(name): checked_text(text) for name, text in row["sections"].items()})
    except (OSError, BadSource, ValueError, KeyError, TypeError, AttributeError):
        raise Refused(Reason.REPORT_UNREADABLE) from None
    raise Refused(Reason.REPORT_MISSING)
