"""The before/after sheet of UPDP: validation films of ChestX-ray14 beside the films that replace them.

    python docs/make_sheet.py --data CHESTXRAY14 --out docs/pictures/updp-before-after.png

ChestX-ray14 may be shown (NIH Clinical Center); what leaves is the lower film of each pair, and its labels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from updp.bench.prompts import validation_studies
from updp.core.record import Study
from updp.domains.chest import PACK
from updp.methods.updp.method import UPDP

#: One film of each, in this order, so that the sheet shows what findings look like.
WANTED = ((), ("Cardiomegaly",), ("Effusion",), ("Atelectasis",), ("Pneumothorax",), ("Infiltration",))


def chosen(data: Path) -> list[Study]:
    """The first validation film with just each wanted set of labels."""
    found: dict[tuple[str, ...], Study] = {}
    for study in validation_studies([data], 10_000):
        labels = study.labels or ()
        if labels in WANTED and labels not in found and study.view == "PA":
            found[labels] = study
        if len(found) == len(WANTED):
            break
    return [found[labels] for labels in WANTED if labels in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures/updp-before-after.png"))
    parser.add_argument("--pack", default=PACK)
    asked = parser.parse_args()
    studies = chosen(asked.data)
    made = UPDP(pack=asked.pack).deidentify(studies, None, [np.random.default_rng([7, i]) for i in range(len(studies))])
    side, gap, head = 256, 8, 30
    sheet = Image.new("L", (len(studies) * (side + gap) - gap, head + 2 * side + gap), 255)
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(17)
    for i, (study, new) in enumerate(zip(studies, made, strict=True)):
        left = i * (side + gap)
        pen.text((left + 4, 4), ", ".join(study.labels or ("no finding",)), 0, font)
        for row, pixels in enumerate((study.pixels, new.pixels)):
            top = head + row * (side + gap)
            if pixels is None:
                pen.text((left + 40, top + 110), "kept back", 0, font)
            else:
                sheet.paste(Image.fromarray(np.uint8(np.clip(pixels, 0, 1) * 255)), (left, top))
    sheet.save(asked.out, optimize=True)


if __name__ == "__main__":
    main()
