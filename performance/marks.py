"""Burned-in marks that an OCR does not read: what is left of them, what happens to films without, and the cost.

Codes, mirrored, flipped and slanted text, other scripts than Latin, and initials beside a side marker are drawn onto
chest films of 256, 1024 and 3000 pixels. A mark keeps its own ink, so that what is left of it after screening can be
measured without reading it: the share of the ink's contrast that is still there, in the letter where it is highest.
Codes are made by zxing-cpp, and decoded by zxing-cpp and OpenCV. A film that was kept back leaves nothing.

    python performance/marks.py --films FOLDER [--each 25] [--clean FOLDER ...] [--films-each 50] [--seed 0]

Scripts whose Noto font is not installed are passed over (Debian packages fonts-noto-core and fonts-noto-cjk;
fonts-liberation for the Latin ones). ``UPDP_FONTS`` names another folder than /usr/share/fonts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import matplotlib
import numpy as np
import zxingcpp
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from updp.core.policy import BurnedInPolicy
from updp.core.reasons import Refused
from updp.screening.burned_in import TextScreen

Film = NDArray[np.float32]

DEJAVU = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
#: Where fonts are; ``UPDP_FONTS`` names another folder of the same form.
FONTS = Path(os.environ.get("UPDP_FONTS", "/usr/share/fonts"))
NOTO = str(FONTS / "truetype/noto/NotoSans{}-Regular.ttf")
CJK = str(FONTS / "opentype/noto/NotoSansCJK-Regular.ttc")
LATIN = tuple(
    str(FONTS / f"truetype/liberation/Liberation{name}.ttf")
    for name in ("Sans-Bold", "Mono-Regular", "Serif-Regular", "SansNarrow-Regular")
)

NAMES = ("MEYER, JONATHAN", "MRN 48213377", "DOB 06.16.1976", "KAUFMAN S", "14-MAR-2019", "ST MARY HOSP", "10:32:07")
ALPHABETS = {  # scripts written from the left with separate letters: font, words
    "Cyrillic": ("", ("ИВАНОВ ПЁТР", "ШЕВЧЕНКО О.", "Жукова Дарья", "ЩУКИН Ф.")),
    "Greek": ("", ("ΠΑΠΑΔΟΠΟΥΛΟΣ", "Σωκράτης Ψ.", "ΓΕΩΡΓΙΑΔΗΣ Θ")),
    "Armenian": ("Armenian", ("ՀԱՐՈՒԹՅՈՒՆՅԱՆ", "Սարգսյան Վ")),
    "Georgian": ("Georgian", ("ბერიძე გიორგი", "კაპანაძე")),
}
SCRIPTS = {
    "Arabic": ("Arabic", ("محمد عبد الله", "فاطمة الزهراء", "١٩٧٦/٠٦/١٦")),
    "Hebrew": ("Hebrew", ("יעקב כהן", "שרה לוי")),
    "Devanagari": ("Devanagari", ("राजेश शर्मा", "सुनीता देवी")),
    "Bengali": ("Bengali", ("রহিম উদ্দিন",)),
    "Tamil": ("Tamil", ("முருகன் செல்வம்",)),
    "Thai": ("Thai", ("สมชาย ใจดี",)),
    "Khmer": ("Khmer", ("សុខា ចាន់",)),
    "Ethiopic": ("Ethiopic", ("አበበ በቀለ",)),
}
HAN = {"Chinese": ("王小明", "李秀英 女", "张伟 1976"), "Japanese": ("山田太郎", "すずき はなこ", "タナカ ユキ"),
       "Korean": ("김철수", "박영희 님")}  # fmt: skip
MATRIX = ("QRCode", "MicroQRCode", "DataMatrix", "Aztec", "QRCode")
BARS = ("Code128", "Code39", "EAN13", "ITF", "Codabar", "PDF417", "Code93", "UPCA")
#: What is left of a mark's contrast from which a letter counts as legible.
LEGIBLE = 0.25
#: Sides of the films, in pixels, of every ten: all that was ever exported small, and a detector's native size.
SIDES = (256, 1024, 256, 256, 3000, 256, 1024, 256, 256, 1024)
CLASSES = ("matrix code", "bar code", "mirrored", "turned", "alphabet", "script", "han", "initials")


@dataclass(frozen=True)
class Mark:
    """What was drawn: its place, its ink (0 to 1) and, for a code, what it says."""

    kind: str
    x: int
    y: int
    ink: Film
    says: str | None = None

    def cut(self, film: Film) -> Film:
        """The film at the mark's place."""
        return film[self.y : self.y + self.ink.shape[0], self.x : self.x + self.ink.shape[1]]


def font_of(script: str) -> str:
    """A font for a script, or an empty text if none is installed."""
    noto = NOTO.format((ALPHABETS | SCRIPTS)[script][0] or script)
    if Path(noto).exists():
        return noto
    return DEJAVU if script in (*ALPHABETS, "Arabic", "Hebrew") else ""


def letters(text: str, font: str, size: int) -> Film:
    """Text as ink."""
    face = ImageFont.truetype(font, size)
    left, top, right, bottom = (int(v) for v in face.getbbox(text))
    sheet = Image.new("L", (right - left + 2, bottom - top + 2))
    ImageDraw.Draw(sheet).text((1 - left, 1 - top), text, fill=255, font=face)
    return np.asarray(sheet, dtype=np.float32) / 255


def code(says: str, kind: str, module: float) -> Film:
    """A code as ink, black modules 0 and white ones 1, with its quiet zone; ``module`` is in pixels."""
    made = zxingcpp.create_barcode(says, getattr(zxingcpp.BarcodeFormat, kind))
    plain = np.asarray(made.to_image(scale=1, add_quiet_zones=True), dtype=np.uint8)
    if kind in BARS and kind != "PDF417":
        plain = np.repeat(plain[:1], max(12, plain.shape[1] // 3), axis=0)
    size = (max(8, round(plain.shape[1] * module)), max(8, round(plain.shape[0] * module)))
    fine = np.kron(plain, np.ones((8, 8), dtype=np.uint8))
    return np.asarray(cv2.resize(fine, size, interpolation=cv2.INTER_AREA), dtype=np.float32) / 255


def slanted(ink: Film, degrees: float) -> Film:
    """Ink turned by any angle."""
    sheet = Image.fromarray((ink * 255).astype(np.uint8)).rotate(degrees, Image.Resampling.BICUBIC, expand=True)
    return np.asarray(sheet, dtype=np.float32) / 255


def stamp(film: Film, ink: Film, at: tuple[int, int], contrast: float, kind: str, says: str | None = None) -> Mark:
    """Lay ink onto a film in place: brighter than what is under it, darker where that is bright already."""
    x, y = at
    under = film[y : y + ink.shape[0], x : x + ink.shape[1]]
    sign = 1.0 if float(under.mean()) < 0.6 else -1.0
    film[y : y + ink.shape[0], x : x + ink.shape[1]] = np.clip(under + sign * contrast * ink, 0, 1)
    return Mark(kind, x, y, ink, says)


def label(film: Film, ink: Film, at: tuple[int, int], contrast: float, kind: str, says: str) -> Mark:
    """Lay a code with its own light ground onto a film in place."""
    x, y = at
    under = film[y : y + ink.shape[0], x : x + ink.shape[1]]
    low = float(np.clip(under.mean() - contrast / 2, 0, 1 - contrast))
    film[y : y + ink.shape[0], x : x + ink.shape[1]] = low + contrast * ink
    return Mark(kind, x, y, ink, says)


def spot(film: Film, ink: Film, rng: np.random.Generator) -> tuple[int, int]:
    """Anywhere on the film."""
    height, width = ink.shape
    return int(rng.integers(2, film.shape[1] - width - 2)), int(rng.integers(2, film.shape[0] - height - 2))


def mark(film: Film, kind: str, rng: np.random.Generator, turn: int) -> list[Mark]:
    """Draw one mark of a class onto a film, in place; ``turn`` goes through the variants of the class."""
    side = max(film.shape)
    size = int(np.clip(side * rng.uniform(0.022, 0.05), 10, 110))
    contrast = float(rng.uniform(0.3, 0.9))
    if kind in ("matrix code", "bar code"):
        kinds = MATRIX if kind == "matrix code" else BARS
        name = kinds[turn % len(kinds)]
        says = {"EAN13": "4821337700012", "UPCA": "048213377002", "ITF": "48213377", "Codabar": "A48213377B",
                "MicroQRCode": "48213377"}.get(name, "MRN 48213377")  # fmt: skip
        if name in ("EAN13", "UPCA"):
            says = says[:-1]
        module = (
            max(2.0, side * rng.uniform(0.002, 0.006))
            if name in MATRIX
            else max(1.5, side * rng.uniform(0.0012, 0.003))
        )
        ink = code(says, name, module)
        while max(ink.shape) > 0.8 * min(film.shape):
            module *= 0.8
            ink = code(says, name, module)
        ink = np.rot90(ink, int(rng.integers(4)))
        if rng.random() < 0.3:
            ink = np.fliplr(ink)
        if rng.random() < 0.3:
            ink = 1 - ink
        return [label(film, np.ascontiguousarray(ink), spot(film, ink, rng), contrast, name, says)]
    fonts = [font for font in (DEJAVU, *LATIN) if Path(font).exists()]
    font = str(rng.choice(fonts))
    if kind == "mirrored":
        ink = np.fliplr(letters(str(rng.choice(NAMES)), font, size))
        if turn % 3 == 2:
            ink = np.rot90(ink, 1 + 2 * (turn % 2))
    elif kind == "turned":
        ink = letters(str(rng.choice(NAMES)), font, size)
        how = turn % 4
        if how < 2:
            ink = np.flipud(ink) if how else np.rot90(ink, 2)
        else:
            ink = slanted(ink, float(rng.choice([-1, 1]) * rng.uniform(15, 75)))
    elif kind in ("alphabet", "script"):
        table = ALPHABETS if kind == "alphabet" else SCRIPTS
        names = [name for name in table if font_of(name)]
        name = names[turn % len(names)]
        ink = letters(str(rng.choice(table[name][1])), font_of(name), size)
    elif kind == "han":
        name = tuple(HAN)[turn % len(HAN)]
        text = str(rng.choice(HAN[name]))
        ink = letters(text, CJK, size)
        if turn % 4 == 3:
            ink = _column([letters(c, CJK, size) for c in text if c.strip()])
    else:
        return [_initials(film, font, rng, contrast, turn)]
    while max(ink.shape) > 0.9 * min(film.shape):
        ink = np.asarray(cv2.resize(ink, None, fx=0.8, fy=0.8, interpolation=cv2.INTER_AREA), dtype=np.float32)
    return [stamp(film, np.ascontiguousarray(ink), spot(film, ink, rng), contrast, kind)]


def _column(signs: Sequence[Film]) -> Film:
    width = max(sign.shape[1] for sign in signs)
    gap = max(1, width // 8)
    rows = [np.pad(sign, ((0, gap), (0, width - sign.shape[1]))) for sign in signs]
    return np.concatenate(rows).astype(np.float32)


def _initials(film: Film, font: str, rng: np.random.Generator, contrast: float, turn: int) -> Mark:
    """A side marker in an upper corner with two or three letters beside or below it."""
    side = max(film.shape)
    big = int(np.clip(side * rng.uniform(0.045, 0.08), 14, 200))
    small = int(np.clip(big * rng.uniform(0.4, 0.8), 10, 110))
    letter = "LR"[turn % 2]
    initials = "".join(rng.choice(list("BCEFGHJKMNSTVWXZ"), 2 + turn % 3 // 2))
    one, two = letters(letter, font, big), letters(initials, font, small)
    below = turn % 4 >= 2
    gap = max(2, small // 4)
    if below:
        height, width = one.shape[0] + gap + two.shape[0], max(one.shape[1], two.shape[1])
        where = (one.shape[0] + gap, 0)
    else:
        height, width = max(one.shape[0], two.shape[0]), one.shape[1] + gap + two.shape[1]
        where = (height - two.shape[0], one.shape[1] + gap)
    marker, ink = np.zeros((height, width), np.float32), np.zeros((height, width), np.float32)
    marker[: one.shape[0], : one.shape[1]] = one
    ink[where[0] : where[0] + two.shape[0], where[1] : where[1] + two.shape[1]] = two
    if turn % 5 == 4:  # the cassette was turned round
        marker, ink = np.fliplr(marker), np.fliplr(ink)
    margin = side // 40
    at = (margin if letter == "R" else film.shape[1] - width - margin, margin)
    stamp(film, np.ascontiguousarray(marker), at, contrast, "marker")
    return stamp(film, np.ascontiguousarray(ink), at, contrast, "initials")


# -- the judge ---------------------------------------------------------------------------------------------------------


def left(mark: Mark, before: Film, after: Film) -> float:
    """The share of a mark's contrast still on the film, in the letter where it is highest.

    The film is compared with the ink by projection, window by window, each about a letter wide; grain and what was
    painted in have nothing in common with the ink and give values near zero.
    """
    ink = mark.ink
    if not ink.any():
        return 0.0
    rows, columns = (np.nonzero(ink.any(axis=axis))[0] for axis in (1, 0))
    ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    was, now = (mark.cut(film)[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] for film in (before, after))
    step = max(6, min(ink.shape))
    worst = 0.0
    for y in range(0, max(1, ink.shape[0] - step // 2), step):
        for x in range(0, max(1, ink.shape[1] - step // 2), step):
            window = np.s_[y : y + step, x : x + step]
            shape = ink[window] - ink[window].mean()
            then = float((shape * was[window]).sum())
            if float((shape**2).sum()) > 0.02 * shape.size and abs(then) > 0:
                worst = max(worst, float((shape * now[window]).sum()) / then)
    return worst


def decoded(mark: Mark, film: Film) -> bool:
    """Whether a code can still be decoded, on the whole film or at its own place, by zxing-cpp or OpenCV."""
    assert mark.says is not None
    pad = 12
    near = film[max(0, mark.y - pad) : mark.y + mark.ink.shape[0] + pad,
                max(0, mark.x - pad) : mark.x + mark.ink.shape[1] + pad]  # fmt: skip
    low, high = np.percentile(near, (1, 99))
    near = np.clip((near - low) / max(float(high - low), 1e-3), 0, 1)
    zoom = max(1.0, 512 / max(near.shape))
    near = np.asarray(cv2.resize(near, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_CUBIC), dtype=np.float32)
    for view in (film, near):
        for image in (view, np.fliplr(view)):
            grey = np.ascontiguousarray((np.clip(image, 0, 1) * 255).astype(np.uint8))
            if any(found.valid for found in zxingcpp.read_barcodes(grey)):
                return True
            if view is near:
                for sheet in (grey, 255 - grey):
                    if cv2.QRCodeDetector().detectAndDecode(sheet)[0]:
                        return True
                    if mark.kind in BARS and cv2.barcode.BarcodeDetector().detectAndDecode(sheet)[0]:
                        return True
    return False


# -- the run -----------------------------------------------------------------------------------------------------------


def load(path: Path, side: int | None, rng: np.random.Generator) -> Film:
    """A film, enlarged with grain of its own where it is smaller than wanted."""
    image = Image.open(path).convert("L")
    if side is not None and side != max(image.size):
        scale = side / max(image.size)
        image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
    film = np.asarray(image, dtype=np.float32) / 255
    if side is not None and side > 256:
        film = np.clip(film + rng.normal(0, 0.008, film.shape), 0, 1).astype(np.float32)
    return np.ascontiguousarray(film)


def pictures(folder: Path, count: int, rng: np.random.Generator) -> list[Path]:
    """Films of a folder, in an order of their own."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    return [paths[i] for i in rng.permutation(len(paths))[:count]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=Path, required=True, help="folder of chest films to draw on")
    parser.add_argument("--each", type=int, default=25, help="films per class")
    parser.add_argument("--classes", nargs="*", choices=CLASSES, default=CLASSES, help="screen these (all are drawn)")
    parser.add_argument("--clean", type=Path, nargs="*", default=[], help="folders of films to screen as they are")
    parser.add_argument("--films-each", type=int, default=50, help="films of each such folder")
    parser.add_argument("--save", type=Path, help="folder for pictures of what was painted on films as they are")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    cv2.setNumThreads(1)
    rng = np.random.default_rng(args.seed)
    paths = pictures(args.films, args.each * len(CLASSES), rng)
    screen = TextScreen(BurnedInPolicy())
    print(
        "| marks | films | decodable before | decodable after | legible after | kept back |\n|---|---|---|---|---|---|"
    )
    total = np.zeros(5, dtype=int)
    for number, kind in enumerate(CLASSES):
        row = np.zeros(5, dtype=int)
        for turn in range(args.each):
            film = load(paths[number * args.each + turn], SIDES[turn % len(SIDES)], rng)
            drawn = mark(film, kind, rng, turn)[0]
            if kind not in args.classes:
                continue
            row[:2] += (1, drawn.says is not None and decoded(drawn, film))
            try:
                after = screen.screen(film).pixels
            except Refused:
                row[4] += 1
                continue
            share = left(drawn, film, after)
            row[2:4] += (drawn.says is not None and decoded(drawn, after), share > LEGIBLE)
            if share > LEGIBLE:
                print(f"{kind}, film {turn}: {share:.2f} of the contrast left", file=sys.stderr, flush=True)
        if kind not in args.classes:
            continue
        total += row
        print(f"| {kind} | " + " | ".join(map(str, row)) + " |", flush=True)
    print("| **all** | " + " | ".join(map(str, total)) + " |\n")
    for folder in args.clean:
        times, painted, area, back = [], 0, [], 0
        for path in pictures(folder, args.films_each, rng):
            film = load(path, None, rng)
            start = time.process_time()
            try:
                after = screen.screen(film).pixels
            except Refused:
                back += 1
                continue
            times.append(time.process_time() - start)
            if after is not film:
                painted += 1
                area.append(float((after != film).mean()))
                if args.save:
                    both = Image.fromarray((np.hstack([film, after]) * 255).astype(np.uint8))
                    both.save(args.save / f"{folder.parent.name}-{path.stem}.png")
        share = statistics.median(area) if area else 0.0
        print(f"{folder.parent.name}: {args.films_each} films, painted on {painted}", end=" ")
        print(f"(median {100 * share:.1f} % of the film), kept back {back},", end=" ")
        print(f"{statistics.mean(times):.2f} s per film on one core", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
