"""`updp init`: what the columns of a table may mean."""

from __future__ import annotations

import pytest

from tests.sources.exports import CANARY, write_film
from tests.sources.test_mapping import SETS, own, table, vindr_test, vindr_train
from updp.core.policy import Policy
from updp.sources import BadSource, open_source
from updp.sources.guess import as_toml, guess
from updp.sources.mapping import BESIDE


def test_columns_are_guessed_by_name_and_by_value(tmp_path):
    write_film(tmp_path / "bilder" / "a.png")
    table(
        tmp_path / "export.csv",
        "Patienten-Nr;Nachname;Geb.-Datum;Geschlecht;Pfad;Befund;Effusion;Edema;Bemerkung",
        rf"4711;{CANARY};01.02.1950;F;bilder\a.png;Lungs are clear.;1;0;",
        rf"4712;{CANARY};01.02.1950;M;bilder\a.png;Lungs are clear.;0;0;x",
    )
    found = guess(tmp_path)
    assert found.missing == ()
    assert found.mapping.columns == {
        "labels": ("Effusion", "Edema"), "patient_id": "Patienten-Nr", "patient_name": "Nachname",
        "birth_date": "Geb.-Datum", "sex": "Geschlecht", "image": "Pfad", "findings": "Befund",
    }  # fmt: skip
    looks = {column.name: (column.kind, column.filled, column.taken_as) for column in found.columns}
    assert looks["Pfad"] == ("file", 1.0, "image")
    assert looks["Geb.-Datum"][0] == "date"
    assert looks["Bemerkung"] == ("text", 0.5, "")
    assert CANARY not in repr(found)
    assert CANARY not in as_toml(found)


def test_films_named_without_folder_and_suffix_are_found(tmp_path):
    for name in ("x1", "x2"):
        write_film(tmp_path / "films" / f"{name}.png")
    table(tmp_path / "t.csv", "SubjectID,ImageIndex,Sex", "p1,x1,F", "p2,x2,M")
    assert guess(tmp_path).mapping.columns["image"] == "films/{ImageIndex}.png"


def test_what_is_written_makes_the_source_readable(tmp_path):
    write_film(tmp_path / "films" / "x1.png")
    table(tmp_path / "t.csv", "Subject,ImageIndex,Sex", "p1,x1,F")
    with pytest.raises(BadSource):
        open_source(tmp_path)
    (tmp_path / BESIDE).write_text(as_toml(guess(tmp_path)), "utf-8")
    (study,) = open_source(tmp_path)
    assert (study.patient_id, study.sex) == ("p1", "F")


def test_what_was_not_found_is_said(tmp_path):
    found = guess(table(tmp_path / "t.csv", "a,b", "1,2"))
    assert found.missing == ("patient_id", "image")
    assert "patient_id was not found" in as_toml(found)
    assert Policy.parse(as_toml(found)).source.table == "t.csv"


@pytest.mark.parametrize("name", SETS)
def test_public_sets_get_the_mapping_that_ships(tmp_path, name):
    SETS[name][0](tmp_path)
    found = guess(tmp_path)
    assert found.shipped == name
    assert Policy.parse(as_toml(found)).source == found.mapping
    assert any("patient_id" in column.taken_as for column in found.columns)


def test_a_choice_between_two_is_the_users(tmp_path):
    vindr_train(tmp_path)
    vindr_test(tmp_path)
    with pytest.raises(BadSource, match="--mapping NAME"):
        guess(tmp_path)
    assert guess(tmp_path, "vindr-cxr-test").mapping.table == "annotations/image_labels_test.csv"
    with pytest.raises(BadSource, match="no mapping 'vindr'"):
        guess(tmp_path, "vindr")
    with pytest.raises(BadSource, match="not in this folder"):
        guess(tmp_path, "padchest")


def test_no_table_and_several_tables_are_told(tmp_path):
    with pytest.raises(BadSource, match="no table"):
        guess(tmp_path)
    own(tmp_path)
    table(tmp_path / "other.csv", "a,b", "1,2")
    with pytest.raises(BadSource, match="2 tables"):
        guess(tmp_path)
