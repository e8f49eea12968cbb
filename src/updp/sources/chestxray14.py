"""NIH ChestX-ray14 (Wang et al., CVPR 2017): ``Data_Entry_2017*.csv`` and films in ``images*/``.

The table names ``.png`` files; re-encoded copies keep the stem, so films are matched by stem, with any suffix, in any
folder. ``train_val_list.txt`` and ``test_list.txt``, where present, are the official split.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from updp.core.reasons import Reason, Refused
from updp.core.record import Split, Study
from updp.domains.chest.labels import LABELS
from updp.domains.chest.views import view_of
from updp.sources.base import Layout, Refusal
from updp.sources.fields import age_of, sex_of
from updp.sources.files import BadSource, Members, Stems, checked_text, raw_lines, read_table

# The names "OriginalImage[Width,Height]" have a comma of their own: only the columns before them line up with the rows.
_HEADER = (
    "image index",
    "finding labels",
    "follow-up #",
    "patient id",
    "patient age",
    "patient gender",
    "view position",
)


class ChestXray14(Layout):
    """NIH ChestX-ray14: Data_Entry_2017*.csv, images*/."""

    holds = "chest"

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        tables = _tables(root)
        if len(tables) != 1:
            raise BadSource(f"there must be exactly one Data_Entry_2017*.csv, not {len(tables)}")
        self.table = tables[0]
        header = next(read_table(self.table), (0, None))[1] or []
        if tuple(name.strip().lower() for name in header[: len(_HEADER)]) != _HEADER:
            raise BadSource("the header is not that of ChestX-ray14")

    @classmethod
    def recognises(cls, root: Path) -> bool:
        return root.is_dir() and bool(_tables(root))

    def rows(self) -> Iterator[Study | Refusal]:
        films = Stems(self.root)
        lists = {name: self.root / f"{name}_list.txt" for name in ("train_val", "test")}
        official = {name: _members(path) for name, path in lists.items() if path.is_file()}
        for number, row in read_table(self.table):
            if number == 0:
                continue
            where = f"row {number}"
            try:
                if row is None or len(row) < len(_HEADER):
                    raise Refused(Reason.ROW_UNREADABLE)
                image, findings, _, patient, age, sex, view = (_field(value) for value in row[: len(_HEADER)])
                stem = PurePosixPath(image).stem
                where = stem or where
                if not (stem and patient):
                    raise Refused(Reason.ID_MISSING)
                yield Study(
                    film_id=stem,
                    study_id=stem,  # every follow-up is one film
                    patient_id=patient,
                    path=films.find(stem if "/" not in image else image),
                    view=view_of(view),
                    labels=LABELS.canonical(findings.split("|")) if findings else None,
                    age=age_of(age),
                    sex=sex_of(sex),
                    split=_split(stem, official),
                )
            except Refused as refused:
                yield Refusal(where, refused.reason)


def _tables(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("Data_Entry_2017*.csv") if path.is_file())


def _field(value: str) -> str:
    try:
        return checked_text(value).strip()
    except Refused:
        raise Refused(Reason.ROW_UNREADABLE) from None


def _members(path: Path) -> Members:
    with open(path, "rb") as raw:
        return Members(PurePosixPath(line.decode("utf-8", "replace").strip()).stem for line in raw_lines(raw))


def _split(stem: str, official: dict[str, Members]) -> Split | None:
    if "test" in official and stem in official["test"]:
        return "test"
    # The official lists have no validation set; take one from the patients of "train" if it is needed.
    return "train" if "train_val" in official and stem in official["train_val"] else None
