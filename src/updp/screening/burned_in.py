"""Text and codes burned into a film: found, read, painted out, and looked for again.

Second half of the screening station. A film is flattened to local contrast, so that letters on bone, white on white
and faint ones look alike, and searched for text lines in one pass of a detection network at reduced size, and for bar
and matrix codes; a film without either costs that pass and no more. Lines found are read from the film's own pixels,
turned and mirrored. What is not a side marker or an acquisition word is painted out. The detector finds writing in
any script, the reader knows Latin and Han letters: a place that consists of several separate strokes and that nobody
can read is in doubt, and is painted too, or the film kept back, as the policy says. A painted film is looked at again,
more thoroughly; text that is still there in the end means the film is kept back. The network is PP-OCR by way of
rapidocr (extra ``ocr``), whose models are inside its wheel.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

import numpy as np

from updp.core.global_state import quiet
from updp.core.policy import BurnedInPolicy
from updp.core.reasons import Reason, Refused
from updp.screening.codes import find_codes
from updp.screening.neighbours import with_neighbours
from updp.screening.painting import Rect, paint_out
from updp.screening.tables import read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

Why = Literal["ocr", "header-seed", "rule", "code", "doubt"]

#: Rounds of painting before a film is given up.
ROUNDS = 3
#: A reading at least this certain is text; less certain ones count when they resemble the patient's identifiers.
CERTAIN = 0.5
DOUBTFUL = 0.25
#: Certainty from which letters that are read in half of a marker's place count.
HALF = 0.7
#: Places larger than this share of the film count only if they can be read: the detector takes a pair of lungs for two
#: letters.
LARGEST = 0.1
#: Certainty of the detector from which a long place of a single stroke counts (letters joined by a line, as in Arabic
#: or Devanagari).
FOUND = 0.5


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
    mirrored: bool = False  # mirrored from left to right before it was turned
    strokes: int = 0  # separate marks of ink in the place: letters, or parts of letters
    found: float = 0.0  # how certain the detector is that this is text
    area: int = 0  # pixels inside the place itself, which a slanted line's box has more of

    @property
    def letters(self) -> int:
        return sum(c.isalnum() for c in self.text)


class Film(Protocol):
    """What the screen looks at, in one rendering or several of the same size, and paints."""

    def views(self) -> Sequence[NDArray[np.float32]]: ...

    def painted(self, rects: Sequence[Rect], spare: Sequence[Rect]) -> Self: ...


@dataclass(frozen=True, slots=True)
class _Shown:
    """A film or photograph in values of [0, 1], looked at as it is."""

    pixels: NDArray[np.float32]

    def views(self) -> Sequence[NDArray[np.float32]]:
        return [self.pixels]

    def painted(self, rects: Sequence[Rect], spare: Sequence[Rect]) -> _Shown:
        return _Shown(paint_out(self.pixels, rects, spare))


AnyFilm = TypeVar("AnyFilm", bound=Film)


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
        self.paint_kept = False  # whether words that may stay are painted over as well
        self._reader = reader

    def screen(
        self,
        pixels: NDArray[np.float32],
        known: Sequence[str] = (),
        burned_in_flag: str | None = None,
        subject: Rect | None = None,
    ) -> ScreenedFilm:
        """The film without text that could name anybody.

        ``known`` are the patient's identifiers from the header; ``burned_in_flag`` is Burned In Annotation
        (0028,0301). ``subject`` is where the person of a photograph is: eyes and teeth there look like letters. Works
        on the film at its native size, grey or red, green and blue.
        """
        if pixels.ndim == 3 and pixels.shape[2] != 3:
            raise Refused(Reason.IMAGE_NOT_COLOUR)
        if not np.isfinite(pixels).all():
            raise Refused(Reason.IMAGE_UNREADABLE)
        film, boxes = self.screen_film(_Shown(pixels), known, burned_in_flag, subject)
        return ScreenedFilm(film.pixels, boxes)

    def screen_film(
        self,
        film: AnyFilm,
        known: Sequence[str] = (),
        burned_in_flag: str | None = None,
        subject: Rect | None = None,
    ) -> tuple[AnyFilm, tuple[Box, ...]]:
        """As ``screen``, of a film that says itself how it is looked at and painted."""
        if self.policy.mode == "off":
            return film, ()
        ruled_out = (burned_in_flag or "").strip().upper() == "NO"
        if self.policy.mode == "header":
            if not ruled_out:
                raise Refused(Reason.BURNED_IN_UNCHECKED)
            return film, ()
        reader = self._reader or _rapidocr()
        if reader is None:
            if not ruled_out:
                raise Refused(Reason.BURNED_IN_UNCHECKED)
            return film, ()
        self._reader = reader
        return self._screen(reader, film, _Seeds(known), subject)

    def _screen(
        self, reader: Reader, film: AnyFilm, seeds: _Seeds, subject: Rect | None
    ) -> tuple[AnyFilm, tuple[Box, ...]]:
        painted: dict[Rect, Box] = {}
        kept: list[Box] = []
        for turn in range(ROUNDS + 1):
            boxes: list[Box] = []
            for view in film.views():
                grey, *tints = planes(view)
                boxes += [Box(*rect, why="code", painted=True) for rect in find_codes(grey)]
                lines = reader.read(grey, thorough=turn > 0)
                # Letters as bright as what is behind them; of colour only whole words count, grain has strokes too.
                coloured = [line for tint in tints for line in reader.read(tint, thorough=False)]
                lines += [line for line in coloured if _stands_out_in_colour(line)]
                boxes += [
                    _with_neighbours(grey, box)
                    for line in lines
                    if turn == 0 or _stands_out(line) or seeds.match(line.text)
                    for box in self._judge(grey, line, seeds)
                ]
                around = _more_than(boxes, lines, grey.size)
                boxes += [Box(*_padded(rect, grey.shape), why="doubt", painted=True) for rect in around]
            boxes = [box for box in boxes if subject is None or not _feature(box, subject)]
            # what was painted over holds nothing any more that could be in doubt
            boxes = [box for box in boxes if box.why != "doubt" or not _inside(box, painted.values())]
            if self.policy.doubt == "quarantine" and any(box.why == "doubt" for box in boxes):
                raise Refused(Reason.BURNED_IN_DOUBT)
            kept += [box for box in boxes if not box.painted and not any(_meet(box, old) for old in kept)]
            doomed = {(box.x, box.y, box.w, box.h): box for box in boxes if box.painted}
            if not doomed:
                return film, (*painted.values(), *kept)
            if turn < ROUNDS:
                painted |= doomed
                # the rim of a box must not cut into a marker beside it; a marker inside a box is painted with it
                spare = [(box.x, box.y, box.w, box.h) for box in kept if not _inside(box, doomed.values())]
                film = film.painted(list(doomed), spare)
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
        doubt = [Box(*_padded(line.rect, film.shape), why="doubt", painted=True)] if _in_doubt(line, film.size) else []
        if line.score < CERTAIN or not words:
            return doubt
        if all(stays):
            # more strokes than letters: initials beside a side marker, of which the marker alone was read
            explained = line.letters > 2 or line.strokes <= line.letters
            return [self._kept(line.rect, film.shape)] if explained else doubt
        if not _is_text(line):
            return doubt
        if not any(stays):
            return [Box(*_padded(line.rect, film.shape), why="ocr", painted=True)]
        boxes = []
        for start, end, keep in _stretches(words, stays, len(line.text)):
            rect = _part(line, start, end)
            boxes.append(self._kept(rect, film.shape) if keep else Box(*_padded(rect, film.shape, 0.1), "ocr", True))
        return boxes

    def _kept(self, rect: Rect, shape: tuple[int, ...]) -> Box:
        return Box(*(_padded(rect, shape) if self.paint_kept else rect), why="rule", painted=self.paint_kept)

    def _stays(self, word: str) -> bool:
        plain = word.strip(".,:;()[]<>*-_|/'\"").lower()
        parts = [part for part in re.split(r"[/+]", plain) if part]
        return bool(parts) and all(part in self.keep for part in parts)


def _more_than(boxes: Sequence[Box], lines: Sequence[Line], pixels: int) -> list[Rect]:
    """Places that the detector is sure of and nobody can read, around a marker that may stay: there is more than it."""
    out = []
    for line in lines:
        x, y, w, h = line.rect
        if line.found < FOUND or line.score >= CERTAIN or w * h > LARGEST * pixels:
            continue
        for box in boxes:
            inside = x <= box.x + box.w / 2 <= x + w and y <= box.y + box.h / 2 <= y + h
            if box.why == "rule" and inside and w * h >= 2.5 * box.w * box.h:
                out.append(line.rect)
                break
    return out


def _with_neighbours(film: NDArray[np.float32], box: Box) -> Box:
    if not box.painted or box.why == "rule":
        return box
    return Box(*with_neighbours(film, (box.x, box.y, box.w, box.h)), why=box.why, painted=True)


def _meet(a: Box, b: Box) -> bool:
    return a.x < b.x + b.w and b.x < a.x + a.w and a.y < b.y + b.h and b.y < a.y + a.h


def _feature(box: Box, subject: Rect) -> bool:
    """Whether a place is a part of the person photographed and no text: within the subject, and not certain to be read,
    or higher than letters across a face would be."""
    x, y, w, h = subject
    across, down = box.x + box.w / 2, box.y + box.h / 2
    if box.why in ("code", "header-seed") or not (x <= across <= x + w and y <= down <= y + h):
        return False
    return box.why == "doubt" or min(box.w, box.h) > h / 6


def planes(film: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """What is looked at: a grey film itself; of a colour photograph its brightness, red against green, and blue against
    both."""
    if film.ndim == 2:
        return [film]
    red, green, blue = film[..., 0], film[..., 1], film[..., 2]
    grey = 0.299 * red + 0.587 * green + 0.114 * blue
    return [np.ascontiguousarray(one, dtype=np.float32)
            for one in (grey, (1 + red - green) / 2, (1 + blue - (red + green) / 2) / 2)]  # fmt: skip


def _stands_out_in_colour(line: Line) -> bool:
    return line.letters >= 4 and line.score >= CERTAIN and line.found >= FOUND


def _inside(box: Box, others: Iterable[Box]) -> bool:
    """Whether half of a box or more is covered by another."""
    for other in others:
        width = min(box.x + box.w, other.x + other.w) - max(box.x, other.x)
        height = min(box.y + box.h, other.y + other.h) - max(box.y, other.y)
        if width > 0 and height > 0 and 2 * width * height >= box.w * box.h:
            return True
    return False


def _is_text(line: Line) -> bool:
    """Whether a reading is a word somebody wrote, not an arrow, a joint or a row of vertebrae taken for one.

    A blob as wide as high gives a letter or two in one orientation or another; what is read as two letters or more
    with certainty, in whatever orientation, is a word or a marker with a radiographer's initials.
    """
    _, _, w, h = line.rect
    if line.letters >= 4:
        return line.score >= 0.8 or max(w, h) >= 2.2 * min(w, h)
    return line.letters >= 2 and line.score >= 0.85


def _stands_out(line: Line) -> bool:
    """Whether a place counts in the thorough look, which takes vertebrae for figures: a word, or a sure find."""
    return line.letters >= 4 or line.found >= FOUND


def _in_doubt(line: Line, pixels: int) -> bool:
    """Whether a place is text-like although nobody can read it: several strokes, or one long one."""
    _, _, w, h = line.rect
    if (line.area or w * h) > LARGEST * pixels:
        return False
    long = max(w, h) >= 1.8 * min(w, h)
    return line.strokes >= 2 or (long and line.strokes == 1 and line.found >= FOUND)


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
    leftward = line.upright == (0 if line.mirrored else 2)
    if line.upright in (0, 2) and not leftward:
        return x + round(start * w), y, max(1, round((end - start) * w)), h
    if leftward:
        return x + round((1 - end) * w), y, max(1, round((end - start) * w)), h
    if line.upright == 1:  # read from top to bottom
        return x, y + round(start * h), w, max(1, round((end - start) * h))
    return x, y + round((1 - end) * h), w, max(1, round((end - start) * h))


# -- rapidocr ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _rapidocr() -> Reader | None:
    """The OCR of the extra ``ocr``, or ``None`` where it is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("rapidocr", "onnxruntime", "cv2", "zxingcpp")):
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
        """The lines of text on a film; a place nobody can read has an empty text or a low score."""
        longest = max(pixels.shape)
        quick = int(min(max(self.SHARE * longest, self.LEAST), self.MOST))
        places = self._find(pixels, quick, flat=True)
        if quick > self.LEAST:  # large letters, a marker's, are found at a small size alone
            places += self._find(pixels, self.LEAST, flat=True)
        if thorough:
            full = int(min(max(longest, 768), 2048))
            places += self._find(pixels, full, flat=True) + self._find(pixels, full, flat=False)
        return self._recognise(pixels, _distinct(places))

    def _find(self, film: NDArray[np.float32], longest: int, *, flat: bool) -> list[_Place]:
        """Quadrilaterals around text lines, in pixels of the film, and how certain the network is of each."""
        import cv2

        height, width = film.shape
        scale = longest / max(height, width)
        size = (max(32, round(width * scale / 32) * 32), max(32, round(height * scale / 32) * 32))
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
        small = np.asarray(cv2.resize(film, size, interpolation=how), dtype=np.float32)
        grey = _bytes(flatten(small) if flat else small)
        with quiet():  # it says when a film has no text
            found = self._ocr(cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR), use_det=True, use_cls=False, use_rec=False)
        boxes, scores = getattr(found, "boxes", None), getattr(found, "scores", None)
        if boxes is None or scores is None:
            return []
        factor = np.array([width / size[0], height / size[1]], dtype=np.float64)
        return [
            (np.round(np.asarray(box) * factor).astype(np.int32), float(score))
            for box, score in zip(boxes, scores, strict=True)
        ]

    def _recognise(self, film: NDArray[np.float32], places: list[_Place]) -> list[Line]:
        """Each place read along its longer side, then, if that says little, turned and mirrored as well."""
        import cv2

        crops = {at: crop for at, (quad, _) in enumerate(places) if (crop := _crop(film, quad)) is not None}
        strokes = {at: count_strokes(crop) for at, crop in crops.items()}
        readings: dict[int, list[Line]] = {at: [] for at in crops}

        def attempt(jobs: list[tuple[int, int, bool]]) -> None:
            if not jobs:
                return
            views = [np.rot90(np.fliplr(crops[at]) if mirrored else crops[at], turn) for at, turn, mirrored in jobs]
            read = self._ocr.recognize_txt([cv2.cvtColor(np.ascontiguousarray(v), cv2.COLOR_GRAY2BGR) for v in views])
            for (at, turn, mirrored), text, score in zip(jobs, read.txts or (), read.scores, strict=True):
                quad, found = places[at]
                area = round(float(cv2.contourArea(quad)))
                readings[at].append(
                    Line(_rect(quad, film.shape), str(text), float(score), turn, mirrored, strokes[at], found, area)
                )

        def turns(at: int) -> tuple[int, ...]:
            height, width = crops[at].shape
            if height > 1.5 * width:
                return (1, 3)
            return (0, 2) if width > 1.5 * height else (0, 1, 2, 3)

        first = {at: (1, 3) if turns(at) == (1, 3) else (0,) for at in crops}
        attempt([(at, turn, False) for at in crops for turn in first[at]])
        unsure = [at for at in crops if not _settled(_best(readings[at]))]
        attempt([(at, turn, False) for at in unsure for turn in turns(at) if turn not in first[at]])
        unsure = [at for at in unsure if not _settled(_best(readings[at]))]
        attempt([(at, turn, True) for at in unsure for turn in turns(at)])
        return self._with_halves([(_best(lines), crops[at]) for at, lines in readings.items()])

    def _with_halves(self, read: list[tuple[Line, NDArray[np.uint8]]]) -> list[Line]:
        """Lines with as many strokes as letters can be read in a half of their place: where what was drawn over each
        other is one stroke, a side marker alone is read and initials below it are not.
        """
        import cv2

        jobs: list[tuple[int, NDArray[np.uint8]]] = []
        for at, (line, crop) in enumerate(read):
            if 1 <= line.letters <= 2 and line.score >= CERTAIN and line.strokes <= line.letters:
                height, width = crop.shape
                halves = [crop[: height * 5 // 9], crop[height * 4 // 9 :]] if height > 0.8 * width else []
                halves += [crop[:, : width * 5 // 9], crop[:, width * 4 // 9 :]] if width > 0.8 * height else []
                for half in halves:
                    views = [half] if not line.mirrored else [half, np.fliplr(half)]
                    jobs += [(at, np.rot90(view, turn)) for view in views for turn in sorted({0, line.upright})]
        lines = [line for line, _ in read]
        if not jobs:
            return lines
        found = self._ocr.recognize_txt(
            [cv2.cvtColor(np.ascontiguousarray(view), cv2.COLOR_GRAY2BGR) for _, view in jobs]
        )
        for (at, _), text, score in zip(jobs, found.txts or (), found.scores, strict=True):
            letters = sum(c.isalnum() for c in str(text))
            if float(score) >= HALF and letters > lines[at].strokes:
                lines[at] = dataclasses.replace(lines[at], strokes=letters)
        return lines


_Place = tuple["NDArray[np.int32]", float]


def _settled(line: Line) -> bool:
    """Whether a reading needs no second look: certain, and as many letters as there are strokes or a whole word."""
    return line.score >= 0.8 and line.letters >= min(4, line.strokes)


def _best(readings: list[Line]) -> Line:
    """The most certain reading; a longer one almost as certain if the place has more strokes than that has letters."""
    top = max(readings, key=lambda line: line.score)
    if top.letters >= top.strokes:
        return top
    near = [line for line in readings if line.score >= top.score - 0.1]
    return max(near, key=lambda line: (line.letters, line.score))


def count_strokes(crop: NDArray[np.uint8]) -> int:
    """Separate marks of ink in a crop: letters, or parts of letters.

    Ink is what stands out from the local mean to the side of the heavier tail. Marks that reach over the rim belong to
    something larger, an edge of bone or a wire, and do not count; what lies inside a ring counts with the ring.
    """
    import cv2

    scale = 48 / min(crop.shape)
    size = (max(8, round(crop.shape[1] * scale)), max(8, round(crop.shape[0] * scale)))
    how = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
    even = cv2.resize(crop, size, interpolation=how).astype(np.float32) / 255
    away = even - cv2.blur(cv2.blur(even, (49, 49)), (49, 49))
    spread = float(away.std()) + 1e-6
    sign = 1.0 if float((away**3).mean()) >= 0 else -1.0
    grey = np.clip(128 + 32 * sign * away / spread, 0, 255).astype(np.uint8)
    level, _ = cv2.threshold(cv2.GaussianBlur(grey, (3, 3), 0), 0, 255, cv2.THRESH_OTSU)
    ink = (grey > max(level, 144.0)).astype(np.uint8)
    count, _, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    marks = [
        (x, y, w, h, area)
        for x, y, w, h, area in stats[1:count].tolist()
        if area >= 0.004 * ink.size and max(w, h) >= 10
        and x > 0 and y > 0 and x + w < ink.shape[1] and y + h < ink.shape[0]
    ]  # fmt: skip
    rings = [mark for mark in marks if mark[4] < 0.5 * mark[2] * mark[3]]
    return sum(not any(_ringed(mark, ring) for ring in rings) for mark in marks)


def _ringed(mark: tuple[int, ...], ring: tuple[int, ...]) -> bool:
    across, down = mark[0] + mark[2] / 2, mark[1] + mark[3] / 2
    larger = ring[2] * ring[3] > mark[2] * mark[3]
    return larger and ring[0] <= across <= ring[0] + ring[2] and ring[1] <= down <= ring[1] + ring[3]


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


def _distinct(places: list[_Place]) -> list[_Place]:
    """Places seen in one rendering or several, each once: of two that cover each other the larger stays."""
    out: list[_Place] = []
    spans: list[tuple[int, int, int, int]] = []
    for quad, found in sorted(places, key=lambda place: -float(np.prod(np.ptp(place[0], axis=0)))):
        x0, y0 = (int(v) for v in quad.min(axis=0))
        x1, y1 = (int(v) for v in quad.max(axis=0))
        area = max(1, (x1 - x0) * (y1 - y0))
        inside = any(
            max(0, min(x1, b[2]) - max(x0, b[0])) * max(0, min(y1, b[3]) - max(y0, b[1])) > 0.8 * area
            and area > 0.5 * (b[2] - b[0]) * (b[3] - b[1])
            for b in spans
        )
        if not inside:
            out.append((quad, found))
            spans.append((x0, y0, x1, y1))
    return out
