"""Thirty-two films, half real and half generated, shuffled; the key is written to another page.

    python docs/make_second_look.py --data CHESTXRAY14 --pack cxr256-2

The real ones are validation films of ChestX-ray14, which may be shown (NIH Clinical Center); each generated one has the
labels and the view of a real one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from updp.core.record import Study
from updp.domains.chest.words import compose
from updp.models.pack import load_pack
from updp.training.corpus import split_for
from updp.training.recipe import read_films

COLUMNS, ROWS, SIDE = 8, 4, 256
HERE = Path(__file__).parent


def validation_films(data: Path, count: int, rng: np.random.Generator) -> list[Study]:
    """Labelled films of different patients who validate packs."""
    first: dict[str, Study] = {}
    for name, study in read_films([data]):
        if split_for(name, study, "halves") == "val" and study.labels is not None and study.view in ("PA", "AP"):
            first.setdefault(study.patient_id, study)
    people = sorted(first)
    return [first[people[i]] for i in rng.permutation(len(people))[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pack", default="cxr256-2")
    parser.add_argument("--seed", type=int, default=32)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    count = COLUMNS * ROWS // 2
    studies = validation_films(asked.data, 2 * count, rng)
    real, models = studies[:count], studies[count:]
    prompts = [compose(study.labels or (), study.view or "", rng) for study in models]
    made = load_pack(asked.pack).generator.generate(prompts, [int(s) for s in rng.integers(2**31, size=count)])
    films = [np.uint8(np.clip(np.asarray(s.pixels), 0, 1) * 255) for s in real]
    films += [np.uint8(film[0].numpy() * 255) for film in made]
    order = rng.permutation(2 * count)
    sheet = Image.new("L", (COLUMNS * SIDE, ROWS * SIDE))
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(20)
    for place, index in enumerate(order):
        left, top = place % COLUMNS * SIDE, place // COLUMNS * SIDE
        picture = Image.fromarray(films[index])
        side = min(picture.size)
        x, y = (picture.width - side) // 2, (picture.height - side) // 2
        sheet.paste(picture.crop((x, y, x + side, y + side)).resize((SIDE, SIDE)), (left, top))
        pen.text((left + 6, top + SIDE - 28), str(place + 1), 255, font, stroke_width=2, stroke_fill=0)
    sheet.save(HERE / "pictures" / "second-look.png", optimize=True)
    generated = ", ".join(str(place + 1) for place, index in enumerate(order) if index >= count)
    others = "All others are films of ChestX-ray14 (NIH Clinical Center)."
    key = ["# Key of the thirty-two films", f"Generated: {generated}.", others]
    (HERE / "second-look-key.md").write_text("\n\n".join(key) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
