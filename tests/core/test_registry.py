"""Registries: one line for a member of ours, an entry point for a plug-in, and errors that say what there is."""

from __future__ import annotations

import logging

import pytest

from updp.core.registry import Registry, UnknownName, unknown


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """Install a package `fishing` with entry points, without installing anything."""
    info = tmp_path / "fishing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fishing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[test.numbers]\ntrout = fishing_good:TROUT\nbroken = fishing_bad:NOTHING\none = fishing_good:TROUT\n"
    )
    (tmp_path / "fishing_good.py").write_text("TROUT = 7\n")
    (tmp_path / "fishing_bad.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)


def numbers() -> Registry[int]:
    return Registry("number", "test.numbers", {"one": 1, "zero": "updp.core.reasons:dataclass"})


def test_a_member_is_named_before_it_is_imported():
    registry = Registry("number", "test.none", {"absent": "a_package_that_is_not_there:X"})
    assert list(registry) == ["absent"]
    assert registry.module_of("absent") == "a_package_that_is_not_there"
    with pytest.raises(ModuleNotFoundError):
        registry["absent"]


def test_an_unknown_name_is_refused_with_the_nearest_and_all_there_are():
    with pytest.raises(UnknownName, match=r"no number 'onne'; did you mean 'one'\? there are: one, zero"):
        numbers()["onne"]
    with pytest.raises(UnknownName, match="no number 'xyz'; there are: one, zero"):
        numbers().module_of("xyz")
    assert unknown("number", "one", ()) == "no number 'one'; there are: none"


@pytest.mark.usefixtures("plugins")
def test_an_entry_point_adds_a_member():
    registry = numbers()
    assert registry["trout"] == 7
    assert list(registry) == ["one", "zero", "broken", "trout"]
    assert len(registry) == 4


@pytest.mark.usefixtures("plugins")
def test_a_plug_in_that_fails_to_import_is_reported_by_name_and_stops_nobody(caplog):
    registry = numbers()
    with caplog.at_level(logging.WARNING, "updp"):
        assert [name for name, _ in registry.members()] == ["one", "zero", "trout"]
        assert [name for name, _ in registry.members()] == ["one", "zero", "trout"]
    said = [line for line in caplog.messages if "'broken' of package fishing" in line]
    assert len(said) == 1
    assert "a_package_that_is_not_there" in said[0]
    with pytest.raises(UnknownName, match="'broken' of package fishing cannot be imported"):
        registry["broken"]


@pytest.mark.usefixtures("plugins")
def test_a_plug_in_cannot_take_the_name_of_a_member(caplog):
    with caplog.at_level(logging.WARNING, "updp"):
        assert numbers()["one"] == 1
        list(numbers())
    assert any("'one' of package fishing has a name in use" in line for line in caplog.messages)


def test_a_member_is_added_once_and_taken_out_again():
    registry = numbers()
    registry.add("two", 2)
    assert registry["two"] == 2
    with pytest.raises(UnknownName, match="already"):
        registry.add("two", 3)
    registry.remove("two")
    assert "two" not in registry
