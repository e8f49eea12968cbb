"""Measurements: what they say, what they refuse, and how many patients a bound needs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from updp.core.measurement import Measurement, patients_needed
from updp.evaluation.linkage import identification, seldom

pytestmark = pytest.mark.numeric


def example(**changes) -> Measurement:
    fields = {"value": 0.62, "low": 0.55, "high": 0.7, "n": 40, "chance": 0.5, "better": "closer to chance"}
    return Measurement("verification AUC", **{**fields, **changes})


def test_text_shows_interval_sample_and_chance():
    text = str(example(attacker="A2 siamese"))
    assert text == "verification AUC (A2 siamese): 0.620 [0.550, 0.700], n = 40 patients, chance 0.500"


def test_text_says_so_where_there_is_no_chance_level():
    assert "no chance level" in str(example(chance=None, better="higher"))


def test_json_round_trip_keeps_everything():
    m = example(attacker="A1", seed=7, detail={"rows": 120, "curve": np.arange(3), "nested": {"k": (1, 2)}})
    again = Measurement.from_json(json.loads(json.dumps(m.to_json(), allow_nan=False)))
    assert again.to_json() == m.to_json()
    assert again.detail["curve"] == [0, 1, 2]


def test_what_was_not_measured_survives_json_without_nan():
    m = Measurement.missing("rank-1", "no gallery", better="lower")
    again = Measurement.from_json(json.loads(json.dumps(m.to_json(), allow_nan=False)))
    assert not again.measured
    assert str(again) == "rank-1: not measured, no gallery"
    assert not again.covers(0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"better": "bigger"}, "better is one of"),
        ({"low": 0.8}, "ends in the wrong order"),
        ({"value": math.nan}, "must be finite"),
        ({"high": math.inf}, "must be finite"),
        ({"n": -1}, "n is -1"),
        ({"chance": None}, "needs a chance level"),
    ],
)
def test_a_measurement_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        example(**changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("low"), "low missing"),
        (lambda d: d.update(extra=1), "unknown extra"),
        (lambda d: d.update(n="many"), "n must be a whole number"),
    ],
)
def test_json_that_is_no_measurement_is_refused(change, message):
    data = example().to_json()
    change(data)
    with pytest.raises(ValueError, match=message):
        Measurement.from_json(data)


def test_detail_cannot_be_changed_afterwards():
    given = {"rows": 1}
    m = example(detail=given)
    given["rows"] = 2
    assert m.detail["rows"] == 1
    with pytest.raises(TypeError):
        m.detail["rows"] = 3


def test_patients_needed_grows_with_the_square():
    m = example(value=0.6, low=0.5, high=0.7, n=50)
    assert patients_needed(m, width=0.1) == 200
    assert patients_needed(m, below=0.65) == 200
    assert patients_needed(m, above=0.58) == 1250
    assert patients_needed(m, width=0.3) == 50


def test_no_number_of_patients_moves_the_value_itself():
    assert patients_needed(example(value=0.6, high=0.7), below=0.55) is None


@pytest.mark.parametrize("below", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("n", [12, 60, 250])
def test_patients_needed_for_a_rate_of_zero_are_those_of_its_exact_bound(n, below):
    none = np.zeros(n, dtype=int)
    m = identification("naming", none, none + 1, np.arange(n), seed=0, classes=20, draws=20)
    need = patients_needed(m, below=below)
    if m.high <= below:
        assert need == n
        return
    none = np.zeros(need, dtype=int)
    assert identification("naming", none, none + 1, np.arange(need), seed=0, classes=20, draws=20).high <= below
    assert 1 - 0.05 ** (1 / (need - 1)) > below


def test_residual_phi_of_one_per_cent_takes_three_hundred_patients():
    m = seldom(Measurement("residual PHI", 0, 0, 0, 60, 0.0, "lower"))
    assert patients_needed(m, below=0.01) == 299


def test_a_value_too_near_its_bound_asks_for_no_number():
    near = example(value=0.549, low=0.45, high=0.65, n=60)
    assert patients_needed(near, below=0.55) is None
    assert patients_needed(near, above=0.548) is None
    assert patients_needed(near, below=0.56) <= 100 * near.n
    assert patients_needed(near, width=0.002) == pytest.approx(600_000, abs=1)  # a width is asked for, not read off


def test_patients_needed_without_a_figure_assumes_the_worst_case():
    missing = Measurement.missing("rank-1", "too few patients", n=1)
    assert patients_needed(missing, width=0.1) == 385
    assert patients_needed(missing, below=0.6) is None
    with pytest.raises(ValueError, match="exactly one"):
        patients_needed(missing)
