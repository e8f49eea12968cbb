"""Canary sweeps for tests: assert that strings which must not leave are nowhere under a folder, or in a text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from updp.virtual.canaries import Hit, Net, sweep

__all__ = ["Hit", "Net", "assert_none_in_text", "assert_none_under", "sweep"]


def assert_none_under(folder: Path, canaries: Iterable[str]) -> None:
    """No file, file name or decoded content under ``folder`` holds a canary."""
    strings = list(canaries)
    assert strings, "a sweep for nothing proves nothing"
    hits = sweep(folder, strings)
    assert not hits, "found: " + "; ".join(f"{hit.canary!r} in {hit.file}" for hit in hits[:20])


def assert_none_in_text(text: str, canaries: Iterable[str]) -> None:
    """A log or a console output holds no canary."""
    strings = list(canaries)
    assert strings, "a sweep for nothing proves nothing"
    found = Net(strings).text(text)
    assert not found, f"found: {sorted(found)[:20]}"
