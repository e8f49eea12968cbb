"""A study's ids: what looks the same is the same person."""

from __future__ import annotations

import pytest

from updp.core.keys import Key
from updp.core.record import Study

KEY = Key(b"k" * 32)


@pytest.mark.parametrize(
    "other",
    ["Mu\u0308ller-1", "M\u00fcller-1\u200b", "\ufeffM\u00fcller-1", "M\u00fcl\u00adler-1", "M\u00fcller-1\u00a0"],
)
def test_ids_that_look_the_same_are_one_patient(other: str) -> None:
    one, two = (Study("film", "study", name).patient_id for name in ("M\u00fcller-1", other))
    assert (KEY.patient(one), KEY.shift(one), KEY.split(one)) == (KEY.patient(two), KEY.shift(two), KEY.split(two))


def test_ids_that_look_different_stay_different() -> None:
    ids = ["M\u00fcller-1", "Muller-1", "m\u00fcller-1", "M\u00fcller-01", "M\u00fcller 1"]
    assert len({Study("film", "study", name).patient_id for name in ids}) == len(ids)
