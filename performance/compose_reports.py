"""A cohort of several studies per patient with reports, composed of two public sets, for `updp certify`.

    python performance/compose_reports.py --films CHESTXRAY14 --reports IU_XRAY --patients 150 --out COHORT
    updp certify --data COHORT --method updp --strength 1 --quick --films 600 --out COHORT.json

ChestX-ray14 has several films of a patient and no reports, IU X-Ray has reports and one study of a patient. Films are
of ChestX-ray14 patients who train no model. Each film gets the report of IU X-Ray that the pack's vlm finds nearest
to the pixels, among the reports with the most similar set of findings. So the words follow what the film shows, as
those of a radiologist do, and what persists in a patient's films may persist in the reports: an attacker has
something to find. With ``--any`` a report is drawn among the most similar sets of findings without a look at the
film.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from updp.core.record import Study
from updp.domains.chest import PACK
from updp.domains.chest.labels import FINDINGS
from updp.models.pack import Pack, load_pack
from updp.sources import open_source
from updp.training.corpus import split_for, square

_BATCH = 64


def unseen_patients(source: Path, patients: int, most: int) -> list[list[Study]]:
    """Patients of ChestX-ray14 whom no pack may train on, with two films or more; `most` of each at the most."""
    people = defaultdict(list)
    opened = open_source(source)
    for study in opened:
        taken = isinstance(study, Study) and study.labels is not None and study.view != "LATERAL"
        if taken and split_for("chestxray14", study, "halves") == "reserved":
            people[study.patient_id].append(study)
    several = [people[name][:most] for name in sorted(people) if len(people[name]) > 1]
    chosen = np.random.default_rng(0).permutation(len(several))[:patients]
    return [[opened.load(study) for study in several[i]] for i in chosen]


def written(source: Path) -> Iterator[tuple[frozenset[str], dict[str, str]]]:
    """Findings and sections of every report."""
    for study in open_source(source):
        if isinstance(study, Study) and study.report is not None and study.labels is not None:
            sections = {k: v for k, v in study.report.sections.items() if k in ("findings", "impression") and v}
            if sections:
                yield frozenset(study.labels) & frozenset(FINDINGS), sections


def similar(ours: frozenset[str], sets: list[frozenset[str]]) -> NDArray[np.intp]:
    """The reports whose set of findings overlaps most with these."""
    overlap = np.array([len(ours & other) / len(ours | other) if ours | other else 1.0 for other in sets])
    return np.flatnonzero(overlap == overlap.max())


@torch.no_grad()
def embedded(pack: Pack, texts: list[str], films: NDArray[np.uint8]) -> tuple[torch.Tensor, torch.Tensor]:
    """Reports and films in the space of the pack's vlm."""
    said = [pack.vlm.embed_texts(texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)]
    seen = []
    for i in range(0, len(films), _BATCH):
        seen.append(pack.vlm.embed_images(torch.from_numpy(films[i : i + _BATCH]).float()[:, None] / 255))
    return torch.cat(said), torch.cat(seen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=Path, required=True, help="ChestX-ray14")
    parser.add_argument("--reports", type=Path, required=True, help="IU X-Ray")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--patients", type=int, default=150)
    parser.add_argument("--most", type=int, default=4, help="films of a patient")
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--any", action="store_true", help="reports follow findings and nothing else of the film")
    given = parser.parse_args()
    studies = [study for person in unseen_patients(given.films, given.patients, given.most) for study in person]
    films = np.stack([square(study.pixels, 256) for study in studies if study.pixels is not None])
    reports = list(written(given.reports))
    sets = [findings for findings, _ in reports]
    said, seen = embedded(load_pack(given.pack), [" ".join(s.values()) for _, s in reports], films)
    rng = np.random.default_rng(1)
    (given.out / "films").mkdir(parents=True, exist_ok=True)
    with open(given.out / "manifest.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(
            file, ["film_id", "study_id", "patient_id", "image", "view", "labels", "findings", "impression"]
        )
        rows.writeheader()
        for i, (study, film) in enumerate(zip(studies, films, strict=True)):
            near = similar(frozenset(study.labels or ()), sets)
            chosen = int(rng.choice(near)) if given.any else int(near[int((said[near] @ seen[i]).argmax())])
            Image.fromarray(film).save(given.out / "films" / f"{i:05d}.png")
            rows.writerow(
                {
                    "film_id": f"film-{i:05d}",
                    "study_id": f"study-{i:05d}",
                    "patient_id": study.patient_id,
                    "image": f"films/{i:05d}.png",
                    "view": study.view,
                    "labels": "|".join(sorted(study.labels or ())) or "No Finding",
                    **reports[chosen][1],
                }
            )
    print(f"{len(studies)} films of {given.patients} patients, {len(reports)} reports")


if __name__ == "__main__":
    main()
