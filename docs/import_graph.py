"""The import graph of the package: which module uses which, and which part of the package uses which part.

The test of the layout (``tests/test_imports.py``) and the architecture page (``docs/site_hooks.py``) both read it here.
Imports inside functions count, since they are dependencies too; those for type checkers alone do not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"

#: The parts, each using only those before it. ``updp`` is the package's own front: the public names and ``__main__``.
ORDER = (
    "core",
    "domains",
    "imaging",
    "reports",
    "screening",
    "sources",
    "models",
    "training",
    "methods",
    "release",
    "network",
    "pipeline",
    "evaluation",
    "bench",
    "review",
    "virtual",
    "cli",
    "updp",
)


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((SRC / "updp").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(code: str, own: str = "", *, registered: bool = True) -> Iterator[str]:
    """The modules of this package that a module imports, wherever it does, and those its registry names."""
    waiting: list[ast.AST] = [ast.parse(code)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "updp")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{own}: a relative import"
            if node.module and node.module.split(".")[0] == "updp":
                inner = [f"{node.module}.{name.name}" for name in node.names]
                yield from (name if name in MODULES else node.module for name in inner)
        elif registered and isinstance(node, ast.Constant) and isinstance(node.value, str):
            place = node.value.partition(":")[0]
            if place in MODULES and place not in ("updp", own):
                yield place


def tabled(path: Path) -> Iterator[str]:
    """The modules that the TOML tables beside a package's ``__init__.py`` name as "module:attribute"."""
    if path.name == "__init__.py":
        for table in sorted(path.parent.glob("*.toml")):
            named = re.findall(r'"(updp[\w.]*):\w+"', table.read_text("utf-8"))
            yield from (name for name in named if name in MODULES)


def part_of(module: str) -> str:
    """The part of the package a module belongs to."""
    names = module.split(".")
    return names[1] if len(names) > 1 and names[1] != "__main__" else "updp"


@cache
def edges(*, registered: bool = True) -> dict[str, set[str]]:
    """Module -> the modules it imports."""
    found = {}
    for name, path in MODULES.items():
        used = set(imported(path.read_text("utf-8"), name, registered=registered))
        found[name] = (used | set(tabled(path)) if registered else used) - {name}
    return found


def part_edges() -> dict[str, set[str]]:
    """Part -> the other parts it imports, for every part in order."""
    found: dict[str, set[str]] = {part: set() for part in ORDER}
    for name, used in edges().items():
        found[part_of(name)] |= {part_of(other) for other in used} - {part_of(name)}
    return found


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same graph without the edges that follow from others, so that a drawing stays readable."""

    def reached(start: set[str]) -> set[str]:
        seen: set[str] = set()
        waiting = list(start)
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += graph[node]
        return seen

    return {
        node: {used for used in targets if used not in reached(targets - {used})} for node, targets in graph.items()
    }


def purpose(part: str) -> str:
    """The first paragraph of the part's own docstring."""
    path = SRC / "updp" / ("" if part == "updp" else part) / "__init__.py"
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def drawing() -> str:
    """The graph of the parts as SVG: a part stands above those that use it, arrows point from user to used."""
    graph = part_edges()
    layer: dict[str, int] = {}
    for part in ORDER:
        layer[part] = 1 + max((layer[used] for used in graph[part]), default=-1)
    rows: dict[int, list[str]] = {}
    for part, row in layer.items():
        rows.setdefault(row, []).append(part)
    width, box, gap, step = 560, 128, 28, 64
    place = {}
    for row, parts in rows.items():
        left = (width - len(parts) * box - (len(parts) - 1) * gap) / 2
        for n, part in enumerate(parts):
            place[part] = (left + n * (box + gap), 12 + row * step)
    lines = []
    for part, targets in reduced(graph).items():
        for used in sorted(targets):
            (x1, y1), (x2, y2) = place[part], place[used]
            x1, x2, y2 = x1 + box / 2, x2 + box / 2, y2 + 38
            if layer[part] - layer[used] == 1:
                lines.append(f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>')
            else:  # around the boxes between the two ends
                aside = x2 + (110 if x2 > width / 2 else -110)
                lines.append(f'<path d="M{x1:g} {y1:g}C{aside:g} {y1 - 20:g} {aside:g} {y2 + 60:g} {x2:g} {y2:g}"/>')
    boxes = [
        f'<rect x="{x:g}" y="{y:g}" width="{box}" height="36" rx="7" fill="#fff" stroke="#14324a" stroke-width="1.5"/>'
        f'<text x="{x + box / 2:g}" y="{y + 23:g}" text-anchor="middle">{part}</text>'
        for part, (x, y) in place.items()
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {len(rows) * step}" width="{width}" '
            'font-family="system-ui, sans-serif" font-size="15" fill="#14324a" role="img" '
            'aria-label="Import graph of the package">',
            '<defs><marker id="to" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 10 5 0 10z" fill="#5d6d7e"/></marker></defs>',
            f'<rect width="{width}" height="{len(rows) * step}" fill="#fff"/>',
            '<g stroke="#5d6d7e" stroke-width="1.5" fill="none" marker-end="url(#to)">',
            *lines,
            "</g>",
            *boxes,
            "</svg>",
            "",
        ]
    )
