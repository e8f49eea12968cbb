"""CelebA: the list of identities, the official split, and bad lines."""

from __future__ import annotations

import pytest
from PIL import Image

from updp.core.reasons import Reason
from updp.core.record import Study
from updp.sources import BadSource, Refusal, open_source, recognise


@pytest.fixture
def celeba(tmp_path):
    (tmp_path / "img_align_celeba").mkdir()
    for n in (1, 2, 3):
        Image.radial_gradient("L").convert("RGB").save(tmp_path / "img_align_celeba" / f"{n:06d}.jpg")
    (tmp_path / "identity_CelebA.txt").write_text(
        "000001.jpg 2880\n000002.jpg 2937\n000003.jpg 2880\n000009.jpg 1\nnothing\n000001.jpg many\n"
    )
    (tmp_path / "list_eval_partition.txt").write_text("000001.jpg 0\n000002.jpg 2\n000003.jpg 0\n")
    (tmp_path / "list_attr_celeba.txt").write_text(
        "3\nBald Male Young\n000001.jpg -1 1 1\n000002.jpg -1 -1 1\n000003.jpg -1 1 1\n"
    )
    return tmp_path


def test_people_splits_and_sex_come_from_the_lists(celeba):
    assert recognise(celeba) == ["celeba"]
    source = open_source(celeba)
    assert source.domain.name == "face"
    rows = list(source)
    photographs = [row for row in rows if isinstance(row, Study)]
    assert [(row.film_id, row.patient_id, row.split, row.sex) for row in photographs] == [
        ("000001", "2880", "train", "M"),
        ("000002", "2937", "test", "F"),
        ("000003", "2880", "train", "M"),
    ]
    refused = [row.reason for row in rows if isinstance(row, Refusal)]
    assert refused == [Reason.IMAGE_MISSING, Reason.ROW_UNREADABLE, Reason.ROW_UNREADABLE]


def test_a_list_of_another_kind_is_no_celeba(celeba):
    (celeba / "identity_CelebA.txt").write_text("one two three\n")
    with pytest.raises(BadSource, match="a file name and a number"):
        open_source(celeba)
