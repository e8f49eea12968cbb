"""One folder per person, as LFW has it."""

from __future__ import annotations

import pytest
from PIL import Image

from updp.core.reasons import Reason
from updp.core.record import Study
from updp.sources import BadSource, Refusal, open_source, recognise


def photo(path, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.radial_gradient("L").convert(mode).save(path)


@pytest.fixture
def lfw(tmp_path):
    for name, count in (("Ann_Example", 2), ("Bo_Example", 1)):
        for n in range(1, count + 1):
            photo(tmp_path / "lfw" / name / f"{name}_{n:04d}.jpg")
    (tmp_path / "lfw" / "pairs.txt").write_text("10\t300\n")
    return tmp_path / "lfw"


def test_a_folder_per_person_is_recognised_as_faces(lfw):
    assert recognise(lfw) == ["people"]
    source = open_source(lfw)
    assert source.domain.name == "face"
    rows = list(source)
    assert [row.patient_id for row in rows] == ["Ann_Example", "Ann_Example", "Bo_Example"]
    assert rows[0].film_id == "Ann_Example/Ann_Example_0001.jpg"
    assert all(row.labels is None and row.split is None for row in rows)


@pytest.mark.posix
def test_a_link_that_leads_out_is_refused(lfw, tmp_path):
    photo(tmp_path / "outside.jpg")
    (lfw / "Bo_Example" / "Bo_Example_0002.jpg").symlink_to(tmp_path / "outside.jpg")
    rows = list(open_source(lfw))
    assert [row.reason for row in rows if isinstance(row, Refusal)] == [Reason.PATH_UNSAFE]
    assert sum(isinstance(row, Study) for row in rows) == 3


def test_grey_films_in_folders_are_not_taken_for_faces(tmp_path):
    for n in range(3):
        photo(tmp_path / "films" / f"p{n}" / "film.png", "L")
    with pytest.raises(BadSource, match="no known layout"):
        open_source(tmp_path / "films")


def test_folders_beside_a_table_are_not_people(lfw):
    (lfw / "manifest.csv").write_text("film_id,patient_id,image\n1,1,Bo_Example/Bo_Example_0001.jpg\n")
    assert recognise(lfw) == ["manifest"]
