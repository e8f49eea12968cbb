"""How labels of a chest film become sentences: phrases of the label table, and what is normal beside them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from updp.domains.chest.labels import LABELS

if TYPE_CHECKING:
    import numpy as np


@cache
def phrases() -> dict[str, dict[str, list[str]]]:
    """Every sentence there is: of findings, of normal organs, of views."""
    said = tomllib.loads(resources.files(__package__).joinpath("words.toml").read_text("utf-8"))
    return {"findings": {label.name: list(label.phrases) for label in LABELS.labels}, **said}


def compose(findings: Sequence[str], view: str, rng: np.random.Generator, *, name_view: float = 0.5) -> str:
    """A short report that says these findings, and now and then what is normal beside them. `name_view` is the
    probability that it names the view."""
    said = phrases()

    def one(choices: Sequence[str]) -> str:
        return choices[int(rng.integers(len(choices)))]

    sentences = [one(LABELS.phrases(name)) for name in findings]
    if not findings:
        kinds = [k for k in ("film", "lungs", "heart", "pleura") if rng.random() < 0.55] or ["film"]
        sentences = [one(said["normal"][k]) for k in kinds]
    else:
        if "Cardiomegaly" not in findings and rng.random() < 0.25:
            sentences.append(one(said["normal"]["heart"]))
        if "Effusion" not in findings and "Pneumothorax" not in findings and rng.random() < 0.2:
            sentences.append(one(said["normal"]["pleura"]))
    order = rng.permutation(len(sentences))
    sentences = [sentences[i] for i in order]
    if view in said["views"] and rng.random() < name_view:
        sentences.insert(0, one(said["views"][view]))
    return " ".join(sentences)
