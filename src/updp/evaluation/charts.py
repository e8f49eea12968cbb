"""Pictures of a report as inline SVG, drawn by matplotlib: privacy and utility, curves, findings.

Text stays text and no font is embedded. Every point has its interval. Colours differ in lightness too, so that they
survive a black-and-white printer. The interval in a row of a table is a bar of HTML.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

INK, SOFT, LINE, GOOD, CHANCE = "#17202a", "#51606f", "#dde3e9", "#e3f1e7", "#8e2a20"
#: Colour and marker of each series in turn.
SERIES = (
    ("#0b5394", "o"),
    ("#c2570c", "s"),
    ("#1e7b4a", "D"),
    ("#7d3c98", "^"),
    ("#5d6d7e", "o"),
    ("#a8323e", "s"),
    ("#117a8b", "D"),
    ("#7a5c00", "^"),
    ("#b5179e", "o"),
    ("#2f6fde", "s"),
    ("#1f2933", "D"),
    ("#4d7c0f", "^"),
)
#: A label further from the height of its point than this many pixels is joined to it by a line.
_BESIDE = 14
#: Pixels between two labels above each other, and pixels of one letter.
_ROW, _LETTER = 13, 6.5
_STYLE: Any = {
    "svg.fonttype": "none",  # text, not outlines
    "svg.hashsalt": "updp",  # the same picture has the same bytes
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that lengths of words are known everywhere
    "text.parse_math": False,  # a name may hold a dollar sign
    "axes.edgecolor": LINE,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 13,
    "grid.color": LINE,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "legend.frameon": False,
    "legend.fontsize": 13,
}
#: What a browser shows in its place.
_FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
#: Parts of matplotlib's SVG that a picture inside a page must not have: a style for every element, and its origin.
_UNUSED = r"\s*(<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>)"
LINKAGE = "film beyond its record, AUC  (0.5: guessing)"


@dataclass(frozen=True, slots=True)
class Point:
    """A method at one strength: where it stands between privacy and utility."""

    label: str  # an empty one is not written
    series: str
    linkage: tuple[float, float, float]  # value, low, high
    utility: tuple[float, float, float]
    here: bool = False  # the release this report is about


@dataclass(frozen=True, slots=True)
class Plane:
    """The points of one privacy-utility picture, and what the policy allows."""

    points: Sequence[Point]
    max_linkage: float
    min_utility: float
    across: str = LINKAGE


def planes(pictures: Sequence[Plane], label: str, size: tuple[int, int] = (560, 400)) -> Markup:
    """Privacy-utility pictures side by side: left is not linked, up is nothing lost; green is what may leave."""
    with _drawing(size[0] * len(pictures), size[1], label) as drawing:
        for axes, plane in zip(drawing.figure.subplots(1, len(pictures), squeeze=False)[0], pictures, strict=True):
            _plane(axes, plane)
    return drawing.svg


def plane(points: Sequence[Point], max_linkage: float, min_utility: float) -> Markup:
    """One privacy-utility picture."""
    label = "Privacy and utility of every method and strength that was measured"
    return planes([Plane(points, max_linkage, min_utility)], label)


def _plane(axes: Any, plane: Plane) -> None:
    reach = [v for p in plane.points for v in p.utility] + [1.0, plane.min_utility]
    low, high = max(0.0, math.floor(10 * min(reach) - 0.2) / 10), max(1.05, math.ceil(20 * max(reach)) / 20)
    axes.set(xlim=(0.48, 1.0), ylim=(low, high), xlabel=plane.across, ylabel="diagnostic skill kept, of real films")
    axes.fill_between([0.48, plane.max_linkage], plane.min_utility, high, color=GOOD, linewidth=0, zorder=0.5)
    axes.text(0.01, 0.985, "allowed by the policy", transform=axes.transAxes, va="top", color="#14613a", fontsize=12)
    axes.axvline(0.5, color=SOFT, linestyle="--", linewidth=1)
    style = {name: SERIES[i % len(SERIES)] for i, name in enumerate(dict.fromkeys(p.series for p in plane.points))}
    for name, (colour, marker) in style.items():
        mine = [p for p in plane.points if p.series == name]
        swept = [p for p in mine if not p.here]
        if len(swept) > 1:
            axes.plot([p.linkage[0] for p in swept], [p.utility[0] for p in swept], color=colour, linewidth=1.2)
        for p in mine:
            _crossed(axes, p, colour, marker)
    axes.figure.draw_without_rendering()  # places the axes, which the labels need
    _label(axes, plane.points, {name: colour for name, (colour, _) in style.items()})


def _crossed(axes: Any, p: Point, colour: str, marker: str) -> None:
    """A point with its two intervals."""
    (x, *across), (y, *up) = p.linkage, p.utility
    axes.plot(across, [y, y], color=colour, linewidth=1.4)
    axes.plot([x, x], up, color=colour, linewidth=1.4)
    rim = {"markeredgecolor": INK, "markeredgewidth": 2.5} if p.here else {}
    axes.plot(x, y, marker, color=colour, markersize=15 if p.here else 10, clip_on=False, **rim)


def _label(axes: Any, points: Sequence[Point], colours: dict[str, str]) -> None:
    """Labels beside their points, each at the nearest height at which it covers no other and no point."""
    places = [tuple(axes.transData.transform((p.linkage[0], p.utility[0]))) for p in points]
    frame = axes.get_window_extent()
    taken = [(x - 8, x + 8, y - 4) for x, y in places]
    named = [(p, place) for p, place in zip(points, places, strict=True) if p.label]
    for p, (x, y) in sorted(named, key=lambda pair: not pair[0].here):
        wide = _LETTER * len(p.label)
        side = "left" if x + 10 + wide <= frame.x1 else "right"
        begin = x + 10 if side == "left" else x - 10 - wide
        rivals = [other for first, end, other in taken if begin < end and first < begin + wide]
        for step in (_ROW * k * sign for k in range(40) for sign in (-1, 1)):
            height = y + 9 + step
            if frame.y0 < height < frame.y1 and all(abs(height - other) >= _ROW for other in rivals):
                break
        else:
            height = y + 9
        taken.append((begin, begin + wide, height))
        line = {"arrowstyle": "-", "color": colours[p.series], "linewidth": 0.7}
        axes.annotate(
            p.label,
            (p.linkage[0], p.utility[0]),
            (10 if side == "left" else -10, height - y),
            textcoords="offset pixels",
            ha=side,
            color=colours[p.series],
            fontsize=13 if p.here else 11.5,
            fontweight=700 if p.here else 400,
            arrowprops=line if abs(height - y) > _BESIDE else None,
            bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 0.5},
            annotation_clip=False,
        )


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
    from matplotlib.ticker import LogLocator

    ys = [v for _, points in series for p in points for v in p[1:]]
    with _drawing(460, 330 + 20 * len(series), f"{up} against {across}") as drawing:
        axes = drawing.figure.subplots()
        axes.set(xlabel=across, ylabel=up, ylim=(bottom, top or max(1.0, *ys)))
        if diagonal:
            axes.set_xlim(0, 1)
            axes.plot([0, 1], [0, 1], color=CHANCE, linestyle="--", linewidth=1)
        if logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
            axes.minorticks_off()
        if chance is not None:
            axes.axhline(chance, color=CHANCE, linestyle="--", linewidth=1)
            axes.text(1, chance, "chance", transform=axes.get_yaxis_transform(), ha="right", va="bottom", color=CHANCE)
        for number, (name, points) in enumerate(series):
            colour, marker = SERIES[number % len(SERIES)]
            few = len(points) <= 12
            axes.plot(
                [p[0] for p in points],
                [p[1] for p in points],
                color=colour,
                marker=marker if few else None,
                markersize=6,
                label=name,
            )
            if few:
                known = [p for p in points if len(p) >= 4]
                axes.vlines([p[0] for p in known], [p[2] for p in known], [p[3] for p in known], color=colour)
        drawing.figure.legend(loc="outside lower left")
    return drawing.svg


def dumbbells(rows: Sequence[tuple[str, float, float]], left: str, right: str, span: tuple[float, float]) -> Markup:
    """Two values per row, as far apart as they differ: real films against released ones."""
    label = f"Area under the curve of each finding, {left} and {right}"
    with _drawing(460, 90 + 24 * len(rows), label) as drawing:
        axes = drawing.figure.subplots()
        heights = range(len(rows))
        ones, others = [one for _, one, _ in rows], [other for _, _, other in rows]
        axes.hlines(heights, ones, others, color=SOFT, linewidth=2)
        for values, name, (colour, marker) in ((ones, left, SERIES[0]), (others, right, SERIES[1])):
            axes.plot(values, heights, marker, color=colour, markersize=8, label=name)
        axes.set(xlim=span, ylim=(len(rows) - 0.5, -0.5), xlabel="AUC")
        axes.set_yticks(heights, [name for name, _, _ in rows])
        axes.grid(visible=False, axis="y")
        drawing.figure.legend(loc="outside upper center", ncols=2)
    return drawing.svg


def agreement(rows: Sequence[str], series: Sequence[tuple[str, Sequence[tuple[float, float, float] | None]]]) -> Markup:
    """Kappas with their intervals, one row per finding, one mark per reader; "almost perfect" values are shaded."""
    step = 0.62 / max(1, len(series) - 1)
    least = min((point[1] for _, points in series for point in points if point), default=0.0)
    begin = math.floor(10 * least) / 10 if least < 0 else max(0.0, math.floor(10 * least - 1) / 10)
    with _drawing(1000, 110 + max(34, 15 * len(series)) * len(rows), "Kappa of each finding and reader") as drawing:
        axes = drawing.figure.subplots()
        axes.axvspan(0.8, 1.0, color=GOOD, linewidth=0, zorder=0.5)
        axes.axvline(0, color=CHANCE, linestyle="--", linewidth=1)
        for number, (name, points) in enumerate(series):
            colour, marker = SERIES[number % len(SERIES)]
            shift = (number - (len(series) - 1) / 2) * step
            known = [(row + shift, *point) for row, point in enumerate(points) if point]
            heights = [point[0] for point in known]
            axes.hlines(heights, [p[2] for p in known], [p[3] for p in known], color=colour, linewidth=2)
            axes.plot(
                [p[1] for p in known], heights, marker, color=colour, markersize=8, label=name, clip_on=False, zorder=5
            )
        for row in range(1, len(rows)):
            axes.axhline(row - 0.5, color=LINE, linewidth=1)
        axes.set(xlim=(begin, 1.0), ylim=(len(rows) - 0.5, -0.5), xlabel="kappa  (0: chance, 1: always alike)")
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        drawing.figure.legend(loc="outside upper center", ncols=min(4, len(series)))
    return drawing.svg


def interval(
    value: float, low: float, high: float, chance: float | None, limit: float | None, span: tuple[float, float]
) -> Markup:
    """One measurement as a bar: its interval, its value, chance (dashed) and what the policy allows (solid)."""

    def at(v: float) -> float:
        return 100 * (min(max(v, span[0]), span[1]) - span[0]) / ((span[1] - span[0]) or 1)

    marks = [("chance", chance), ("limit", limit), ("value", value)]
    parts = [Markup('<i class="range" style="left:{:.1f}%;width:{:.1f}%"></i>').format(at(low), at(high) - at(low))]
    parts += [
        Markup('<i class="{}" style="left:{:.1f}%"></i>').format(kind, at(v)) for kind, v in marks if v is not None
    ]
    label = f"{value:.3f}, interval {low:.3f} to {high:.3f}"
    return Markup('<span class="bar" role="img" aria-label="{}">{}</span>').format(label, Markup("").join(parts))


def standalone(svg: Markup) -> bytes:
    """A picture as a file of its own; inside a page it needs no name space."""
    return f"{svg}\n".replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).encode()


class _Drawing:
    """A figure, and its SVG once it is drawn."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure
        self.svg = Markup("")


@contextmanager
def _drawing(width: int, height: int, label: str) -> Iterator[_Drawing]:
    import matplotlib
    from matplotlib.figure import Figure  # pyplot would choose a backend for the whole process

    with matplotlib.rc_context(_STYLE):
        drawing = _Drawing(Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained"))
        yield drawing
        written = io.StringIO()
        drawing.figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    inner = re.sub(_UNUSED, "", text[text.index(">", text.index("<svg")) + 1 :], flags=re.DOTALL)
    opening = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(width, height, label)
    drawing.svg = opening + Markup(inner.rstrip().replace("'DejaVu Sans'", _FONT).replace("xlink:href", "href"))
