"""Tests mirror the package: a file of tests is named after the module, or the part, that it tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "updp"
#: Tests of a behaviour that no single module has, and what it is.
WHOLE = {
    "test_deploy.py": "the files of a service",
    "test_docs.py": "the documentation",
    "test_extensions.py": "members that other packages add",
    "test_imports.py": "the import graph",
    "test_layout.py": "this rule",
    "test_platforms.py": "what other systems than POSIX need",
    "pipeline/engines/test_cluster.py": "runs on a Ray cluster",
    "pipeline/test_byte_identity.py": "the bytes of a release",
    "release/test_croissant.py": "a release as a receiver reads it",
    "release/test_forgeries.py": "kinds of forgery, by the whole check of a receiver",
    "release/test_loaders.py": "a release as a receiver reads it",
    "reports/test_classes.py": "classes of identifiers, by the whole detector",
    "reports/test_linear.py": "the cost of long reports, by the whole detector",
    "reports/test_training.py": "a detector trained on made-up text",
    "review/test_browser.py": "the review pages in a browser",
    "sources/test_layouts.py": "every layout, by the same tests",
    "sources/test_realdata.py": "public data sets",
}


def mirrors(test: Path) -> bool:
    """Whether a test file names a module or a package at its place, or the package it lies in."""
    place, name = PACKAGE / test.parent, test.stem.removeprefix("test_")
    return (place / f"{name}.py").is_file() or (place / name).is_dir() or name == test.parent.name


def test_every_test_file_is_named_after_what_it_tests():
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    assert sorted(str(path) for path in files if not mirrors(path) and str(path) not in WHOLE) == []


def test_the_list_of_tests_of_the_whole_names_files_that_exist_and_mirror_nothing():
    assert [name for name in WHOLE if not (TESTS / name).is_file() or mirrors(Path(name))] == []


def test_every_place_of_the_architecture_page_exists():
    text = (TESTS.parent / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("| ") and "`" in line]
    places = [place for row in rows for place in re.findall(r"`([^`]+)`", row)]
    assert len(places) > 30
    assert [place for place in places if not (PACKAGE / place).exists()] == []


def test_a_file_at_another_place_is_found_out():
    assert mirrors(Path("core/test_keys.py"))
    assert mirrors(Path("domains/test_domains.py"))
    assert not mirrors(Path("core/test_generator.py"))
