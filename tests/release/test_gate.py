"""The gate: bounds on the far end of an interval, three verdicts, and what is said of each."""

import re
from dataclasses import replace

import pytest

from updp.core.measurement import Measurement
from updp.core.policy import GatePolicy
from updp.core.questions import QUESTIONS, Exemption, Kind, Outcome
from updp.release.gate import Proof, judge


def figure(metric, value, low, high, chance=0.5, n=100, better="lower", **detail):
    return Measurement(metric, value, low, high, n, chance, better, "an attacker", 0, detail)


GOOD = {
    "record": [figure("smallest cell", 3.0, 3.0, 3.0, chance=None, better="higher")],
    "film": [
        figure("film linkage", 0.51, 0.48, 0.54),
        figure("film linkage beyond twins", 0.01, -0.02, 0.04, chance=0.0),
    ],
    "membership": [figure("strongest membership", 0.50, 0.45, 0.55)],
    "text": [figure("residual PHI", 0.0, 0.0, 0.0, chance=None)],
    "utility": [figure("diagnostic skill kept", 0.95, 0.90, 0.99, chance=0.0, better="higher")],
}
BAD = {
    "record": figure("smallest cell", -1.0, -1.0, -1.0, chance=None, better="higher"),
    "film": figure("film linkage", 0.80, 0.75, 0.85),
    "membership": figure("strongest membership", 0.9, 0.85, 0.95),
    "text": figure("residual PHI", 0.1, 0.05, 0.2, chance=None),
    "utility": figure("diagnostic skill kept", 0.5, 0.4, 0.6, chance=0.0, better="higher"),
}


def verdict(policy=None, **changes):
    facts = {"released": 10, "quarantined": 0, "disjoint": True, "evidence": GOOD} | changes
    asked = [replace(m, question=name) for name, found in (facts.pop("evidence") or {}).items() for m in found]
    return judge(policy or GatePolicy(), evidence=asked, **facts)


def check(result, name):
    return next(c for c in result.checks if c.name == name)


def test_every_question_has_a_bound():
    assert QUESTIONS.keys() == GOOD.keys() == BAD.keys()
    for question in QUESTIONS.values():
        assert question.bounds
        assert all(bound.limit in GatePolicy.model_fields for bound in question.bounds)


def test_a_release_passes_only_when_everything_was_measured_and_holds():
    assert verdict().status == "passed"


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_one_failed_measurement_blocks_even_beside_a_good_one(name):
    result = verdict(evidence=GOOD | {name: [*GOOD[name], BAD[name]]})
    assert result.status == "blocked"
    assert check(result, name).outcome is Outcome.FAILED
    assert "more patients would not change that" in check(result, name).detail


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_one_missing_measurement_is_never_a_pass(name):
    missing = {k: v for k, v in GOOD.items() if k != name}
    assert verdict(evidence=missing).status == "not-measured"
    assert verdict(GatePolicy(require_evidence=True), evidence=missing).status == "blocked"
    assert check(verdict(evidence=missing), name).outcome is Outcome.NOT_ASKED


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_a_question_asked_and_not_answered_blocks_and_says_why(name):
    metric = QUESTIONS[name].bounds[0].metrics[0]
    few = Measurement.missing(metric, "too few patients: 4, at least 10 needed", detail={"patients_needed": 10})
    result = verdict(evidence=GOOD | {name: [few]})
    assert result.status == "blocked"
    assert check(result, name).outcome is Outcome.UNANSWERED
    assert "too few patients: 4, at least 10 needed" in check(result, name).detail


def test_an_attack_that_failed_blocks_although_its_measurements_have_no_name():
    failed = Measurement.missing("verification", "the attack failed (RuntimeError)")
    assert verdict(evidence=GOOD | {"film": [failed]}).status == "blocked"
    other = figure("verification AUC", 0.5, 0.4, 0.6)
    result = verdict(evidence=GOOD | {"film": [other]})
    assert "no attack or measure gave film linkage" in check(result, "film").detail


def test_nothing_measured_is_said_of_every_measurement():
    result = verdict(evidence=None)
    assert result.status == "not-measured"
    assert [c.name for c in result.checks if c.outcome is Outcome.NOT_ASKED] == list(QUESTIONS)


@pytest.mark.parametrize(
    ("name", "unsure", "needed"),
    [
        # The value is right, the interval is too wide: (0.15 / 0.05)^2 times as many patients.
        ("membership", figure("strongest membership", 0.55, 0.50, 0.70, n=20), 180),
        ("utility", figure("diagnostic skill kept", 0.80, 0.60, 1.0, n=20, better="higher", chance=0.0), 80),
    ],
)
def test_too_few_patients_to_be_sure_blocks_and_says_how_many_would_do(name, unsure, needed):
    result = verdict(evidence=GOOD | {name: [unsure]})
    assert result.status == "blocked"
    told = re.search(r"about (\d+) would do", check(result, name).detail)
    assert int(told.group(1)) == pytest.approx(needed, abs=1)


def test_a_value_too_near_its_bound_blocks_and_names_no_number():
    near = figure("strongest membership", 0.5999, 0.50, 0.70, n=20)
    detail = check(verdict(evidence=GOOD | {"membership": [near]}), "membership").detail
    assert "too near" in detail
    assert "about" not in detail


def test_both_bounds_of_the_film_question_must_be_answered_and_hold():
    alone = verdict(evidence=GOOD | {"film": GOOD["film"][:1]})
    assert check(alone, "film").outcome is Outcome.UNANSWERED
    added = figure("film linkage beyond twins", 0.04, 0.0, 0.08, chance=0.0)
    assert check(verdict(evidence=GOOD | {"film": [GOOD["film"][0], added]}), "film").outcome is Outcome.FAILED


def test_cells_are_bounded_only_where_the_policy_says_so():
    assert verdict().status == "passed"
    assert verdict(GatePolicy(min_cell=5)).status == "blocked"


def test_a_question_that_does_not_arise_holds_and_says_why():
    evidence = {k: v for k, v in GOOD.items() if k != "text"}
    result = verdict(evidence=evidence, exempt={"text": Exemption.NO_REPORTS})
    assert result.status == "passed"
    assert check(result, "text").outcome is Outcome.NOT_APPLICABLE
    assert check(result, "text").exemption is Exemption.NO_REPORTS
    assert verdict(evidence=evidence, exempt={"text": Exemption.LEARNED_NOTHING}).status == "not-measured"


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


def test_a_question_may_be_answered_by_construction_or_by_a_certificate_that_the_policy_accepts():
    evidence = {k: v for k, v in GOOD.items() if k != "film"}
    built = Proof("film", Kind.CONSTRUCTION, True, "films do not depend on pixels: 12 of 12 records")
    certified = Proof("film", Kind.CERTIFIED, True, "certificate of 400 patients", tuple(GOOD["film"]))
    for proof in (built, certified):
        result = verdict(evidence=evidence, proofs=[proof])
        assert result.status == "passed"
        assert check(result, "film").kind is proof.kind
        only = GatePolicy(accept=("measured",))
        assert verdict(only, evidence=evidence, proofs=[proof]).status == "not-measured"
    far = Proof("film", Kind.CERTIFIED, True, "certificate", (BAD["film"], GOOD["film"][1]))
    assert verdict(evidence=evidence, proofs=[far]).status != "passed"


def test_a_figure_surely_beyond_its_bound_outweighs_any_proof_and_an_unsure_one_does_not():
    built = Proof("film", Kind.CONSTRUCTION, True, "films do not depend on pixels")
    assert verdict(evidence=GOOD | {"film": [*GOOD["film"], BAD["film"]]}, proofs=[built]).status == "blocked"
    unsure = figure("film linkage", 0.52, 0.40, 0.70, n=20)
    assert verdict(evidence=GOOD | {"film": [unsure, GOOD["film"][1]]}, proofs=[built]).status == "passed"


def test_a_proof_that_does_not_hold_blocks_although_the_figure_is_good():
    broken = Proof("film", Kind.CONSTRUCTION, False, "1 of 12 films changed with the pixels")
    result = verdict(proofs=[broken])
    assert result.status == "blocked"
    assert check(result, "film").detail == broken.detail


def linkage(value, low, high, n):
    return Measurement("film linkage", value, low, high, n, 0.5, "closer to chance", question="film")


def film_check(measurement, **options):
    other = Measurement("film linkage beyond twins", 0.0, -0.01, 0.01, 50, 0.0, "lower", question="film")
    verdict = judge(GatePolicy(accept=("measured",)), released=10, quarantined=0, disjoint=True,
                    evidence=[measurement, other], **options)  # fmt: skip
    return verdict.check("film")


def test_how_many_would_do_counts_the_patients_of_the_release_not_the_scored_ones():
    scored = film_check(linkage(0.5, 0.4, 0.6, 50))
    release = film_check(linkage(0.5, 0.4, 0.6, 50), patients=500)
    assert "about 200 would do" in scored.detail
    assert "about 2000 would do (50 of 500 were scored)" in release.detail


def test_an_interval_that_contains_chance_shows_nothing():
    unsure = film_check(linkage(0.57, 0.49, 0.65, 50))
    assert unsure.outcome is Outcome.FAILED
    assert "not shown" in unsure.detail
    assert unsure.more_patients
    sure = film_check(linkage(0.57, 0.51, 0.63, 50))
    assert "would not change that" in sure.detail
    assert not sure.more_patients
