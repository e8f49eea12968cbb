"""The labels of faces, from ``labels.toml``: diseases, and grades as labels of their own."""

from __future__ import annotations

import tomllib
from importlib import resources

from updp.domains.labels import Label, LabelTable


def _read() -> LabelTable:
    data = tomllib.loads(resources.files(__package__).joinpath("labels.toml").read_text("utf-8"))
    return LabelTable(
        [
            Label(row["name"], tuple(row["phrases"]), tuple(row["synonyms"]), tuple(row["sets"]))
            for row in data["label"]
        ],
        data["none"],
    )


LABELS = _read()


def _of(name: str) -> tuple[str, ...]:
    return tuple(label.name for label in LABELS.labels if name in label.sets)


#: The seven diseases of MeMa, those that only tests have, and the grades from the least to the most.
DISEASES, UNSEEN, GRADES = _of("mema"), _of("unseen"), _of("grade")
