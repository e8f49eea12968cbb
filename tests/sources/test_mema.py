"""MeMa: one folder per disease."""

from __future__ import annotations

import pytest
from PIL import Image

from updp.sources import open_source, recognise


@pytest.mark.parametrize("splits", [("train", "val", "test"), ("",)])
def test_the_folder_gives_the_label_and_every_image_is_a_patient(tmp_path, splits):
    for split in splits:
        for disease in ("BCC", "Conj", "Normal", "Strab"):
            folder = tmp_path / split / disease
            folder.mkdir(parents=True)
            Image.radial_gradient("L").convert("RGB").save(folder / "0.png")
    assert recognise(tmp_path) == ["mema"]
    rows = list(open_source(tmp_path))
    assert len(rows) == len({row.patient_id for row in rows}) == 4 * len(splits)
    assert [row.labels for row in rows[:4]] == [("BCC",), ("Conjunctivitis",), (), ("Strabismus",)]
    assert {row.split for row in rows} == {split or None for split in splits}
