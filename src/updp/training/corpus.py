"""What a pack is trained on: decoded films, their findings, cleaned sentences and patient-disjoint splits.

Films are decoded once to one uint8 array on disk; everything else fits in memory. Age, sex and names never enter.

Two rules share patients out. `hash`: 70 / 10 / 20 by keyed hash. `halves`: of ChestX-ray14, the patients at a place
below 0.5 may train a pack (from 0.47 on they validate it), and the others never do: they are kept for the judges and
attackers of benchmarks. Other sources validate on 3 in 100 patients. A source's own split comes first in both, but
never brings a reserved patient back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from updp.core.record import BENCHMARK_KEY, Study, place_of, split_of
from updp.domains.chest.labels import FINDINGS
from updp.training.prompts import clean_sentences

if TYPE_CHECKING:
    from updp.models.pack import Pack

Rule = Literal["hash", "halves"]
RULES: dict[str, str] = {
    "hash": "official split, else split_of(patient id) under the benchmark key",
    "halves": "ChestX-ray14 patients at a place below 0.5 under the benchmark key, 0.47 to 0.5 for validation, the "
    "others reserved; other sources by their official split, else 3 in 100 patients for validation",
}
_MAY_TRAIN, _VALIDATES = 0.5, 0.47


class NoUsableFilm(ValueError):
    """None of the sources had a film to learn from."""


@dataclass(frozen=True)
class Corpus:
    """Films and what is known of them, row by row."""

    films: NDArray[np.uint8]  # N x size x size
    patients: NDArray[np.str_]
    splits: NDArray[np.str_]  # train, val, test
    views: NDArray[np.str_]  # PA, AP or ""
    labels: NDArray[np.float32]  # N x findings; NaN where the film is not labelled
    sentences: list[list[str]]  # from the report, ID-filtered; [] where there is none
    ids: NDArray[np.str_]
    observations: list[tuple[str, ...] | None] = field(default_factory=list)  # every label, whatever its vocabulary
    rule: str = "hash"

    def rows(self, split: str) -> NDArray[np.int64]:
        return np.flatnonzero(self.splits == split)

    def labelled(self) -> NDArray[np.bool_]:
        known: NDArray[np.bool_] = ~np.isnan(self.labels[:, 0])
        return known

    def findings(self, row: int) -> tuple[str, ...]:
        return tuple(name for name, value in zip(FINDINGS, self.labels[row], strict=True) if value == 1)

    def observed(self, row: int) -> tuple[str, ...] | None:
        """All labels of a film: () where nothing was found, None where it is not labelled."""
        if self.observations:
            return self.observations[row]
        return None if np.isnan(self.labels[row, 0]) else self.findings(row)

    def sources(self) -> NDArray[np.str_]:
        """The source of each film."""
        return np.array([name.partition("/")[0] for name in self.ids.tolist()])

    def record_of_splits(self) -> dict[str, Any]:
        """Counts and a digest of each split, for the pack: another run can check that it has the same one."""
        named = {"rule": RULES[self.rule], "name": self.rule}
        return named | record_of_splits(self, ("train", "val", "test"))


def record_of_splits(corpus: Any, splits: Iterable[str]) -> dict[str, Any]:
    """Counts and a digest of the splits of a corpus with ``rows``, ``ids`` and ``patients``."""
    record: dict[str, Any] = {}
    for split in splits:
        rows = corpus.rows(split)
        digest = hashlib.sha256("\n".join(sorted(corpus.ids[rows].tolist())).encode()).hexdigest()
        patients = len(set(corpus.patients[rows].tolist()))
        record[split] = {"films": len(rows), "patients": patients, "sha256": digest}
    return record


def square(pixels: NDArray[np.float32], size: int) -> NDArray[np.uint8]:
    """The central square of a film, at `size` pixels."""
    from PIL import Image

    side = min(pixels.shape)
    top, left = (pixels.shape[0] - side) // 2, (pixels.shape[1] - side) // 2
    crop = pixels[top : top + side, left : left + side]
    eight = np.clip(np.rint(crop * 255), 0, 255).astype(np.uint8)
    if side == size:
        return eight
    return np.asarray(Image.fromarray(eight).resize((size, size), Image.Resampling.LANCZOS))


def rule_of(pack: Pack) -> Rule:
    """The rule that divided the patients of a pack; whatever learns or is measured with it follows the same."""
    name: Rule = pack.info.get("splits", {}).get("name", "hash")
    return name


def split_for(source: str, study: Study, rule: Rule, key: bytes = BENCHMARK_KEY) -> str:
    """train, val, test or reserved."""
    if rule == "hash":
        return study.split or split_of(study.patient_id, key)
    if source.partition("-")[0] == "chestxray14":
        place = place_of(study.patient_id, key)
        if place >= _MAY_TRAIN:
            return "reserved"
        return "test" if study.split == "test" else "val" if place >= _VALIDATES else "train"
    if study.split is not None:
        return study.split
    digest = hashlib.sha256(study.patient_id.encode()).hexdigest()
    return "val" if int(digest[:6], 16) % 100 < 3 else "train"


def prepare_corpus(
    named_studies: Iterable[tuple[str, Study]],
    directory: Path,
    size: int,
    key: bytes = BENCHMARK_KEY,
    *,
    rule: Rule = "hash",
    reserved: bool = False,
) -> Corpus:
    """Decode every frontal film once into `directory`; a second call reads what the first wrote.

    `named_studies` gives (source name, study with pixels); patients of two sources are never the same person. Films of
    reserved patients are left out, or with `reserved` are the test split, for a bench that trains nothing.
    """
    if (directory / "corpus.json").exists():
        corpus = load_corpus(directory)
        if corpus.rule != rule:
            raise ValueError(
                f"{directory} holds films divided by the rule {corpus.rule}, not {rule}: choose another folder"
            )
        return corpus
    from updp.reports import shared_detector

    detector = shared_detector()
    directory.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with open(directory / "films.part", "wb") as file:
        for source, study in named_studies:
            if study.pixels is None or study.view == "LATERAL" or min(study.pixels.shape) < size // 4:
                continue
            split = split_for(source, study, rule, key)
            if split == "reserved" and not reserved:
                continue
            file.write(square(study.pixels, size).tobytes())
            rows.append(
                {
                    "id": f"{source}/{study.film_id}",
                    "patient": f"{source}/{study.patient_id}",
                    "split": "test" if split == "reserved" else split,
                    "view": study.view or "",
                    "labels": None if study.labels is None else sorted(study.labels),
                    "sentences": [] if study.report is None else clean_sentences(study.report, detector),
                }
            )
    if not any(row["split"] == "train" for row in rows) and not (reserved and rows):
        raise NoUsableFilm(f"no usable frontal film to train on among {len(rows)} read: check the source")
    os.replace(directory / "films.part", directory / "films.u8")
    (directory / "corpus.json").write_text(json.dumps({"size": size, "rule": rule, "rows": rows}))
    return load_corpus(directory)


def load_corpus(directory: Path) -> Corpus:
    described = json.loads((directory / "corpus.json").read_text())
    rows, size = described["rows"], described["size"]
    labels = np.full((len(rows), len(FINDINGS)), np.nan, np.float32)
    for i, row in enumerate(rows):
        # A film labelled in other words alone ("Lung Opacity") has unknown findings: "none found" would be wrong.
        if row["labels"] is not None and (not row["labels"] or set(row["labels"]) & set(FINDINGS)):
            labels[i] = [name in row["labels"] for name in FINDINGS]
    named = np.array([r["id"].partition("/")[0] for r in rows])
    finds = {source for source in np.unique(named) if np.nansum(labels[named == source])}
    if finds:  # where a source has no film with a finding, "none found" would teach networks to tell its films apart
        labels[~np.isin(named, list(finds))] = np.nan
    films = np.memmap(directory / "films.u8", np.uint8, "r", shape=(len(rows), size, size))
    return Corpus(
        films=films,
        patients=np.array([r["patient"] for r in rows]),
        splits=np.array([r["split"] for r in rows]),
        views=np.array([r["view"] for r in rows]),
        labels=labels,
        sentences=[r["sentences"] for r in rows],
        ids=np.array([r["id"] for r in rows]),
        observations=[None if r["labels"] is None else tuple(r["labels"]) for r in rows],
        rule=described.get("rule", "hash"),
    )
