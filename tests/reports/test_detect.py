"""What the detector finds and what it leaves alone: golden tables, the survival list, hostile and odd input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from updp.reports import Detector, scan

_MARK = re.compile(r"\{\{(\w+):(.+?)\}\}")
_GOLDEN = [
    line.replace("\\n", "\n")
    for line in (Path(__file__).parent / "golden.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def _parse(marked: str) -> tuple[str, list[tuple[str, str]]]:
    return _MARK.sub(r"\2", marked), [(m.group(1), m.group(2)) for m in _MARK.finditer(marked)]


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector()


@pytest.mark.parametrize("marked", _GOLDEN)
def test_golden(detector: Detector, marked: str) -> None:
    text, expected = _parse(marked)
    found = [(s.category, text[s.start : s.end]) for s in detector.spans(text)]
    wanted = [(c, t.removeprefix("Dr. ")) for c, t in expected]
    assert found == wanted
