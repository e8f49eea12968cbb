"""Pictures of a report as inline SVG: a plane of privacy and utility, curves, intervals, findings.

Drawn here and not by a plotting library: a few kilobytes each, text that stays text, no font to embed. Every point has
its interval. Colours differ in lightness too, so that they survive a black-and-white printer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

INK, SOFT, LINE, GOOD, CHANCE = "#17202a", "#51606f", "#dde3e9", "#e3f1e7", "#8e2a20"
#: A label further from the height of its point than this is led to it by a line.
_BESIDE = 14
#: Colour and marker of each series in turn.
SERIES = (
    ("#0b5394", "circle"),
    ("#c2570c", "square"),
    ("#1e7b4a", "diamond"),
    ("#7d3c98", "triangle"),
    ("#5d6d7e", "circle"),
    ("#a8323e", "square"),
    ("#117a8b", "diamond"),
    ("#7a5c00", "triangle"),
    ("#b5179e", "circle"),
    ("#2f6fde", "square"),
    ("#1f2933", "diamond"),
    ("#4d7c0f", "triangle"),
)


@dataclass(frozen=True, slots=True)
class Point:
    """A method at one strength: where it stands between privacy and utility."""

    label: str
    series: str
    linkage: tuple[float, float, float]  # value, low, high
    utility: tuple[float, float, float]
    here: bool = False  # the release this report is about


@dataclass(frozen=True, slots=True)
class _Frame:
    """A drawing area with its scales."""

    width: int
    height: int
    x0: float
    x1: float
    y0: float
    y1: float
    logarithmic: bool = False
    left: int = 54
    right: int = 14
    top: int = 12
    bottom: int = 48

    def x(self, value: float) -> float:
        low, high, v = self.x0, self.x1, min(max(value, self.x0), self.x1)
        if self.logarithmic:
            low, high, v = math.log10(low), math.log10(high), math.log10(v)
        return self.left + (v - low) / ((high - low) or 1) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        v = min(max(value, self.y0), self.y1)
        return (
            self.height
            - self.bottom
            - (v - self.y0) / ((self.y1 - self.y0) or 1) * (self.height - self.top - self.bottom)
        )


LINKAGE = "film beyond its record, AUC  (0.5: guessing)"


def plane(points: Sequence[Point], max_linkage: float, min_utility: float, *, across: str = LINKAGE) -> Markup:
    """The privacy-utility picture: to the left nothing links, to the top nothing is lost; green is what may leave."""
    reach = [v for p in points for v in p.utility] + [1.0, min_utility]
    low = max(0.0, math.floor(10 * min(reach) - 0.2) / 10)
    frame = _Frame(560, 400, 0.48, 1.0, low, max(1.05, math.ceil(20 * max(reach)) / 20))
    parts = [
        _rect(frame, 0.48, max_linkage, min_utility, frame.y1, GOOD),
        _axes(
            frame,
            across,
            "diagnostic skill kept, of real films",
            [0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
            _ticks(frame.y0, frame.y1),
        ),
        _text(frame.x(0.485), frame.y(frame.y1) + 15, "allowed by the policy", colour="#14613a", size=12),
        _line(frame, [(0.5, frame.y0), (0.5, frame.y1)], SOFT, dash=True),
    ]
    looks = {name: SERIES[i % len(SERIES)] for i, name in enumerate(dict.fromkeys(p.series for p in points))}
    for name, (colour, marker) in looks.items():
        mine = [p for p in points if p.series == name]
        swept = [p for p in mine if not p.here]
        if len(swept) > 1:
            parts.append(_line(frame, [(p.linkage[0], p.utility[0]) for p in swept], colour, width=1.2))
        for p in mine:
            parts += [
                _line(frame, [(p.linkage[1], p.utility[0]), (p.linkage[2], p.utility[0])], colour, width=1.4),
                _line(frame, [(p.linkage[0], p.utility[1]), (p.linkage[0], p.utility[2])], colour, width=1.4),
                _marker(frame.x(p.linkage[0]), frame.y(p.utility[0]), colour, marker, 8 if p.here else 5, ring=p.here),
            ]
    for x, y, anchor, p in _labels(frame, points):
        colour = looks[p.series][0]
        where = frame.x(p.linkage[0]), frame.y(p.utility[0])
        if abs(y - where[1]) > _BESIDE:
            parts.append(_leader((x - 2 if anchor == "start" else x + 2, y - 4), where, colour))
        parts.append(_text(x, y, p.label, colour, size=13 if p.here else 11.5, bold=p.here, anchor=anchor))
    return _svg(frame, parts, "Privacy and utility of every method and strength that was measured")


def _leader(label: tuple[float, float], point: tuple[float, float], colour: str) -> Markup:
    """From a label that had to give way to the point it belongs to."""
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="0.7"/>').format(
        *label, *point, colour
    )


def _labels(frame: _Frame, points: Sequence[Point]) -> Iterable[tuple[float, float, str, Point]]:
    """Labels beside their points, each at the nearest height at which it covers no other and no point."""
    marks = ((frame.x(p.linkage[0]), frame.y(p.utility[0])) for p in points)
    taken = [(x - 8, x + 8, y + 4) for x, y in marks]
    for p in sorted(points, key=lambda p: not p.here):
        x, y = frame.x(p.linkage[0]) + 10, frame.y(p.utility[0]) - 9
        wide, anchor = 6.5 * len(p.label), "start"
        if x + wide > frame.width - frame.right:
            x, anchor = x - 20, "end"
        begin = x if anchor == "start" else x - wide
        rivals = [other for first, end, other in taken if begin < end and first < begin + wide]
        for step in (13 * k * sign for k in range(40) for sign in (1, -1)):
            inside = frame.top < y + step < frame.height - frame.bottom
            if inside and all(abs(y + step - other) >= 13 for other in rivals):
                y += step
                break
        taken.append((begin, begin + wide, y))
        yield x, y, anchor, p


def curves(
    series: Sequence[tuple[str, Sequence[Sequence[float]]]],
    across: str,
    up: str,
    *,
    diagonal: bool = False,
    chance: float | None = None,
    logarithmic: bool = False,
    top: float | None = None,
    bottom: float = 0.0,
) -> Markup:
    """Curves of (x, y) or (x, y, low, high) points with a legend below; intervals are drawn where they are given."""
    xs = [p[0] for _, points in series for p in points]
    ys = [v for _, points in series for p in points for v in p[1:]]
    legend = 18 * len(series)
    low, high = (0.0, 1.0) if diagonal else (min(xs), max(xs))
    if logarithmic:
        low, high = max(low, 1e-9), max(high, low * 1.001, 1e-8)
    frame = _Frame(460, 330 + legend, low, high, bottom, top or max(1.0, *ys), logarithmic, bottom=48 + legend)
    ticks = [0, 0.25, 0.5, 0.75, 1.0] if diagonal else (_decades(low, high) if logarithmic else _ticks(low, high))
    parts = [_axes(frame, across, up, ticks, _ticks(frame.y0, frame.y1))]
    if diagonal:
        parts.append(_line(frame, [(0, 0), (1, 1)], CHANCE, dash=True))
    if chance is not None:
        parts.append(_line(frame, [(frame.x0, chance), (frame.x1, chance)], CHANCE, dash=True))
        parts.append(_text(frame.width - frame.right, frame.y(chance) - 5, "chance", CHANCE, 12, anchor="end"))
    for number, (name, points) in enumerate(series):
        colour, marker = SERIES[number % len(SERIES)]
        parts.append(_line(frame, [(p[0], p[1]) for p in points], colour, width=1.8))
        if len(points) <= 12:
            for p in points:
                if len(p) >= 4:
                    parts.append(_line(frame, [(p[0], p[2]), (p[0], p[3])], colour, width=1.3))
                parts.append(_marker(frame.x(p[0]), frame.y(p[1]), colour, marker, 4))
        y = frame.height - legend + 18 * number + 6
        parts += [_marker(frame.left + 6, y - 4, colour, marker, 5), _text(frame.left + 20, y, name, size=13)]
    return _svg(frame, parts, f"{up} against {across}")


def interval(
    value: float, low: float, high: float, chance: float | None, limit: float | None, span: tuple[float, float]
) -> Markup:
    """One measurement as a line: its interval, its value, chance (dashed) and what the policy allows (solid)."""
    frame = _Frame(150, 22, *span, 0.0, 1.0, left=4, right=4, top=2, bottom=2)
    parts = [_line(frame, [(span[0], 0.5), (span[1], 0.5)], LINE, width=1)]
    if chance is not None:
        parts.append(_line(frame, [(chance, 0), (chance, 1)], CHANCE, dash=True, width=1.3))
    if limit is not None:
        parts.append(_line(frame, [(limit, 0), (limit, 1)], "#1e7b4a", width=2))
    parts.append(_line(frame, [(low, 0.5), (high, 0.5)], SERIES[0][0], width=4))
    parts.append(_marker(frame.x(value), frame.y(0.5), INK, "circle", 4))
    label = f"{value:.3f}, interval {low:.3f} to {high:.3f}"
    return _svg(frame, parts, label, klass="bar")


def dumbbells(rows: Sequence[tuple[str, float, float]], left: str, right: str, span: tuple[float, float]) -> Markup:
    """Pairs of values a row, as far apart as they differ: real films against released ones."""
    frame = _Frame(460, 40 + 24 * len(rows) + 44, *span, 0.0, float(len(rows)), left=150, top=34, bottom=44)
    a, b = SERIES[0], SERIES[1]
    parts = [
        _marker(156, 14, a[0], a[1], 5),
        _text(166, 18, left, size=13),
        _marker(306, 14, b[0], b[1], 5),
        _text(316, 18, right, size=13),
    ]
    for tick in _ticks(*span):
        parts.append(_line(frame, [(tick, 0), (tick, len(rows))], LINE))
        parts.append(_text(frame.x(tick), frame.height - frame.bottom + 18, f"{tick:g}", SOFT, 12, anchor="middle"))
    for i, (name, one, other) in enumerate(rows):
        y = len(rows) - i - 0.5
        parts.append(_text(frame.left - 8, frame.y(y) + 4, name, size=13, anchor="end"))
        parts.append(_line(frame, [(one, y), (other, y)], SOFT, width=2))
        parts.append(_marker(frame.x(one), frame.y(y), a[0], a[1], 5))
        parts.append(_marker(frame.x(other), frame.y(y), b[0], b[1], 5))
    parts.append(_text(frame.x((span[0] + span[1]) / 2), frame.height - 8, "AUC", INK, 13, anchor="middle"))
    return _svg(frame, parts, f"Area under the curve of each finding, {left} and {right}")


def beside(pictures: Sequence[Markup], label: str, width: int = 560, height: int = 400) -> Markup:
    """Planes side by side as one picture."""
    parts = [
        Markup('<g transform="translate({} 0)">{}</g>').format(
            i * width, Markup(str(p).partition(">")[2].removesuffix("</svg>"))
        )
        for i, p in enumerate(pictures)
    ]
    return _svg(_Frame(width * len(pictures), height, 0, 1, 0, 1), parts, label)


def standalone(svg: Markup) -> str:
    """A picture as a file of its own."""
    inner = str(svg).removeprefix("<svg ")
    font = "font-family=\"system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\""
    return f'<svg xmlns="http://www.w3.org/2000/svg" style="background:#fff" {font} {inner}\n'


# -- strokes ---------------------------------------------------------------------------------------------------------


def _svg(frame: _Frame, parts: Iterable[Markup], label: str, klass: str = "chart") -> Markup:
    return Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        klass, frame.width, frame.height, label, Markup("").join(parts)
    )


def _axes(frame: _Frame, across: str, up: str, xs: Sequence[float], ys: Sequence[float]) -> Markup:
    parts = []
    for x in xs:
        parts.append(_line(frame, [(x, frame.y0), (x, frame.y1)], LINE))
        parts.append(_text(frame.x(x), frame.height - frame.bottom + 17, _figure(x), SOFT, 12, anchor="middle"))
    for y in ys:
        parts.append(_line(frame, [(frame.x0, y), (frame.x1, y)], LINE))
        parts.append(_text(frame.left - 7, frame.y(y) + 4, _figure(y), SOFT, 12, anchor="end"))
    middle = (frame.left + frame.width - frame.right) / 2
    parts.append(_text(middle, frame.height - frame.bottom + 38, across, INK, 13, anchor="middle"))
    centre = (frame.top + frame.height - frame.bottom) / 2
    parts.append(
        Markup(
            '<text transform="translate(14 {:.1f}) rotate(-90)" text-anchor="middle" font-size="13" fill="{}">{}</text>'
        ).format(centre, INK, escape(up))
    )
    return Markup("").join(parts)


def _line(
    frame: _Frame, points: Sequence[tuple[float, float]], colour: str, *, width: float = 1.0, dash: bool = False
) -> Markup:
    path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    dashes = Markup(' stroke-dasharray="4 3"') if dash else ""
    return Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="{}"{}/>').format(
        path, colour, width, dashes
    )


def _rect(frame: _Frame, x0: float, x1: float, y0: float, y1: float, colour: str) -> Markup:
    left, right, top, bottom = frame.x(x0), frame.x(x1), frame.y(y1), frame.y(y0)
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>').format(
        left, top, right - left, bottom - top, colour
    )


def _marker(x: float, y: float, colour: str, kind: str, r: float, ring: bool = False) -> Markup:
    edge = Markup(' stroke="{}" stroke-width="2.5"').format(INK) if ring else ""
    if kind == "circle":
        return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{}" fill="{}"{}/>').format(x, y, r, colour, edge)
    shapes = {
        "square": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "diamond": [(0, -1.3 * r), (1.3 * r, 0), (0, 1.3 * r), (-1.3 * r, 0)],
        "triangle": [(0, -1.2 * r), (1.1 * r, r), (-1.1 * r, r)],
    }
    path = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shapes[kind])
    return Markup('<polygon points="{}" fill="{}"{}/>').format(path, colour, edge)


def _text(
    x: float, y: float, text: str, colour: str = INK, size: float = 13, *, bold: bool = False, anchor: str = "start"
) -> Markup:
    weight = Markup(' font-weight="600"') if bold else ""
    # A white rim keeps words readable where a line runs behind them.
    rim = Markup(' stroke="#fff" stroke-width="3" paint-order="stroke"')
    return Markup('<text x="{:.1f}" y="{:.1f}" font-size="{}" fill="{}" text-anchor="{}"{}{}>{}</text>').format(
        x, y, size, colour, anchor, weight, rim, escape(text)
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round values between two ends, four to seven of them."""
    span = high - low
    if span <= 0:
        return [low]
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(m for m in (1, 2, 2.5, 5, 10) if span / (step * m) <= 7)
    first = math.ceil(low / step - 1e-9)
    return [round(step * n, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    values = [
        m * 10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)
    ]
    inside = [v for v in values if low * 0.999 <= v <= high * 1.001]
    return inside if len(inside) >= 2 else [low, high]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
