"""The two public data sets themselves: counts, splits and labels as their authors publish them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from updp.core.record import Study
from updp.sources import open_source

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif("UPDP_DATA" not in os.environ, reason="UPDP_DATA names no data folder"),
]
DATA = Path(os.environ.get("UPDP_DATA", "."))


def test_every_chestxray14_film_is_found_and_some_open():
    source = open_source(DATA / "chestxray14")
    rows = list(source)
    assert all(isinstance(row, Study) for row in rows)
    assert len(rows) == 4999
    assert len({row.patient_id for row in rows}) == 1335
    assert Counter(row.view for row in rows) == {"PA": 3290, "AP": 1709}
    for row in rows[::1000]:
        assert min(source.load(row).pixels.shape) == 256


def test_every_iu_xray_film_has_its_report_and_split():
    source = open_source(DATA / "iu_xray")
    rows = list(source)
    assert Counter(row.split for row in rows) == {"train": 2043, "val": 288}
    assert len({row.patient_id for row in rows}) == 2331
    assert all(row.report for row in rows)
    for row in rows[::500]:
        assert min(source.load(row).pixels.shape) == 256
