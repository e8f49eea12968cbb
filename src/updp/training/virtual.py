"""Films for the virtual hospital: invented patients whose anatomy persists while findings change.

Each patient is one film from noise; every examination is image-to-image from it with the findings of that day. A film
that comes too near to a training film, as a person or as a picture, is made again from another seed.

    python -m updp.training.virtual PACK CORPUS [--patients 40] [--seed 1]

CORPUS is the folder of decoded films that the pack was trained on (RUN/corpus); the films go to PACK/virtual, and
their hashes into its `pack.toml`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from updp.domains.chest.words import compose
from updp.models.pack import Pack, load_pack, write_pack_toml
from updp.training.codes import codes_of, nearest, pixel_codes
from updp.training.corpus import load_corpus

#: Findings that change within months, and how often an examination shows one.
_PASSING = ("Effusion", "Atelectasis", "Infiltration", "Pneumonia", "Consolidation", "Edema", "Pneumothorax")
_LASTING = ("Cardiomegaly", "Emphysema", "Nodule", "Fibrosis", "Pleural_Thickening")
_SICK, _CHRONIC = 0.5, 0.3
#: How much of an examination is drawn anew. The finisher of the default pack begins at 0.7.
_STRENGTH = 0.71


@dataclass(frozen=True)
class Examination:
    patient: int
    study: int
    view: str
    findings: tuple[str, ...]
    pixels: NDArray[np.uint8]


@dataclass(frozen=True)
class Shelf:
    """Training films, as persons and as pictures, and the similarity from which a film counts as a copy."""

    people: NDArray[np.float32]
    pictures: NDArray[np.float32]
    person_limit: float
    picture_limit: float

    def copies(self, pack: Pack, films: Tensor) -> NDArray[np.bool_]:
        with torch.no_grad():
            person = nearest(pack.identity.embed(films).numpy(), self.people)
        picture = nearest(pixel_codes(films), self.pictures)
        both: NDArray[np.bool_] = (person > self.person_limit) | (picture > self.picture_limit)
        return both


def make_virtual_films(
    pack: Pack,
    seed: int,
    patients: int = 40,
    *,
    shelf: Shelf,
    steps: int | None = None,
    tries: int = 5,
) -> list[Examination]:
    """Two to five examinations of each patient, one frontal film per examination."""
    rng = np.random.default_rng([seed, *b"virtual"])

    def fresh(prompts: list[str], **options: Any) -> Tensor:
        """Films for these prompts, none of them a copy."""
        seeds = rng.integers(2**31, size=len(prompts))
        films = pack.generator.generate(prompts, seeds.tolist(), steps, **options)
        for _ in range(tries):
            again = shelf.copies(pack, films)
            if not again.any():
                return films
            places = np.flatnonzero(again)
            some: dict[str, Any] = {
                k: v[torch.from_numpy(places)] if isinstance(v, Tensor) else v for k, v in options.items()
            }
            seeds = rng.integers(2**31, size=len(places))
            films[places] = pack.generator.generate([prompts[i] for i in places], seeds.tolist(), steps, **some)
        raise ValueError(f"{int(again.sum())} films stay too near to training films after {tries} tries")

    views = ["AP" if rng.random() < 0.3 else "PA" for _ in range(patients)]
    lasting = [(str(rng.choice(_LASTING)),) if rng.random() < _CHRONIC else () for _ in range(patients)]
    bases = fresh([compose(found, view, rng) for found, view in zip(lasting, views, strict=True)])
    plan: list[tuple[int, int, tuple[str, ...]]] = []
    for patient in range(patients):
        for study in range(int(rng.integers(2, 6))):
            passing = (str(rng.choice(_PASSING)),) if rng.random() < _SICK else ()
            plan.append((patient, study, lasting[patient] + passing))
    prompts = [compose(found, views[patient], rng) for patient, _, found in plan]
    start = bases[torch.tensor([patient for patient, _, _ in plan])]
    films = fresh(prompts, init_images=start, strength=_STRENGTH)
    eight = (films[:, 0] * 255).round().byte().numpy()
    return [
        Examination(patient, study, views[patient], found, pixels)
        for (patient, study, found), pixels in zip(plan, eight, strict=True)
    ]


def write_virtual_films(examinations: list[Examination], folder: Path) -> None:
    """`films.json` and one grey JPEG per examination, as `updp.virtual.hospital` reads them."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for made in examinations:
        file = f"{made.patient}-{made.study}.jpg"
        Image.fromarray(made.pixels).save(folder / file, quality=90)
        rows.append(
            {
                "patient": made.patient,
                "study": made.study,
                "view": made.view,
                "findings": list(made.findings),
                "file": file,
            }
        )
    (folder / "films.json").write_text(json.dumps({"films": rows}, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("pack")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--patients", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    pack, corpus = load_pack(given.pack), load_corpus(given.corpus)
    limits = pack.info["thresholds"]
    shelf = Shelf(*codes_of(pack, corpus, corpus.rows("train")), limits["identity_copy"], limits["pixel_copy"])
    made = make_virtual_films(pack, given.seed, given.patients, shelf=shelf)
    write_virtual_films(made, pack.path / "virtual")
    write_pack_toml(pack.path, {name: value for name, value in pack.info.items() if name != "sha256"})
    print(f"{len(made)} films of {given.patients} patients in {pack.path / 'virtual'}")


if __name__ == "__main__":
    main()
