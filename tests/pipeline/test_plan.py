"""`updp plan`: what a run would do."""

from __future__ import annotations

import pytest

from tests.conftest import CANARIES, Hospital
from updp.core.policy import Policy
from updp.pipeline.plan import plan


@pytest.fixture
def planned(tmp_path, policy):
    hospital = Hospital(tmp_path / "export", films=14)
    for n, row in enumerate(hospital.rows):
        row["labels"] = "COVID-19|Effusion" if n < 12 else "Quibblesworth"
        row["view"] = "PA" if n % 2 else ""
    hospital.add(20, image="nowhere.png")
    hospital.add(21, view="LATERAL")
    (tmp_path / "export" / hospital.rows[0]["image"]).write_bytes(b"")
    hospital.rows[1]["findings"] = "Die Lunge ist frei. Kein Erguss, keine Stauung, das Herz ist nicht vergrößert."
    return plan(hospital.write(), policy)


def test_films_patients_labels_and_reports_are_counted(planned):
    assert (planned.layout, planned.domain, planned.method) == ("manifest", "chest", "keep")
    assert (planned.films, planned.skipped, planned.patients) == (15, 1, 7)
    assert sum(planned.splits.values()) == 7
    assert planned.views == {"not stated": 7, "PA": 7}
    assert planned.labels == {"Effusion": 12}
    assert planned.reports == 14


def test_a_label_nobody_knows_is_shown_only_where_patients_share_it(planned):
    assert planned.unknown_labels == {"COVID-19": 12}
    assert planned.unknown_rare == 2
    assert not any(word in repr(planned) for word in CANARIES)


def test_what_will_be_kept_back_is_told_with_its_reason(planned):
    assert planned.refused == {"image-missing": 1}
    assert planned.refused_looked["read/image-empty"] >= 1
    assert planned.languages == {"en": 12, "de": 1}


def test_time_and_disk_come_from_films_that_were_made(planned):
    assert planned.timed == 3
    assert planned.seconds_per_film > 0
    assert planned.seconds == pytest.approx(planned.seconds_per_film * 14 / planned.workers)
    assert planned.bytes > 1000


def test_the_plan_says_which_questions_the_gate_can_answer(planned):
    answers = {answer.question: answer for answer in planned.answers}
    assert answers["membership"].can  # the method learned from nothing
    assert "second detector" in answers["text"].why
    assert not answers["film"].can
    assert "about" in answers["film"].why


def test_a_method_that_reads_no_pixels_answers_by_construction(tmp_path):
    policy = Policy.parse("[burned_in]\nmode = 'off'\n[method]\nname = 'updp'\nstrength = 1.0\n")
    hospital = Hospital(tmp_path / "export", films=1)
    (hospital.root / hospital.rows[0]["image"]).write_bytes(b"")  # no film is made: this is about the answers
    answers = {answer.question: answer for answer in plan(hospital.write(), policy).answers}
    assert answers["film"].can
    assert "by construction" in answers["film"].why


def test_an_empty_source_has_a_plan_too(tmp_path, policy):
    hospital = Hospital(tmp_path / "export", films=1)
    hospital.rows[0]["image"] = "gone.png"
    made = plan(hospital.write(), policy)
    assert (made.films, made.patients, made.seconds_per_film, made.bytes) == (1, 0, None, None)
