"""The report: verdict first, nothing from elsewhere, no bare number, real films only where they may be."""

import json
import re
from dataclasses import replace

import pytest

from tests.evaluation.fake_probes import Broken, Fixed, PixelLinkage, few, figure, passing
from updp.core.measurement import Measurement
from updp.core.policy import Policy
from updp.core.questions import QUESTIONS
from updp.evaluation.evaluate import evaluate
from updp.evaluation.probes.utility.diagnosis import OTHER
from updp.evaluation.report import (
    BadFrontier,
    changes,
    curve_points,
    read_frontier,
    summary,
    thin_curve,
    verdict_sentence,
)
from updp.release.construction import CHECKED

POINT = {
    "method": "dp-pix",
    "strength": 0.5,
    "linkage": {"value": 0.7, "low": 0.6, "high": 0.8, "n": 40},
    "utility": {"value": 0.8, "low": 0.7, "high": 0.9, "n": 40},
}


def written(made, key, probes, tmp_path, **options):
    hospital, outcome = made
    result = evaluate(outcome.folder, hospital.root, key=key, probes=probes, out=tmp_path / "copy", **options)
    return result, result.report.read_text("utf-8")


def test_the_verdict_comes_before_everything_else(made, key, tmp_path):
    _, page = written(made, key, passing(), tmp_path)
    heads = re.findall(r"<h2>(.*?)</h2>", page)
    assert page.index("Passed the gate") < page.index("What holds") < page.index(heads[0])
    assert heads[:5] == [
        "Privacy and usefulness",
        "What was measured",
        "Finding by finding",
        "Before and after",
        "What was not measured, and why",
    ]


def test_a_privacy_officer_reads_what_does_not_hold_in_words(made, key, tmp_path):
    _, page = written(made, key, [PixelLinkage(), *passing()[1:-1], few("utility")], tmp_path)
    assert "Released films reveal whose they are" in page
    assert "could not be answered; without an answer nothing may leave" in page
    assert page.index("What does not hold") < page.index("What holds")


def test_nothing_is_fetched_from_elsewhere(made, key, tmp_path):
    _, page = written(made, key, [PixelLinkage(), *passing()[1:]], tmp_path)
    assert "@media print" in page  # folded tables are opened on paper
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert not re.search(r"url\((?!#)|@import|<script|<link", page)
    assert "http" not in re.sub(r"data:[^\"]*", "", page)


def test_every_figure_in_the_tables_has_its_interval(made, key, tmp_path):
    result, page = written(made, key, [PixelLinkage(), *passing()[1:]], tmp_path)
    for m in result.measurements:
        assert f"{m.value:.3f}" in page
        assert f"[{m.low:.3f}, {m.high:.3f}]" in page


def test_curves_and_findings_are_drawn_where_measurements_carry_them(made, key, tmp_path):
    _, page = written(made, key, [PixelLinkage(), *passing()[1:]], tmp_path)
    for title in ("Same patient or not", "Attackers with more to learn from", "train released, test real"):
        assert title in page
    assert "Finding the patient among many" not in page
    assert "Pleural Thickening" in page


def test_what_was_not_measured_is_listed_with_its_reason(made, key, tmp_path):
    probes = [*passing()[:-1], Broken("utility", "broken"), few("film")]
    _, page = written(made, key, probes, tmp_path, quick=True)
    tail = page[page.index("What was not measured, and why") :]
    assert "it failed (RuntimeError)" in tail
    assert "too few patients: 3, at least 10 needed" in tail
    assert "pairs of different patients: 10 instead of 100" in tail
    assert "This was a quick evaluation" in page


def test_words_of_a_measurement_are_escaped(made, key, tmp_path):
    odd = Fixed("film", [*passing()[0].found, figure("<script>x</script>", 0.5, 0.4, 0.6)])
    _, page = written(made, key, [odd, *passing()[1:]], tmp_path)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_points_of_a_frontier_stand_beside_the_release(made, key, tmp_path):
    (tmp_path / "frontier.json").write_text(json.dumps({"points": [POINT]}))
    found = read_frontier(tmp_path / "frontier.json")
    result, page = written(made, key, passing(), tmp_path, frontier=found)
    assert "dp-pix 0.5" in page
    assert "this release: keep" in page
    assert result.facts["frontier"] == [POINT]


@pytest.mark.parametrize("text", ["", "[]", '{"points": [{"method": "x"}]}', '{"points": [{"method": 1}]}'])
def test_a_file_that_is_no_frontier_is_refused(tmp_path, text):
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(BadFrontier, match="not a frontier"):
        read_frontier(tmp_path / "f.json")
    with pytest.raises(BadFrontier, match="no such file"):
        read_frontier(tmp_path / "none.json")


def test_curves_come_as_rows_or_columns_and_gaps_are_left_out():
    rows = [[0.0, 0.1], [0.5, 0.6]]
    assert curve_points(rows) == rows
    assert curve_points({"x": [0.0, 0.5], "y": [0.1, 0.6]}) == rows
    assert curve_points([[0.0, None], [1.0, float("nan")]]) == []
    long = [[float(n), 0.0] for n in range(1000)]
    assert thin_curve(long)[0] == long[0]
    assert thin_curve(long)[-1] == long[-1]
    assert len(thin_curve(long)) <= 120


def test_what_a_release_adds_stands_in_the_first_table_and_further_views_below():
    def first(metric):
        return QUESTIONS["utility"].leads(Measurement(metric, 0.1, 0.0, 0.2, 20, 0.0, "higher"))

    assert first("diagnostic skill kept")
    assert first("gain in BLEU-4")
    assert first("findings F1")
    assert not first("BLEU-4")


def test_the_page_leads_with_one_sentence_and_a_row_for_every_question(made, key, tmp_path):
    _, page = written(made, key, passing(), tmp_path)
    assert "may leave: every question of its policy is answered and holds" in page
    assert page.index("may leave:") < page.index("<td><b>The film beyond the record</b>") < page.index("What holds")
    for question in QUESTIONS.values():
        assert f"<b>{question.title}</b>" in page
    assert "0.510 <span" in page
    assert "at most 0.55" in page
    assert page.index("What would change the verdict") < page.index("What holds")
    assert "Usefulness: a policy that asks for more than" in page


def test_the_page_says_what_failed_and_what_would_change_it(made, key, tmp_path):
    _, page = written(made, key, [PixelLinkage(), *passing()[1:]], tmp_path)
    assert "may not leave: the film beyond the record failed." in page
    assert "another method or strength; more patients would not help" in page
    unsure = Fixed("film", [figure("film linkage", 0.51, 0.4, 0.6), passing()[0].found[1]])
    _, page = written(made, key, [unsure, *passing()[1:]], tmp_path)
    assert "more patients, since only the interval reaches beyond the bound" in page


def test_a_proof_by_construction_is_named_in_the_sentence_and_the_row():
    check = {"name": "film", "question": "film", "outcome": "held", "kind": "construction", "detail": "12 of 12 equal"}
    facts = {"counts": {"released": 40}, "gate": {"status": "passed", "checks": [check]}, "tallies": {CHECKED: 12}}
    assert "1 by construction" in verdict_sentence(facts)
    (row,) = summary(facts, Policy(), [])
    assert (row["kind"], row["detail"], row["m"]) == ("by construction", "12 of 12 equal", None)
    assert (row["n"], row["unit"]) == (12, "records")


def test_the_sentence_counts_the_questions_that_do_not_arise():
    def exempt(*names):
        checks = [{"name": n, "question": n, "outcome": "not applicable", "kind": None, "detail": ""} for n in names]
        return verdict_sentence({"counts": {"released": 4}, "gate": {"status": "passed", "checks": checks}})

    assert "one question does not arise: reports." in exempt("text")
    assert "these questions do not arise: training films, reports." in exempt("membership", "text")


def test_a_bound_that_asks_for_nothing_says_so_and_shows_what_the_record_tells():
    check = {
        "name": "record",
        "question": "record",
        "outcome": "held",
        "kind": "measured",
        "detail": "",
        "more_patients": False,
    }
    cell, alone = (
        replace(figure(metric, value, low, 1.0), question="record")
        for metric, value, low in (("smallest cell", 1.0, 1.0), ("alone with their record", 0.71, 0.43))
    )
    facts = {"counts": {"released": 40}, "gate": {"status": "passed", "checks": [check]}}
    (row,) = summary(facts, Policy(), [cell, alone])
    assert row["bound"] == "the policy asks for none"
    assert row["about"] == ["What it shows: alone with their record 0.71 [0.43, 1.00]."]
    assert changes(facts, Policy(), [cell, alone]) == [
        "The record: a policy that asks for more than 1.00. It asks for 0.00."
    ]


def test_the_record_says_what_every_smallest_cell_would_cost():
    check = {"name": "record", "question": "record", "outcome": "held", "kind": "measured", "detail": "see there"}
    cost = {"2": {"films": 4, "share": 0.1}, "5": {"films": 30, "share": 0.75}}
    cell = replace(figure("smallest cell", 1, 1, 1, None, "higher", min_cell=cost), question="record")
    facts = {"counts": {"released": 40}, "gate": {"status": "passed", "checks": [check]}}
    (row,) = summary(facts, Policy(), [cell])
    assert row["about"] == [
        "What min_cell costs: with 2 it keeps back 4 images (10%), with 5 it keeps back 30 images (75%)."
    ]


def test_a_certificate_shows_its_own_figure_beside_the_bound_and_says_on_whom():
    check = {"name": "utility", "question": "utility", "outcome": "held", "kind": "certified", "detail": "see there"}
    skill = replace(figure("diagnostic skill kept", 0.83, 0.75, 0.9, better="higher"), question="utility")
    stated = {"made": "2026-01-02", "cohort": {"films": 1400, "patients": 380}, "measurements": [skill.to_json()]}
    facts = {
        "counts": {"released": 40}, "gate": {"status": "passed", "checks": [check]},
        "certificates": [{"certificate": stated}], "unlike_the_cohort": ["views AP: 5 % of this release"],
    }  # fmt: skip
    (row,) = summary(facts, Policy(), [])
    assert (row["kind"], row["m"].value, row["n"]) == ("by certificate", 0.83, skill.n)
    assert row["bound"] == "lower end at least 0.70"
    assert "1400 films of 380 other patients" in row["about"][0]
    assert row["about"][1] == "Unlike that cohort: views AP: 5 % of this release."

    other = figure("skill kept", 0.52, 0.31, 0.75, better="higher")
    other = replace(other, question="utility", protocol=OTHER, regime="train released, test real")
    skill = replace(skill, detail={**skill.detail, "judges_start_from": "EfficientNet-Lite0 of ImageNet"})
    stated["measurements"] = [skill.to_json(), other.to_json()]
    (row,) = summary(facts, Policy(), [])
    assert (row["m"].value, row["bound"]) == (0.83, "lower end at least 0.70")  # the bound is on the first judges
    assert "judges that start from EfficientNet-Lite0 of ImageNet" in row["about"][0]
    assert "judges through VGG16" in row["about"][0]
    assert "0.52 [0.31, 0.75]" in row["about"][0]
