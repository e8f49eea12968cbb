"""Imports point one way: a part of the package uses only those before it in ``ORDER`` of ``docs/import_graph.py``."""

from __future__ import annotations

import pytest

from docs.import_graph import MODULES, ORDER, edges, imported, part_edges, part_of, reduced


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


def test_a_member_named_in_a_table_is_an_import():
    assert "updp.methods.privdiff.training" in edges()["updp.methods"]
    assert "updp.methods.privdiff.training" not in edges(registered=False)["updp.methods"]


def test_a_back_edge_and_a_circle_are_found():
    graph = {"updp.core.keys": {"updp.cli"}, "updp.cli": {"updp.core.keys"}}
    assert back_edges(graph) == ["updp.core.keys -> updp.cli"]
    assert cycles(graph) == [["updp.cli", "updp.core.keys"]]


def test_a_drawing_leaves_out_only_what_follows_from_other_edges():
    graph = {"a": set(), "b": {"a"}, "c": {"a", "b"}}
    assert reduced(graph) == {"a": set(), "b": {"a"}, "c": {"b"}}
    assert set(part_edges()) == set(ORDER)
