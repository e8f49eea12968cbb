"""A drawn chest film: outline, lungs, ribs, heart, spine, vessels and findings, from a handful of proportions.

For the virtual hospital, whose films have to look like films without being anyone's. A person's ``Anatomy`` is drawn
once and kept over all examinations; ``draw`` adds what changes from day to day (inspiration, rotation, exposure) and
the findings of that day. Schematic: good for showing and testing the flow, no use for training or for diagnosis.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from updp.core.record import Sex
from updp.domains.chest.views import View

Plane = NDArray[Any]
Side = Literal["left", "right"]
Zone = Literal["upper", "mid", "lower"]

#: Anatomy is drawn on this many rows and enlarged; grain is added at full size, so that the film looks sharp.
_ROWS = 420
#: Height of a zone's centre on the film, in half widths of the chest.
_ZONES: dict[Zone, float] = {"upper": -0.48, "mid": -0.05, "lower": 0.32}


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding and where it is; both sides where ``side`` does not apply."""

    name: str  # of updp.core.record.FINDINGS
    side: Side | None = None
    zone: Zone | None = None
    millimetres: int | None = None


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A person's proportions, in half widths of the chest; they do not change from film to film."""

    sex: Sex
    chest: float  # lateral border of the lungs
    apex: float
    domes: tuple[float, float]  # tops of the right and left diaphragm
    heart: float
    knob: float  # radius of the aortic knob
    curve: float  # scoliosis
    rib_gap: float
    rib_top: float
    rib_slope: float
    rib_width: float
    clavicle: float  # slope
    shoulder: float
    fat: float  # soft tissue over the chest wall
    vessels: int  # seed of the vessel tree
    texture: int = field(default=0)

    @classmethod
    def sample(cls, rng: np.random.Generator, sex: Sex) -> Anatomy:
        """A person."""
        dome = rng.uniform(0.50, 0.62)
        return cls(
            sex=sex,
            chest=rng.uniform(0.74, 0.86),
            apex=rng.uniform(-0.92, -0.80),
            domes=(dome, dome + rng.uniform(0.02, 0.09)),
            heart=rng.uniform(0.88, 1.06),
            knob=rng.uniform(0.070, 0.105),
            curve=rng.normal(0, 0.022),
            rib_gap=rng.uniform(0.150, 0.178),
            rib_top=rng.uniform(-0.86, -0.78),
            rib_slope=rng.uniform(0.20, 0.36),
            rib_width=rng.uniform(0.026, 0.036),
            clavicle=rng.uniform(-0.30, -0.10),
            shoulder=rng.uniform(0.9, 1.12),
            fat=rng.uniform(0.10, 0.22),
            vessels=int(rng.integers(2**31)),
            texture=int(rng.integers(2**31)),
        )


def draw(
    anatomy: Anatomy,
    findings: Iterable[Finding],
    view: View,
    size: tuple[int, int],
    rng: np.random.Generator,
) -> Plane:
    """A film of this person as height x width in [0, 1], white is dense."""
    height, width = size
    rows = min(_ROWS, height)
    columns = round(rows * width / height)
    found = tuple(findings)
    sheet = _Sheet(rows, columns, rng)
    film = _lateral(sheet, anatomy) if view == "LATERAL" else _frontal(sheet, anatomy, found, view, rng)
    film = np.clip(film, 0, 1) ** np.float32(rng.uniform(0.9, 1.1))
    large = Image.fromarray(film.astype(np.float32)).resize((width, height), Image.Resampling.BICUBIC)
    grain = rng.normal(0, 1, (height, width)).astype(np.float32)
    grain = 0.6 * grain + 0.4 * np.roll(grain, 1, axis=1)  # neighbouring detector elements are not independent
    out = np.asarray(large, dtype=np.float32)
    return np.clip(out + grain * (0.012 + 0.012 * out), 0, 1).astype(np.float32)


class _Sheet:
    """The coordinates of a film: x to the viewer's right, y down, both in half widths of the chest."""

    def __init__(self, rows: int, columns: int, rng: np.random.Generator) -> None:
        self.shape = rows, columns
        self.scale = 2.16 / columns  # half widths a pixel
        turn, self.dx, self.dy = rng.normal(0, 0.012), rng.normal(0, 0.025), rng.normal(0, 0.02) + 0.09
        y, x = np.mgrid[0:rows, 0:columns].astype(np.float32)
        x = (x - np.float32(columns / 2)) * np.float32(self.scale) - np.float32(self.dx)
        y = (y - np.float32(rows / 2)) * np.float32(self.scale) - np.float32(self.dy)
        cos, sin = np.float32(np.cos(turn)), np.float32(np.sin(turn))
        self.x, self.y = x * cos - y * sin, x * sin + y * cos

    def ellipse(self, x: float, y: float, rx: float, ry: float, soft: float = 0.05, tilt: float = 0.0) -> Plane:
        """1 inside, 0 outside, ``soft`` wide at the border."""
        a, b = self.x - x, self.y - y
        a, b = a * np.cos(tilt) + b * np.sin(tilt), -a * np.sin(tilt) + b * np.cos(tilt)
        reach = np.sqrt((a / rx) ** 2 + (b / ry) ** 2)
        return _step((1 - reach) * min(rx, ry), soft)

    def cloud(self, rng: np.random.Generator, grain: float) -> Plane:
        """Smooth noise of mean 0 and deviation 1; ``grain`` is the size of its lumps."""
        rows, columns = self.shape
        small = (max(4, round(rows * self.scale / grain)), max(4, round(columns * self.scale / grain)))
        noise = Image.fromarray(rng.normal(0, 1, small).astype(np.float32))
        return np.asarray(noise.resize((columns, rows), Image.Resampling.BICUBIC), dtype=np.float32)

    def strokes(self, lines: list[tuple[list[tuple[float, float]], float]], blur: float = 0.004) -> Plane:
        """Lines with their widths, in the sheet's units, drawn soft."""
        rows, columns = self.shape
        picture = Image.new("L", (columns, rows))
        pen = ImageDraw.Draw(picture)
        for points, thickness in lines:
            place = [
                ((x + self.dx) / self.scale + columns / 2, (y + self.dy) / self.scale + rows / 2) for x, y in points
            ]
            pen.line(place, fill=255, width=max(1, round(thickness / self.scale)), joint="curve")
        picture = picture.filter(ImageFilter.GaussianBlur(max(0.7, blur / self.scale)))
        return np.asarray(picture, dtype=np.float32) / 255


def _step(distance: Plane, soft: float) -> Plane:
    """A soft step: 0 below, 1 above, about ``soft`` wide."""
    t = np.clip(distance * np.float32(0.5 / soft) + np.float32(0.5), 0, 1, dtype=np.float32)
    return np.asarray(t * t * (3 - 2 * t))


def _over(film: Plane, value: float | Plane, mask: Plane) -> Plane:
    return film + (value - film) * mask


# -- frontal ---------------------------------------------------------------------------------------------------------


def _frontal(
    sheet: _Sheet, body: Anatomy, findings: tuple[Finding, ...], view: View, rng: np.random.Generator
) -> Plane:
    names = {finding.name for finding in findings}
    x, y = sheet.x - np.float32(body.curve) * np.sin(2.2 * sheet.y), sheet.y
    breath = rng.normal(0, 0.02) - (0.07 if view == "AP" else 0.0) + (0.10 if "Emphysema" in names else 0.0)
    heart = body.heart * (1.10 if view == "AP" else 1.0) * (1.34 if "Cardiomegaly" in names else 1.0)

    film = 0.03 + _outline(sheet, body) * (0.46 + 0.14 * np.clip(1 - np.abs(x), 0, 1) + 0.05 * np.clip(y, -1, 1))
    fine = sheet.cloud(np.random.Generator(np.random.PCG64(body.texture)), 0.035)

    lungs = {}
    for side, sign in (("right", -1), ("left", 1)):
        u = sign * x
        dome = body.domes[sign > 0] + breath
        lungs[side] = _lung(u, y, body, dome, flat=0.35 if "Emphysema" in names else 1.0)
        film = _over(film, (0.16 if "Emphysema" in names else 0.20) + 0.012 * fine, lungs[side] * 0.96)
        below = _step(y - _dome(u, dome), 0.03) * _step(0.98 - u, 0.1) * _step(u, 0.2)
        film = _over(film, 0.70 if sign < 0 else 0.66, below * 0.85)
    both = np.clip(lungs["left"] + lungs["right"], 0, 1)
    film = _over(film, 0.30, sheet.ellipse(0.40, body.domes[1] + breath + 0.20, 0.17, 0.085, 0.05) * 0.8)  # stomach gas

    bronchi = _vessels(sheet, body)
    torn = _pneumothorax_mask(sheet, x, y, body, findings)
    film = film + 0.19 * bronchi * both * (1 - torn) - 0.05 * torn * both

    centre = np.clip(_step(0.135 - np.abs(x), 0.07) * _step(y + 1.3, 0.1), 0, 1)
    shadow = np.maximum.reduce([
        centre,
        sheet.ellipse(0.135, -0.30, body.knob, body.knob * 1.15, 0.05),
        sheet.ellipse(0.15, -0.10, 0.075, 0.13, 0.06),
        sheet.ellipse(0.15 * heart, 0.32 + breath, 0.375 * heart, 0.285 * heart**0.5, 0.06, tilt=0.55),
        sheet.ellipse(-0.06, 0.30 + breath, 0.215 * heart, 0.30, 0.06),
    ])  # fmt: skip
    film = _over(film, 0.69 + 0.006 * fine, shadow * 0.90)
    film = (
        film + 0.07 * sheet.ellipse(0.19, -0.02, 0.08, 0.12, 0.1) + 0.09 * sheet.ellipse(-0.19, 0.02, 0.08, 0.13, 0.1)
    )

    spine = _step(0.085 - np.abs(x), 0.03)
    discs = 0.5 + 0.5 * np.cos(2 * np.pi * y / 0.155)
    film = film + spine * (0.05 + 0.035 * discs) * np.clip(0.9 - 0.5 * y, 0.4, 1.0)
    film = film - 0.17 * _step(0.055 - np.abs(x), 0.05) * _step(-0.24 - y, 0.12)  # trachea
    film = _ribs(film, sheet, body, both * (1 - 0.75 * shadow))
    film = _shoulders(film, sheet, body)
    if body.sex == "F":
        for sign in (-1, 1):
            film = film + 0.055 * sheet.ellipse(sign * 0.52, 0.36, 0.40, 0.34, 0.10)
    seen = {side: lung * (1 - 0.8 * shadow) for side, lung in lungs.items()}  # what the heart does not hide
    for finding in findings:
        film = _mark(film, finding, sheet, x, y, body, seen, breath, rng)
    return film


def _outline(sheet: _Sheet, body: Anatomy) -> Plane:
    x, y = np.abs(sheet.x), sheet.y
    trunk = body.chest + body.fat + 0.05 * np.clip(y, -0.2, 1)
    neck = 0.26 + 0.03 * np.sin(3 * y)
    # From the neck the outline falls away along the shoulder, then runs down the arm (off the film).
    slope = neck + np.clip((y + 1.02) * 2.6 * body.shoulder, 0, 1.4) ** 0.8
    inside = np.where(y < -0.42, slope, trunk + np.clip(0.5 - (y + 0.42) * 1.6, 0, 0.5))
    return _step(inside - x, 0.05)


def _dome(u: Plane, top: float) -> Plane:
    d = u - 0.40
    return top + np.where(d > 0, 1.35, 0.45) * d**2


def _lung(u: Plane, y: Plane, body: Anatomy, dome: float, flat: float = 1.0) -> Plane:
    """One lung with the midline at u = 0 and the chest wall at positive u."""
    low = 0.42
    fall = np.clip((low - y) / (low - body.apex), 0, 1)
    outer = 0.34 + (body.chest - 0.34) * np.sqrt(np.clip(1 - fall**2.3, 0, 1))
    inner = 0.34 - (0.34 - 0.13) * np.sqrt(np.clip(1 - fall**9, 0, 1))
    floor = dome + flat * (_dome(u, dome) - dome)
    return _step(outer - u, 0.035) * _step(u - inner, 0.04) * _step(floor - y, 0.03) * _step(y - body.apex, 0.05)


def _ribs(film: Plane, sheet: _Sheet, body: Anatomy, lungs: Plane) -> Plane:
    behind: list[tuple[list[tuple[float, float]], float]] = []
    before, edges = list(behind), list(behind)
    half = body.rib_width

    def path(u: NDArray[Any], y: NDArray[Any], sign: int, rise: float = 0.0) -> list[tuple[float, float]]:
        return [(sign * a + body.curve * np.sin(2.2 * b), b + rise) for a, b in zip(u, y, strict=True)]

    for sign in (-1, 1):
        for number in range(10):
            start = body.rib_top + number * body.rib_gap
            # Ribs follow the cage: short at the apex, longest at mid chest.
            reach = 0.40 + (body.chest + 0.03 - 0.40) * min(1.0, 0.25 + number * 0.19)
            u = np.linspace(0.10, reach, 24)
            t = u / reach
            back = start - 0.045 * np.sin(np.pi * t) + body.rib_slope * t**3
            behind.append((path(u, back, sign), 2 * half))
            edges += [(path(u, back, sign, rise), half * 0.4) for rise in (-half, half)]
            if 0 < number < 8:
                u = np.linspace(0.30 + 0.015 * number, reach, 24)
                front = start + body.rib_slope + 0.035 + 0.42 * (1 - u / reach) ** 1.3
                before.append((path(u, front, sign), 2.3 * half))
    soft = half * 0.3
    bones = 0.75 * sheet.strokes(behind, soft) + 0.42 * sheet.strokes(before, soft) + 0.45 * sheet.strokes(edges, soft)
    return film + np.clip(bones, 0, 1.5) * (0.022 + 0.095 * lungs)


def _bone(distance: Plane, half: float) -> Plane:
    """A bone seen from the side: filled, and brighter along both cortices."""
    filled = _step(half - np.abs(distance), half * 0.6)
    cortex = np.clip(1 - ((np.abs(distance) - half * 0.8) / (half * 0.45)) ** 2, 0, 1)
    return 0.75 * filled + 0.35 * cortex


def _shoulders(film: Plane, sheet: _Sheet, body: Anatomy) -> Plane:
    for sign in (-1, 1):
        u, y = sign * sheet.x, sheet.y
        line = -0.60 + body.clavicle * (u - 0.08) - 0.05 * np.sin((u - 0.08) * 5.0)
        clavicle = _bone(y - line, 0.030) * _step(u - 0.10, 0.03) * _step(0.92 - u, 0.05)
        blade = sheet.ellipse(sign * (body.chest + 0.10), -0.28, 0.13, 0.42, 0.06, tilt=-sign * 0.25)
        head = sheet.ellipse(sign * 1.12, -0.66, 0.14, 0.16, 0.04)
        film = film + 0.13 * clavicle + 0.055 * blade + 0.14 * head
    return film


def _vessels(sheet: _Sheet, body: Anatomy) -> Plane:
    """A branching tree from each hilum; the same for every film of a person."""
    rng = np.random.Generator(np.random.PCG64(body.vessels))
    lines: list[tuple[list[tuple[float, float]], float]] = []

    def grow(x: float, y: float, angle: float, length: float, width: float, depth: int) -> None:
        if depth == 0 or width < 0.003:
            return
        bend = rng.normal(0, 0.25)
        middle = (x + np.cos(angle) * length / 2, y + np.sin(angle) * length / 2)
        end = (middle[0] + np.cos(angle + bend) * length / 2, middle[1] + np.sin(angle + bend) * length / 2)
        lines.append(([(x, y), middle, end], width))
        for turn in (rng.uniform(0.25, 0.7), -rng.uniform(0.25, 0.7)):
            grow(
                *end, angle + bend + turn, length * rng.uniform(0.62, 0.85), width * rng.uniform(0.55, 0.75), depth - 1
            )

    for sign in (-1, 1):
        for angle in np.linspace(-1.25, 1.25, 6) + rng.normal(0, 0.12, 6):
            direction = angle if sign > 0 else np.pi - angle
            grow(sign * 0.17, -0.02, direction, rng.uniform(0.16, 0.24), rng.uniform(0.020, 0.030), 5)
    return sheet.strokes(lines, 0.010)


# -- findings --------------------------------------------------------------------------------------------------------


def _pneumothorax_mask(sheet: _Sheet, x: Plane, y: Plane, body: Anatomy, findings: tuple[Finding, ...]) -> Plane:
    """Where there is air and no lung."""
    mask = np.zeros_like(x)
    for finding in findings:
        if finding.name == "Pneumothorax":
            u = x * (1 if finding.side == "left" else -1)
            edge = ((u - 0.25) / (body.chest - 0.40)) ** 2 + ((y - 0.25) / (0.25 - body.apex - 0.20)) ** 2
            mask = np.maximum(mask, _step((edge - 1) * 0.3, 0.02) * _step(u, 0.1))
    return mask


def _mark(
    film: Plane,
    finding: Finding,
    sheet: _Sheet,
    x: Plane,
    y: Plane,
    body: Anatomy,
    lungs: dict[str, Plane],
    breath: float,
    rng: np.random.Generator,
) -> Plane:
    """The film with one finding drawn in; heart size and lung volume are drawn with the body."""
    side = finding.side or "right"
    sign = 1 if side == "left" else -1
    u, lung = sign * x, lungs[side]
    both = np.clip(lungs["left"] + lungs["right"], 0, 1)
    cy = _ZONES[finding.zone or "lower"]
    cx = {"upper": 0.40, "mid": 0.47, "lower": 0.50}[finding.zone or "lower"]
    dome = body.domes[sign > 0] + breath
    match finding.name:
        case "Effusion":
            level = dome - 0.10 - 0.20 * ((finding.millimetres or 40) / 80)
            fluid = _step(y - (level - 0.9 * np.clip(u - 0.35, 0, 1) ** 2), 0.05) * _step(u - 0.1, 0.1)
            wall = _step(body.chest + 0.02 - u, 0.04)
            return _over(film, 0.67, fluid * wall * 0.92)
        case "Consolidation" | "Pneumonia" | "Infiltration":
            heavy = {"Consolidation": 0.85, "Pneumonia": 0.68, "Infiltration": 0.5}[finding.name]
            patch = sheet.ellipse(sign * cx, cy, 0.25, 0.24, 0.24) * np.clip(
                0.8 + 0.45 * sheet.cloud(rng, 0.09), 0, 1.2
            )
            return _over(film, 0.66, np.clip(patch * heavy, 0, 0.9) * lung)
        case "Nodule" | "Mass":
            radius = (finding.millimetres or (14 if finding.name == "Nodule" else 45)) / 2 / 140
            where = np.random.Generator(np.random.PCG64(body.texture + len(side)))  # the same place on every film
            spot = sheet.ellipse(
                sign * (cx + where.uniform(-0.1, 0.1)),
                cy + where.uniform(-0.1, 0.1),
                radius,
                radius * 0.92,
                radius * 0.5,
            )
            return film + (0.26 if finding.name == "Nodule" else 0.34) * spot * lung
        case "Pneumothorax":
            mask = _pneumothorax_mask(sheet, x, y, body, (finding,))
            return np.asarray(film + 0.42 * mask * (1 - mask) * lung * 4 * 0.5)
        case "Edema":
            wings = sheet.ellipse(-0.33, 0.0, 0.34, 0.42, 0.4) + sheet.ellipse(0.33, 0.0, 0.34, 0.42, 0.4)
            return _over(film, 0.60, np.clip(wings * (0.55 + 0.2 * sheet.cloud(rng, 0.05)), 0, 0.8) * both)
        case "Atelectasis":
            band = (
                np.exp(-(((y - cy - 0.18 + 0.25 * (u - 0.4)) / 0.016) ** 2))
                * _step(u - 0.22, 0.08)
                * _step(0.66 - u, 0.1)
            )
            return film + 0.24 * band * lung
        case "Fibrosis":
            net = np.abs(sheet.cloud(rng, 0.028)) + 0.7 * np.abs(sheet.cloud(rng, 0.05))
            return np.asarray(film + 0.055 * net * both * _step(y - 0.05, 0.4))
        case "Pleural_Thickening":
            rim = (
                _step(u - (body.chest - 0.07), 0.03)
                * _step(body.chest + 0.01 - u, 0.03)
                * _step(0.35 - np.abs(y - 0.05), 0.1)
            )
            return _over(film, 0.60, rim * 0.7)
        case "Hernia":
            sac = sheet.ellipse(0.05, 0.42, 0.17, 0.15, 0.04)
            air = sheet.ellipse(0.05, 0.35, 0.13, 0.06, 0.03)
            return film + 0.10 * sac - 0.22 * air
        case _:
            return film


# -- lateral ---------------------------------------------------------------------------------------------------------


def _lateral(sheet: _Sheet, body: Anatomy) -> Plane:
    """The side view, front of the chest to the viewer's left. Findings are shown on frontal films only."""
    x, y = sheet.x, sheet.y
    front = -0.62 + 0.16 * np.clip(-y, 0, 1) - (0.06 * np.exp(-(((y - 0.15) / 0.3) ** 2)) if body.sex == "F" else 0)
    back = 0.70 - 0.18 * np.clip(-y - 0.2, 0, 1)
    film = 0.03 + 0.56 * _step(x - front, 0.05) * _step(back - x, 0.05)
    dome = 0.50 + 0.55 * np.clip(x + 0.15, 0, 1) ** 2 + 0.15 * np.clip(-0.15 - x, 0, 1)
    apex = -0.84 + 1.5 * (x - 0.10) ** 2
    lung = _step(x - front - 0.12, 0.06) * _step(back - 0.14 - x, 0.06) * _step(dome - y, 0.03) * _step(y - apex, 0.08)
    film = _over(film, 0.25, lung * 0.9)
    film = _over(film, 0.68, sheet.ellipse(-0.20, 0.24, 0.30 * body.heart, 0.24, 0.10, tilt=0.9) * 0.7)
    film = film + 0.10 * sheet.ellipse(0.0, -0.05, 0.10, 0.10, 0.1)
    spine = _step(0.085 - np.abs(x - back + 0.22), 0.03)
    film = film + spine * (0.10 + 0.05 * np.cos(2 * np.pi * y / 0.155))
    for number in range(9):
        path = body.rib_top + number * body.rib_gap + 0.35 * (0.5 - x)
        film = film + 0.05 * _bone(y - path, body.rib_width) * lung
    return np.asarray(film - 0.12 * _step(0.045 - np.abs(x - 0.08), 0.02) * _step(-0.15 - y, 0.08))
