"""Imports point one way: a part of the package uses only those before it in ``ORDER``.

Imports inside functions count, since they are dependencies too; those for type checkers alone do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    "pipeline",
    "evaluation",
    "bench",
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


def part_of(module: str) -> str:
    names = module.split(".")
    return names[1] if len(names) > 1 and names[1] != "__main__" else "updp"


def edges(*, registered: bool = True) -> dict[str, set[str]]:
    """Module -> the modules it imports."""
    return {
        name: set(imported(path.read_text("utf-8"), name, registered=registered)) - {name}
        for name, path in MODULES.items()
    }


def back_edges(graph: dict[str, set[str]]) -> list[str]:
    place = {part: n for n, part in enumerate(ORDER)}
    return sorted(
        f"{name} -> {used}"
        for name, targets in graph.items()
        for used in targets
        if place[part_of(used)] > place[part_of(name)]
    )


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components of more than one)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for used in graph.get(name, ()):
            if used not in index:
                visit(used)
                low[name] = min(low[name], low[used])
            elif used in stack:
                low[name] = min(low[name], index[used])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def test_every_part_of_the_package_has_its_place_in_the_order():
    assert {part_of(name) for name in MODULES} == set(ORDER)


def test_no_part_imports_one_that_comes_after_it():
    assert back_edges(edges()) == []


def test_no_modules_import_each_other_in_a_circle():
    assert cycles(edges(registered=False)) == []  # a registry names the members of its package, which may use it


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import updp.core.keys", {"updp.core.keys"}),
        ("from updp.core import keys", {"updp.core.keys"}),
        ("from updp.core.keys import Key", {"updp.core.keys"}),
        ("def late():\n    from updp.pipeline.run import deidentify", {"updp.pipeline.run"}),
        ("class A:\n    b = {'x': 'updp.methods.keep:Keep'}", {"updp.methods.keep"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from updp.core.keys import Key", set()),
        ("import numpy", set()),
    ],
)
def test_an_import_is_seen_wherever_it_stands(code, found):
    assert set(imported(code)) == found


def test_a_back_edge_and_a_circle_are_found():
    graph = {"updp.core.keys": {"updp.cli"}, "updp.cli": {"updp.core.keys"}}
    assert back_edges(graph) == ["updp.core.keys -> updp.cli"]
    assert cycles(graph) == [["updp.cli", "updp.core.keys"]]
