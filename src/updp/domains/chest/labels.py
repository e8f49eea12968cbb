"""The labels of chest films, from ``labels.toml``: one table for every source, prompt and network."""

from __future__ import annotations

import tomllib
from importlib import resources

from updp.domains.labels import Label, LabelTable


def _read() -> LabelTable:
    data = tomllib.loads(resources.files(__package__).joinpath("labels.toml").read_text("utf-8"))
    return LabelTable(
        [
            Label(row["name"], tuple(row["phrases"]), tuple(row["synonyms"]), tuple(row["sets"]), row["classified"])
            for row in data["label"]
        ],
        data["none"],
    )


LABELS = _read()
#: The fourteen findings of ChestX-ray14, in the order of its paper: what the embedded classifier knows.
FINDINGS = LABELS.classes
