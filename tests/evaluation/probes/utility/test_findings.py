"""Findings as reports state or deny them, and the F1 that hears a negation."""

from __future__ import annotations

import pytest

from updp.evaluation.probes.utility.findings import (
    findings,
    findings_counts,
    findings_f1,
    sentences,
)


def said(report: str) -> set[str]:
    return {("" if f.present else "no ") + f.name for f in findings(report)}


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ("Pleural effusion.", {"pleural effusion"}),
        ("No pleural effusion.", {"no pleural effusion"}),
        ("There are small bilateral effusions.", {"pleural effusion"}),
        (
            "No focal consolidation, pleural effusion or pneumothorax.",
            {"no consolidation", "no pleural effusion", "no pneumothorax"},
        ),
        ("No pneumothorax, but there is a small effusion.", {"no pneumothorax", "pleural effusion"}),
        ("Effusion without pneumothorax.", {"pleural effusion", "no pneumothorax"}),
        ("Pneumothorax is not seen.", {"no pneumothorax"}),
        ("The previously noted effusion has resolved.", {"no pleural effusion"}),
        ("No significant change in the right effusion.", {"pleural effusion"}),
        ("Pneumonia cannot be excluded.", {"pneumonia"}),
        ("The lungs are free of infiltrates.", {"no infiltrate"}),
        ("Negative for pneumothorax or large effusion.", {"no pneumothorax", "no pleural effusion"}),
        ("Neither mass nor nodule.", {"no mass", "no nodule"}),
        ("Aside from atelectasis, no consolidation.", {"atelectasis", "no consolidation"}),
        ("No effusion except for blunting of the left angle.", {"no pleural effusion", "blunting"}),
        ("Left effusion. No right effusion.", {"pleural effusion", "no pleural effusion"}),
        ("The heart is mildly enlarged.", {"cardiomegaly"}),
        ("The heart is not enlarged.", {"no cardiomegaly"}),
        ("Heart size and mediastinal contours are normal.", {"no cardiomegaly"}),
        ("Enlarged cardiac silhouette.", {"cardiomegaly"}),
        ("A 1.5 cm nodule. No mass.", {"nodule", "no mass"}),
        ("Pericardial effusion.", {"pericardial effusion"}),
        ("Fever and cough. Normal study.", set()),
        ("Nodules of unknown origin; notable masses.", {"nodule", "mass"}),
        ("no pleural effusion . small nodule .", {"no pleural effusion", "nodule"}),
        ("No effusion.Minimal scarring", {"no pleural effusion", "scar"}),
        ("", set()),
    ],
)
def test_reports_are_read_with_their_negations(report, expected):
    assert said(report) == expected


def test_sentences_end_at_stops_but_not_inside_numbers():
    assert sentences("A 1.5 cm nodule. No mass; stable!\n\nImpression") == [
        "A 1.5 cm nodule",
        "No mass",
        "stable",
        "Impression",
    ]
    assert sentences("Unchanged since 2010. No mass. Size 3.") == ["Unchanged since 2010", "No mass", "Size 3"]


def many(references: list[str], hypotheses: list[str], times: int = 12):
    patients = [f"p{i}" for i in range(times * len(references))]
    return references * times, hypotheses * times, patients


def test_a_flipped_negation_scores_zero():
    m = findings_f1(*many(["Pleural effusion."], ["No pleural effusion."]), seed=0)
    assert (m.value, m.low, m.high) == (0, 0, 0)


def test_the_same_findings_in_other_words_score_one():
    reference = "There is a small pleural effusion. No pneumothorax."
    m = findings_f1(*many([reference], ["Without pneumothorax; small effusions."]), seed=0)
    assert m.value == 1


def test_counts_precision_and_recall_by_hand():
    reference = "Effusion and atelectasis. No pneumothorax."
    hypothesis = "Effusion. Pneumothorax. No mass."
    assert findings_counts([reference], [hypothesis]).tolist() == [[1, 3, 3]]
    m = findings_f1(*many([reference], [hypothesis]), seed=0)
    assert m.value == pytest.approx(1 / 3)
    assert (m.detail["precision"], m.detail["recall"]) == pytest.approx((1 / 3, 1 / 3))


def test_empty_hypotheses_score_zero_and_reports_without_findings_are_not_measured():
    assert findings_f1(*many(["No effusion."], [""]), seed=0).value == 0
    nothing = findings_f1(*many(["Normal study."], ["Unremarkable."]), seed=0)
    assert nothing.reason == "no report mentions a finding"


def test_few_patients_are_an_outcome_and_empty_references_an_error():
    few = findings_f1(["No effusion."], ["Effusion."], ["p"], seed=0)
    assert "too few patients: 1" in few.reason
    with pytest.raises(ValueError, match="1 of 2 are empty"):
        findings_f1(["No effusion.", ""], ["a", "b"], ["p", "q"], seed=0)
