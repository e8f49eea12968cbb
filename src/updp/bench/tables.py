"""What benches write: a table in Markdown with its figures as JSON beside it, and curves with intervals.

The figures can be read back (``read_rows``), so that a page shows what was measured and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from updp.core.storage import write_bytes
from updp.evaluation.intervals import Interval

Kind = TypeVar("Kind")


def cell(interval: Interval | None, digits: int = 2) -> str:
    """An interval as a cell of a table."""
    if interval is None:
        return ""
    value, low, high = (f"{number:.{digits}f}" for number in interval)
    return f"{value} [{low}, {high}]"


def read_rows(kind: type[Kind], written: Iterable[Mapping[str, Any]]) -> list[Kind]:
    """Rows as ``asdict`` and JSON left them: three numbers are an interval again."""
    return [kind(**{k: Interval(*v) if isinstance(v, list) else v for k, v in row.items()}) for row in written]


def save(out: Path, name: str, about: Mapping[str, Any], text: str, **figures: Any) -> None:
    """Write ``name.json`` and ``name.md``; ``about`` has the pack, and how many films of how many patients."""
    out.mkdir(parents=True, exist_ok=True)
    held = {"about": about, **figures}
    write_bytes(out / f"{name}.json", (json.dumps(held, indent=2) + "\n").encode())
    write_bytes(out / f"{name}.md", text.encode())


def panels(width: float, height: float, count: int = 1) -> tuple[Any, list[Any]]:
    """A figure with ``count`` panels beside each other."""
    from matplotlib.figure import Figure  # pyplot would choose a backend for the whole process

    figure = Figure(figsize=(width, height), layout="constrained")
    each = list(figure.subplots(1, count, squeeze=False)[0])
    for axes in each:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, each


def plot_intervals(axes: Any, x: Sequence[float], values: Sequence[Interval], label: str) -> None:
    """A curve with a bar from low to high at every point."""
    spread = np.nan_to_num([[v.value - v.low for v in values], [v.high - v.value for v in values]])
    axes.errorbar(x, [v.value for v in values], np.maximum(spread, 0), marker="o", capsize=3, label=label)
