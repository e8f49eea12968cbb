"""Text burned into a film: found, read, painted out, and read again.

Second half of the screening station. A film is flattened to local contrast, so that letters on bone, white on white
and faint ones look alike, and searched for text lines in one pass of a detection network at reduced size; a film
without text costs that pass and no more. Lines found are read from the film's own pixels in each orientation. What is
not a side marker or an acquisition word is painted out and the film is read again, more thoroughly; text that is still
there in the end means the film is kept back. The network is PP-OCR by way of rapidocr (extra ``ocr``), whose models
are inside its wheel.
"""

from __future__ import annotations

import difflib
import importlib.util
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from updp.core.global_state import quiet
from updp.core.policy import BurnedInPolicy
from updp.core.reasons import Reason, Refused
from updp.screening.painting import Rect, paint_out
from updp.screening.tables import read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

Why = Literal["ocr", "header-seed", "rule"]

#: Rounds of painting before a film is given up.
ROUNDS = 3
#: A reading at least this certain is text; less certain ones count when they resemble the patient's identifiers.
CERTAIN = 0.5
DOUBTFUL = 0.25


@dataclass(frozen=True, slots=True)
class Box:
    """A place on the film that holds text, and what became of it; never the text itself."""

    x: int
    y: int
    w: int
    h: int
    why: Why
    painted: bool


@dataclass(frozen=True, slots=True)
class ScreenedFilm:
    """A film whose text is gone, and where it was."""

    pixels: NDArray[np.float32]
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text as read: its place, the text and how certain the reading is."""

    rect: Rect
    text: str
    score: float
    upright: int = 0  # quarter turns that bring it upright


class Reader(Protocol):
    """An OCR: ``thorough`` looks at full size and in more than one rendering."""

    def read(self, pixels: NDArray[np.float32], *, thorough: bool) -> list[Line]: ...


@lru_cache(maxsize=1)
def _film_words() -> frozenset[str]:
    lines = read_text("film_words.txt").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def kept_words(policy: BurnedInPolicy) -> frozenset[str]:
    """The words that may stay on a film, in lower case."""
    return _film_words() | {word.lower() for word in policy.keep}


class TextScreen:
    """Screens one film after another under one policy. ``reader`` is rapidocr unless another is given."""

    def __init__(self, policy: BurnedInPolicy, reader: Reader | None = None) -> None:
        self.policy = policy
        self.keep = kept_words(policy)
        self._reader = reader

    def screen(
        self, pixels: NDArray[np.float32], known: Sequence[str] = (), burned_in_flag: str | None = None
    ) -> ScreenedFilm:
        """The film without text that could name anybody.

        ``known`` are the patient's identifiers from the header; ``burned_in_flag`` is Burned In Annotation
        (0028,0301). Works on the film at its native size.
        """
        if pixels.ndim != 2:
            raise Refused(Reason.IMAGE_NOT_GREY)
        if not np.isfinite(pixels).all():
            raise Refused(Reason.IMAGE_UNREADABLE)
        if self.policy.mode == "off":
            return ScreenedFilm(pixels, ())
        ruled_out = (burned_in_flag or "").strip().upper() == "NO"
        if self.policy.mode == "header":
            if not ruled_out:
                raise Refused(Reason.BURNED_IN_UNCHECKED)
            return ScreenedFilm(pixels, ())
        reader = self._reader or _rapidocr()
        if reader is None:
            if not ruled_out:
                raise Refused(Reason.BURNED_IN_UNCHECKED)
            return ScreenedFilm(pixels, ())
        self._reader = reader
        return self._screen(reader, pixels, _Seeds(known))

    def _screen(self, reader: Reader, pixels: NDArray[np.float32], seeds: _Seeds) -> ScreenedFilm:
        painted: dict[Rect, Box] = {}
        kept: list[Box] = []
        film = pixels
        for turn in range(ROUNDS + 1):
            lines = reader.read(film, thorough=turn > 0)
            boxes = [box for line in lines for box in self._judge(film, line, seeds)]
            kept += [box for box in boxes if not box.painted and not any(_meet(box, old) for old in kept)]
            doomed = {(box.x, box.y, box.w, box.h): box for box in boxes if box.painted}
            if not doomed:
                return ScreenedFilm(film, (*painted.values(), *kept))
            if turn < ROUNDS:
                painted |= doomed
                # the rim of a box must not nibble at a marker beside it; a marker inside a box has no such right
                spare = [(box.x, box.y, box.w, box.h) for box in kept if not _inside(box, doomed.values())]
                film = paint_out(film, list(doomed), spare)
        raise Refused(Reason.BURNED_IN_RESIDUAL)

    def _judge(self, film: NDArray[np.float32], line: Line, seeds: _Seeds) -> list[Box]:
        """What becomes of a line: nothing if it is no text, else its kept and its painted stretches."""
        words = [(m.start(), m.end(), m.group()) for m in re.finditer(r"\S+", line.text)]
        stays = [self._stays(word) for _, _, word in words]
        named = seeds.match(line.text)
        if named and not all(stays):
            return (
                [Box(*_padded(line.rect, film.shape), why="header-seed", painted=True)] if line.score > DOUBTFUL else []
            )
        if line.score < CERTAIN:
            return []
        if all(stays):
            return [Box(*line.rect, why="rule", painted=False)]
        if not _is_text(line):
            return []
        if not any(stays):
            return [Box(*_padded(line.rect, film.shape), why="ocr", painted=True)]
        boxes = []
        for start, end, keep in _stretches(words, stays, len(line.text)):
            rect = _part(line, start, end)
            boxes.append(
                Box(*rect, why="rule", painted=False) if keep else Box(*_padded(rect, film.shape, 0.1), "ocr", True)
            )
        return boxes

    def _stays(self, word: str) -> bool:
        plain = word.strip(".,:;()[]<>*-_|/'\"").lower()
        parts = [part for part in re.split(r"[/+]", plain) if part]
        return bool(parts) and all(part in self.keep for part in parts)


def _meet(a: Box, b: Box) -> bool:
    return a.x < b.x + b.w and b.x < a.x + a.w and a.y < b.y + b.h and b.y < a.y + a.h


def _inside(box: Box, others: Iterable[Box]) -> bool:
    """Whether half of a box or more is covered by another."""
    for other in others:
        width = min(box.x + box.w, other.x + other.w) - max(box.x, other.x)
        height = min(box.y + box.h, other.y + other.h) - max(box.y, other.y)
        if width > 0 and height > 0 and 2 * width * height >= box.w * box.h:
            return True
    return False


def _is_text(line: Line) -> bool:
    """Whether a reading is a word somebody typed, not a lead marker, a joint or a row of vertebrae taken for one.

    A blob as wide as high gives two or three letters in one orientation or another; so does a marker with a
    radiographer's initials, taped on askew. Typed words are long, or upright and read with certainty.
    """
    letters = sum(c.isalnum() for c in line.text)
    _, _, w, h = line.rect
    ratio = max(w, h) / min(w, h)
    if ratio < 1.5:
        return letters >= 2 and line.score >= 0.95 and line.upright == 0
    if ratio < 2.2:
        return line.score >= (0.8 if letters >= 4 else 0.9) and letters >= 2 and (line.upright == 0 or letters >= 4)
    return letters >= 4 or (letters >= 2 and line.score >= 0.9)


class _Seeds:
    """The patient's identifiers, ready to be compared with what an OCR made of them."""

    def __init__(self, known: Sequence[str]) -> None:
        self.words = {plain for text in known if len(plain := _plain(text)) >= 3}

    def match(self, text: str) -> bool:
        """Whether a reading is, contains, or nearly is one of them."""
        plain = _plain(text)
        pieces = {plain, *(_plain(word) for word in text.split())}
        for seed in self.words:
            if seed in pieces or (len(seed) >= 4 and seed in plain):
                return True
            for piece in pieces:
                alike = abs(len(piece) - len(seed)) <= 2 and len(piece) >= 4
                if alike and difflib.SequenceMatcher(None, piece, seed).ratio() >= 0.75:
                    return True
        return False


def _plain(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _padded(rect: Rect, shape: tuple[int, ...], share: float = 0.25) -> Rect:
    """A box with a rim of a share of the letters' height, inside the film."""
    x, y, w, h = rect
    rim = max(2, round(share * min(w, h)))
    left, top = max(0, x - rim), max(0, y - rim)
    return left, top, min(shape[1], x + w + rim) - left, min(shape[0], y + h + rim) - top


def _stretches(words: list[tuple[int, int, str]], stays: list[bool], length: int) -> list[tuple[float, float, bool]]:
    """Runs of words with one fate, as shares of the line; a run ends in the middle of the gap."""
    runs: list[list[Any]] = []
    for (start, end, _), keep in zip(words, stays, strict=True):
        if runs and runs[-1][2] == keep:
            runs[-1][1] = end
        else:
            runs.append([start, end, keep])
    for before, after in itertools.pairwise(runs):
        before[1] = after[0] = (before[1] + after[0]) / 2
    return [(start / length, end / length, keep) for start, end, keep in runs]


def _part(line: Line, start: float, end: float) -> Rect:
    """The part of a line between two shares of its length, along the direction it is read in."""
    x, y, w, h = line.rect
    if line.upright == 0:
        return x + round(start * w), y, max(1, round((end - start) * w)), h
    if line.upright == 2:
        return x + round((1 - end) * w), y, max(1, round((end - start) * w)), h
    if line.upright == 1:  # read from top to bottom
        return x, y + round(start * h), w, max(1, round((end - start) * h))
    return x, y + round((1 - end) * h), w, max(1, round((end - start) * h))


# -- rapidocr ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _rapidocr() -> Reader | None:
    """The OCR of the extra ``ocr``, or ``None`` where it is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("rapidocr", "onnxruntime", "cv2")):
        return None
    return RapidReader()


class RapidReader:
    """PP-OCR detection and recognition, one thread, so that a film's reading does not depend on the machine."""

    #: Longest side the detection network looks at in the quick pass, as a share of the film's and in bounds.
    SHARE, LEAST, MOST = 0.625, 640, 1536

    def __init__(self) -> None:
        from rapidocr import RapidOCR

        one = {f"EngineConfig.onnxruntime.{name}_op_num_threads": 1 for name in ("intra", "inter")}
        self._ocr = RapidOCR(
            params={
                **one,
                "Global.log_level": "critical",
                "Global.use_preprocess_img": False,
                "Global.use_vertical_padding": False,
                "Det.limit_type": "min",
                "Det.limit_side_len": 32,
                "Det.thresh": 0.2,
                "Det.box_thresh": 0.3,
                "Rec.rec_img_shape": [3, 48, 96],  # short lines need not be padded to long ones
            }
        )

    def read(self, pixels: NDArray[np.float32], *, thorough: bool) -> list[Line]:
        """The lines of text on a film."""
        longest = max(pixels.shape)
        quick = int(min(max(self.SHARE * longest, self.LEAST), self.MOST))
        places = self._find(pixels, quick, flat=True)
        if thorough:
            full = int(min(max(longest, 768), 2048))
            places += self._find(pixels, full, flat=True) + self._find(pixels, full, flat=False)
        return self._recognise(pixels, _distinct(places))

    def _find(self, film: NDArray[np.float32], longest: int, *, flat: bool) -> list[NDArray[np.int32]]:
        """Quadrilaterals around text lines, in pixels of the film."""
        import cv2

        height, width = film.shape
        scale = longest / max(height, width)
        size = (max(32, round(width * scale / 32) * 32), max(32, round(height * scale / 32) * 32))
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        small = np.asarray(cv2.resize(film, size, interpolation=how), dtype=np.float32)
        grey = _bytes(flatten(small) if flat else small)
        with quiet():  # it says when a film has no text
            found = self._ocr(cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR), use_det=True, use_cls=False, use_rec=False)
        boxes = getattr(found, "boxes", None)
        if boxes is None:
            return []
        factor = np.array([width / size[0], height / size[1]], dtype=np.float64)
        return [np.round(np.asarray(box) * factor).astype(np.int32) for box in boxes]

    def _recognise(self, film: NDArray[np.float32], quads: list[NDArray[np.int32]]) -> list[Line]:
        import cv2

        crops = {place: crop for place, quad in enumerate(quads) if (crop := _crop(film, quad)) is not None}
        best: dict[int, Line] = {}

        def attempt(jobs: list[tuple[int, int]]) -> None:
            turned = [np.ascontiguousarray(np.rot90(crops[place], turn)) for place, turn in jobs]
            if not turned:
                return
            read = self._ocr.recognize_txt([cv2.cvtColor(image, cv2.COLOR_GRAY2BGR) for image in turned])
            for (place, turn), text, score in zip(jobs, read.txts or (), read.scores, strict=True):
                if place not in best or float(score) > best[place].score:
                    best[place] = Line(_rect(quads[place], film.shape), str(text), float(score), turn)

        tall = {place for place, crop in crops.items() if crop.shape[0] > 1.5 * crop.shape[1]}
        attempt([(place, turn) for place in crops for turn in ((1, 3) if place in tall else (0,))])
        wide = [place for place in crops if place not in tall and crops[place].shape[1] > 1.5 * crops[place].shape[0]]
        attempt([(place, 2) for place in wide if best[place].score < 0.8])  # upside down
        return [line for line in best.values() if line.text.strip()]


def flatten(pixels: NDArray[np.float32], radius: float = 8.0) -> NDArray[np.float32]:
    """A film by its local contrast alone: distance from the local mean in units of the local spread.

    ``radius`` is in pixels of a film of 1024; letters up to about four times as high come out even.
    """
    import cv2

    reach = radius * max(pixels.shape) / 1024
    # two box means make a triangle, near enough to a Gaussian and independent of its width in cost
    size = 2 * max(2, round(1.2 * reach)) + 1
    away = pixels - cv2.blur(cv2.blur(pixels, (size, size)), (size, size))
    size = 2 * max(4, round(2.4 * reach)) + 1
    spread = np.sqrt(np.maximum(cv2.blur(cv2.blur(away * away, (size, size)), (size, size)), 0.0))
    return np.clip(0.5 + 0.17 * away / (spread + 0.02), 0.0, 1.0).astype(np.float32)


def _bytes(film: NDArray[Any]) -> NDArray[np.uint8]:
    return np.asarray(np.clip(film, 0.0, 1.0) * 255.0 + 0.5, dtype=np.uint8)


def _rect(quad: NDArray[np.int32], shape: tuple[int, ...]) -> Rect:
    left, top = (int(max(0, v)) for v in quad.min(axis=0))
    right, bottom = (int(v) for v in quad.max(axis=0))
    return left, top, max(1, min(shape[1], right) - left), max(1, min(shape[0], bottom) - top)


def _crop(film: NDArray[np.float32], quad: NDArray[np.int32]) -> NDArray[np.uint8] | None:
    """The film inside a quadrilateral, straightened and stretched to full contrast."""
    import cv2

    corners = quad.astype(np.float32)
    width = int(max(np.linalg.norm(corners[0] - corners[1]), np.linalg.norm(corners[2] - corners[3])))
    height = int(max(np.linalg.norm(corners[0] - corners[3]), np.linalg.norm(corners[1] - corners[2])))
    if width < 4 or height < 4:
        return None
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=np.float32)
    move = cv2.getPerspectiveTransform(corners, target)
    crop = cv2.warpPerspective(film, move, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    low, high = np.percentile(crop, (0.5, 99.5))
    return _bytes((crop - low) / max(float(high - low), 1e-3))


def _distinct(quads: list[NDArray[np.int32]]) -> list[NDArray[np.int32]]:
    """Places seen in one rendering or several, each once: of two that cover each other the larger stays."""
    out: list[NDArray[np.int32]] = []
    spans: list[tuple[int, int, int, int]] = []
    for quad in sorted(quads, key=lambda q: -float(np.prod(np.ptp(q, axis=0)))):
        x0, y0 = (int(v) for v in quad.min(axis=0))
        x1, y1 = (int(v) for v in quad.max(axis=0))
        area = max(1, (x1 - x0) * (y1 - y0))
        inside = any(
            max(0, min(x1, b[2]) - max(x0, b[0])) * max(0, min(y1, b[3]) - max(y0, b[1])) > 0.8 * area
            and area > 0.5 * (b[2] - b[0]) * (b[3] - b[1])
            for b in spans
        )
        if not inside:
            out.append(quad)
            spans.append((x0, y0, x1, y1))
    return out
