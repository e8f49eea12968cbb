"""Burned-in text: what another OCR can still read, which markers stay, and what a film costs.

Letters are drawn onto chest films in several fonts and sizes: plain, small, faint, turned by 90°, over bone and white
on white. The judge is tesseract: it looks at the whole film, and at each token's own place, cut out, turned upright,
stretched to full contrast and enlarged, which is more than an attacker without the answers can do. Beside it stands
what tools that look for text with tesseract do (boxes of confidence over 40 blackened).

    python performance/burned_in.py --films FOLDER [--each 8] [--fonts F.ttf ...] [--seed 0]

Without ``--films`` backgrounds are drawn. Needs the Debian package tesseract-ocr and the extra ``ocr``.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import io
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from updp.core.policy import BurnedInPolicy
from updp.core.reasons import Refused
from updp.screening.burned_in import TextScreen

SIDE = 1024
LINES = (
    "MEYER, JONATHAN",
    "MRN 48213377",
    "DOB 06.16.1976",
    "ST MARY HOSPITAL",
    "14-MAR-2019 10:32:07",
    "KAUFMAN STEPHANIE F",
    "ACC 77120345",
    "DR. A DOUGLAS",
)
CONDITIONS = ("plain", "small", "faint", "turned", "over bone", "white on white")
FONT_FOLDERS = ("/usr/share/fonts", str(Path(sys.prefix) / "lib"))
FONT_NAMES = (
    "DejaVuSans.ttf", "DejaVuSansMono-Bold.ttf", "LiberationMono-Regular.ttf", "LiberationSerif-Bold.ttf",
    "LiberationSansNarrow-Regular.ttf", "FreeSans.ttf", "NimbusRoman-Regular.otf", "cmss10.ttf",
)  # fmt: skip


@dataclass
class Stamp:
    """A line drawn onto a film."""

    x: int
    y: int
    w: int
    h: int
    turned: bool
    tokens: tuple[str, ...]


def fonts(given: list[str]) -> list[str]:
    if given:
        return given
    found = []
    for name in FONT_NAMES:
        hits = [str(p) for folder in FONT_FOLDERS for p in Path(folder).rglob(name)]
        found += sorted(hits)[:1]
    return found


def backgrounds(folder: Path | None, seed: int) -> Iterator[NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    paths = sorted(folder.iterdir()) if folder else []
    rng.shuffle(paths)  # type: ignore[arg-type]
    while True:
        if paths:
            image = Image.open(paths.pop()).convert("L").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
            film = np.asarray(image, dtype=np.float32) / 255
        else:
            y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32) / SIDE
            film = 0.75 - 0.5 * sum(np.exp(-(((x - c) / 0.16) ** 2 + ((y - 0.5) / 0.3) ** 2)) for c in (0.3, 0.7))
            film = film + 0.06 * np.sin(40 * y + 6 * np.abs(x - 0.5)) - 0.7 * (y < 0.04)
        yield np.clip(film + rng.normal(0, 0.008, film.shape), 0, 1).astype(np.float32)


def place(
    film: NDArray[np.float32], size: tuple[int, int], condition: str, rng: np.random.Generator
) -> tuple[int, int]:
    """Where a line goes: anywhere; over bone in the upper middle; white on white where the film is brightest."""
    w, h = size
    if condition == "over bone":
        return int(rng.integers(SIDE // 2 - w // 2 - 60, SIDE // 2 - w // 2 + 60)), int(rng.integers(60, SIDE // 2))
    spots = [(int(rng.integers(4, SIDE - w - 4)), int(rng.integers(4, SIDE - h - 4))) for _ in range(60)]
    if condition == "white on white":
        return max(spots, key=lambda s: float(film[s[1] : s[1] + h, s[0] : s[0] + w].mean()))
    return spots[0]


def draw(film: NDArray[np.float32], line: str, font: str, condition: str, rng: np.random.Generator) -> Stamp:
    size = int(rng.integers(11, 15) if condition == "small" else rng.integers(16, 49))
    face = ImageFont.truetype(font, size)
    left, top, right, bottom = (int(v) for v in face.getbbox(line))
    sheet = Image.new("L", (right - left + 4, bottom - top + 4))
    ImageDraw.Draw(sheet).text((2 - left, 2 - top), line, fill=255, font=face)
    ink = np.asarray(sheet, dtype=np.float32) / 255
    turned = condition == "turned"
    if turned:
        ink = np.rot90(ink, int(rng.choice([1, 3])))
    h, w = ink.shape
    x, y = place(film, (w, h), condition, rng)
    under = film[y : y + h, x : x + w]
    contrast = float(rng.uniform(0.08, 0.15))
    if condition == "faint":
        letters = np.clip(under + (contrast if under.mean() < 0.8 else -contrast), 0, 1)
    elif condition == "white on white":
        letters = np.clip(np.maximum(under, 0.0) + contrast, 0, 1)
        under = film[y : y + h, x : x + w] = np.minimum(under, 1 - contrast)
    else:
        letters = np.ones_like(under) if under.mean() < 0.75 else np.zeros_like(under)
    film[y : y + h, x : x + w] = under * (1 - ink) + letters * ink
    tokens = tuple(t for t in (plain(word) for word in line.split()) if len(t) >= 3)
    return Stamp(x, y, w, h, turned, tokens)


def plain(text: str) -> str:
    return "".join(c for c in text.upper() if c.isalnum())


def tesseract(image: NDArray[np.float32], psm: int, *, table: bool = False) -> str:
    png = io.BytesIO()
    Image.fromarray((np.clip(image, 0, 1) * 255).astype(np.uint8)).save(png, "PNG")
    command = ["tesseract", "-", "-", "--psm", str(psm), *(["tsv"] if table else [])]
    done = subprocess.run(
        command, input=png.getvalue(), capture_output=True, check=True, env={**os.environ, "OMP_THREAD_LIMIT": "1"}
    )
    return done.stdout.decode("utf-8", "replace")


def readings(film: NDArray[np.float32], stamps: list[Stamp]) -> list[list[str]]:
    """For each line, the words tesseract finds: on the whole film, and at its own place in either direction."""
    whole = tesseract(film, 11).split()
    if any(s.turned for s in stamps):
        whole += tesseract(np.rot90(film), 11).split() + tesseract(np.rot90(film, 3), 11).split()
    out = []
    for s in stamps:
        cut = film[max(0, s.y - 8) : s.y + s.h + 8, max(0, s.x - 8) : s.x + s.w + 8]
        low, high = np.percentile(cut, (0.5, 99.5))
        cut = np.clip((cut - low) / max(high - low, 1e-3), 0, 1)
        views = [np.rot90(cut), np.rot90(cut, 3)] if s.turned else [cut]
        words = list(whole)
        for view in views:
            zoom = max(1.0, 48 / min(view.shape))
            big = Image.fromarray((view * 255).astype(np.uint8)).resize(
                (int(view.shape[1] * zoom), int(view.shape[0] * zoom)), Image.Resampling.BICUBIC
            )
            words += tesseract(np.asarray(big, dtype=np.float32) / 255, 7).split()
        out.append([plain(w) for w in words])
    return out


def seen(token: str, words: list[str]) -> bool:
    joined = "".join(words)
    return token in joined or any(len(w) >= 3 and difflib.SequenceMatcher(None, token, w).ratio() >= 0.8 for w in words)


def blacken_by_tesseract(film: NDArray[np.float32]) -> NDArray[np.float32]:
    out = film.copy()
    for row in csv.DictReader(io.StringIO(tesseract(film, 3, table=True)), delimiter="\t", quoting=csv.QUOTE_NONE):
        if row["text"] and row["text"].strip() and float(row["conf"]) > 40:
            x, y, w, h = (int(row[k]) for k in ("left", "top", "width", "height"))
            out[y : y + h, x : x + w] = 0
    return out


def mark_side(film: NDArray[np.float32], font: str) -> tuple[int, int, int, int]:
    """A printed side marker in an upper corner, the one with less in it already; where it stands."""
    face = ImageFont.truetype(font, 44)
    corners = {"R": film[:140, :200], "L": film[:140, -200:]}
    letter = min(corners, key=lambda side: float(corners[side].std()))
    x, y = (SIDE - 70 if letter == "L" else 24), 24
    sheet = Image.new("L", (46, 56))
    ImageDraw.Draw(sheet).text((6, 2), letter, fill=255, font=face)
    ink = np.asarray(sheet, dtype=np.float32) / 255
    film[y : y + 56, x : x + 46] = film[y : y + 56, x : x + 46] * (1 - ink) + ink
    rows, columns = np.nonzero(ink)
    top, left = int(rows.min()), int(columns.min())
    return x + left, y + top, int(columns.max()) - left + 1, int(rows.max()) - top + 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=Path, help="folder of chest films to draw on")
    parser.add_argument("--each", type=int, default=8, help="films a condition")
    parser.add_argument("--clean", type=int, default=20, help="films without drawn text, for time and harm")
    parser.add_argument("--fonts", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if shutil.which("tesseract") is None:
        print("tesseract is not installed (Debian package tesseract-ocr)", file=sys.stderr)
        return 2
    faces = fonts(args.fonts)
    rng = np.random.default_rng(args.seed)
    source = backgrounds(args.films, args.seed)
    screen = TextScreen(BurnedInPolicy())

    print(f"{len(faces)} fonts, {SIDE} px, tokens as read by tesseract {_version()}\n")
    print("| condition | films | tokens | legible before | after updp | after tesseract boxes | kept back | markers |")
    print("|---|---|---|---|---|---|---|---|")
    total = np.zeros(7, dtype=int)
    for condition in CONDITIONS:
        row = np.zeros(7, dtype=int)
        for _ in range(args.each):
            film = next(source)
            marker = mark_side(film, faces[0])
            stamps: list[Stamp] = []
            while len(stamps) < 2:
                trial = film.copy()
                stamp = draw(trial, str(rng.choice(LINES)), str(rng.choice(faces)), condition, rng)
                if not any(_meet(stamp, other) for other in [*((s.x, s.y, s.w, s.h) for s in stamps), marker]):
                    film, stamps = trial, [*stamps, stamp]
            before = readings(film, stamps)
            try:
                cleaned = screen.screen(film).pixels
                after = readings(cleaned, stamps)
                x, y, w, h = marker
                row[6] += int(np.array_equal(cleaned[y : y + h, x : x + w], film[y : y + h, x : x + w]))
            except Refused:
                row[5] += 1
                after = [[] for _ in stamps]
            theirs = readings(blacken_by_tesseract(film), stamps)
            row[0] += 1
            for stamp, b, a, t in zip(stamps, before, after, theirs, strict=True):
                for token in stamp.tokens:
                    row[1:5] += (1, int(seen(token, b)), int(seen(token, a)), int(seen(token, t)))
        total += row
        print(f"| {condition} | " + " | ".join(map(str, row[:6])) + f" | {row[6]}/{row[0] - row[5]} |", flush=True)
    print("| **all** | " + " | ".join(map(str, total[:6])) + f" | {total[6]}/{total[0] - total[5]} |")

    times, altered = [], 0
    for _ in range(args.clean):
        film = next(source)
        start = time.process_time()
        try:
            result = screen.screen(film)
        except Refused:
            altered += 1
            continue
        if any(box.painted for box in result.boxes):
            altered += 1
        else:
            times.append(time.process_time() - start)
    print(f"\n{args.clean} films as they came: {altered} altered or kept back; the others took a median of ", end="")
    print(f"{statistics.median(times):.2f} s ({max(times):.2f} s at most) on one core.")
    return 0


def _meet(a: Stamp, b: tuple[int, int, int, int]) -> bool:
    return a.x < b[0] + b[2] + 20 and b[0] < a.x + a.w + 20 and a.y < b[1] + b[3] + 20 and b[1] < a.y + a.h + 20


def _version() -> str:
    return subprocess.run(["tesseract", "--version"], capture_output=True, text=True).stdout.split()[1]


if __name__ == "__main__":
    raise SystemExit(main())
