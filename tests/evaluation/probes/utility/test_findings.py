"""The F1 that hears a negation."""

from __future__ import annotations

import pytest

from updp.evaluation.probes.utility.findings import findings_counts, findings_f1


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
