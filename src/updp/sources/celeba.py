"""CelebA (Liu et al., ICCV 2015): ``identity_CelebA.txt`` and photographs in ``img_celeba/`` or ``img_align_celeba/``.

A line of the list is a file name and a person's number. ``list_eval_partition.txt``, where present, is the official
split, which shares people out whole; ``list_attr_celeba.txt`` gives the sex.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from updp.core.reasons import Reason, Refused
from updp.core.record import Sex, Split, Study
from updp.sources.base import Layout, Refusal
from updp.sources.files import BadSource, Stems, raw_lines

LIST, PARTITION, ATTRIBUTES = "identity_CelebA.txt", "list_eval_partition.txt", "list_attr_celeba.txt"
_SPLITS: dict[str, Split] = {"0": "train", "1": "val", "2": "test"}


class CelebA(Layout):
    """CelebA: identity_CelebA.txt, photographs in a folder below."""

    holds = "face"

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        for _, words in _lines(root / LIST):
            if len(words) != 2:
                raise BadSource(f"a line of {LIST} is a file name and a number")
            break
        else:
            raise BadSource(f"{LIST} is empty")

    @classmethod
    def recognises(cls, root: Path) -> bool:
        return (root / LIST).is_file()

    def rows(self) -> Iterator[Study | Refusal]:
        photographs = Stems(self.root)
        splits = {name: _SPLITS.get(part) for name, part in _pairs(self.root / PARTITION)}
        sexes = self._sexes()
        for number, words in _lines(self.root / LIST):
            where = f"row {number}"
            try:
                if len(words) != 2 or not words[1].isdigit():
                    raise Refused(Reason.ROW_UNREADABLE)
                name, person = words
                where = PurePosixPath(name).stem
                yield Study(
                    film_id=where,
                    study_id=where,
                    patient_id=person,
                    path=photographs.find(where if "/" not in name else name),
                    split=splits.get(name),
                    sex=sexes.get(name),
                )
            except Refused as refused:
                yield Refusal(where, refused.reason)

    def _sexes(self) -> dict[str, Sex]:
        """The attribute Male of each photograph: the second line names the attributes, every other one has 1 or -1."""
        rows = [words for _, words in _lines(self.root / ATTRIBUTES)]
        if len(rows) < 2 or "Male" not in rows[1]:
            return {}
        place = rows[1].index("Male") + 1
        return {words[0]: "M" if words[place] == "1" else "F" for words in rows[2:] if len(words) > place}


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    if not path.is_file():
        return
    with open(path, "rb") as raw:
        for number, line in enumerate(raw_lines(raw), start=1):
            words = line.decode("utf-8", "replace").split()
            if words:
                yield number, words


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    yield from ((words[0], words[1]) for _, words in _lines(path) if len(words) == 2)
