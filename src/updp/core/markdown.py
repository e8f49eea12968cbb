"""Tables in Markdown, for cards, benches and statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, and an empty one after it."""
    return [*(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)), ""]
