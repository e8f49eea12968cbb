"""The gate: bounds on the far end of an interval, three verdicts, and what is said of each."""

import re

import pytest

from updp.core.measurement import Measurement
from updp.core.policy import GatePolicy
from updp.release.gate import BOUNDS, MEASUREMENTS, judge


def figure(name, value, low, high, chance=0.5, n=100, better="lower", **detail):
    return Measurement(name, value, low, high, n, chance, better, "an attacker", 0, detail)


GOOD = {
    "linkage": [figure("strongest linkage", 0.52, 0.50, 0.57)],
    "identification": [figure("identification accuracy retrained", 0.05, 0.02, 0.09, chance=0.05)],
    "attributes": [
        figure("sex accuracy retrained", 0.55, 0.50, 0.60),
        figure("age accuracy frozen", 0.3, 0.2, 0.35, chance=0.3),
    ],
    "membership": [figure("strongest membership", 0.50, 0.45, 0.55)],
    "text": [figure("residual PHI", 0.0, 0.0, 0.0, chance=None)],
    "utility": [figure("diagnosis utility", 0.95, 0.90, 0.99, chance=None, better="higher")],
}
BAD = {
    "linkage": figure("strongest linkage", 0.80, 0.75, 0.85),
    "identification": figure("identification accuracy retrained", 0.60, 0.50, 0.70, chance=0.05),
    "attributes": figure("sex accuracy retrained", 0.9, 0.85, 0.95),
    "membership": figure("strongest membership", 0.9, 0.85, 0.95),
    "text": figure("residual PHI", 0.1, 0.05, 0.2, chance=None),
    "utility": figure("diagnosis utility", 0.6, 0.5, 0.7, chance=None, better="higher"),
}


def verdict(policy=None, **changes):
    facts = {"released": 10, "quarantined": 0, "disjoint": True, "evidence": GOOD} | changes
    return judge(policy or GatePolicy(), **facts)


def check(result, name):
    return next(c for c in result.checks if c.name == name)


def test_every_question_has_a_bound():
    assert BOUNDS.keys() == MEASUREMENTS.keys() == GOOD.keys() == BAD.keys()
    assert all(bound.limit in GatePolicy.model_fields for bound in BOUNDS.values())


def test_a_release_passes_only_when_everything_was_measured_and_holds():
    assert verdict().status == "passed"


@pytest.mark.parametrize("name", list(MEASUREMENTS))
def test_one_failed_measurement_blocks_even_beside_a_good_one(name):
    result = verdict(evidence=GOOD | {name: [*GOOD[name], BAD[name]]})
    assert result.status == "blocked"
    assert check(result, name).held is False
    assert "more patients would not change that" in check(result, name).detail


@pytest.mark.parametrize("name", list(MEASUREMENTS))
def test_one_missing_measurement_is_never_a_pass(name):
    missing = {k: v for k, v in GOOD.items() if k != name}
    assert verdict(evidence=missing).status == "not-measured"
    assert verdict(GatePolicy(require_evidence=True), evidence=missing).status == "blocked"
    assert check(verdict(evidence=missing), name).detail.startswith("not measured")


@pytest.mark.parametrize("name", list(MEASUREMENTS))
def test_a_question_asked_and_not_answered_blocks_and_says_why(name):
    names = BOUNDS[name].names
    few = Measurement.missing(names[0], "too few patients: 4, at least 10 needed", detail={"patients_needed": 10})
    result = verdict(evidence=GOOD | {name: [few]})
    assert result.status == "blocked"
    assert "too few patients: 4, at least 10 needed" in check(result, name).detail


def test_an_attack_that_failed_blocks_although_its_measurements_have_no_name():
    failed = Measurement.missing("verification", "the attack failed (RuntimeError)")
    assert verdict(evidence=GOOD | {"linkage": [failed]}).status == "blocked"
    other = figure("verification AUC", 0.5, 0.4, 0.6)
    result = verdict(evidence=GOOD | {"linkage": [other]})
    assert "no attack or measure answered it" in check(result, "linkage").detail


def test_nothing_measured_is_said_of_every_measurement():
    result = verdict(evidence=None)
    assert result.status == "not-measured"
    assert [c.name for c in result.checks if c.held is None] == list(MEASUREMENTS)


@pytest.mark.parametrize(
    ("name", "unsure", "needed"),
    [
        # The value is right, the interval is too wide: (0.15 / 0.05)^2 times as many patients.
        ("linkage", figure("strongest linkage", 0.55, 0.50, 0.70, n=20), 180),
        ("utility", figure("diagnosis utility", 0.95, 0.75, 1.0, n=20, better="higher", chance=None), 80),
        ("identification", figure("identification", 0.10, 0.0, 0.25, n=20, chance=0.05), 180),
    ],
)
def test_too_few_patients_to_be_sure_blocks_and_says_how_many_would_do(name, unsure, needed):
    result = verdict(evidence=GOOD | {name: [unsure]})
    assert result.status == "blocked"
    told = re.search(r"about (\d+) would do", check(result, name).detail)
    assert int(told.group(1)) == pytest.approx(needed, abs=1)


def test_a_value_too_near_its_bound_blocks_and_names_no_number():
    near = figure("strongest linkage", 0.5999, 0.50, 0.70, n=20)
    detail = check(verdict(evidence=GOOD | {"linkage": [near]}), "linkage").detail
    assert "too near" in detail
    assert "about" not in detail


def test_identification_and_attributes_are_bounded_above_their_own_chance():
    frequent = figure("identification", 0.50, 0.45, 0.58, chance=0.5)
    assert verdict(evidence=GOOD | {"identification": [frequent]}).status == "passed"
    assert verdict(GatePolicy(max_identification=0.01), evidence=GOOD | {"identification": [frequent]}).status == (
        "blocked"
    )


def test_a_question_that_does_not_arise_holds_and_says_why():
    evidence = {k: v for k, v in GOOD.items() if k != "text"}
    result = verdict(evidence=evidence, exempt={"text": "the release has no reports"})
    assert result.status == "passed"
    assert check(result, "text").detail == "does not arise: the release has no reports"


def test_a_check_never_states_a_bare_number():
    for c in verdict().checks[3:]:
        assert "[" in c.detail
        assert "bound has to be" in c.detail


@pytest.mark.parametrize("changes", [{"released": 0}, {"disjoint": False}])
def test_an_empty_release_or_torn_patients_block(changes):
    assert verdict(**changes).status == "blocked"


def test_the_share_kept_back_is_bounded_by_the_policy():
    tight = GatePolicy(max_quarantined=0.1)
    assert verdict(tight, released=9, quarantined=1).status == "passed"
    assert verdict(tight, released=8, quarantined=2).status == "blocked"
