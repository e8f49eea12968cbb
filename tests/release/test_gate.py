import pytest

from updp.policy import GatePolicy
from updp.release.gate import MEASUREMENTS, judge

ALL = dict.fromkeys(MEASUREMENTS, True)


def verdict(policy=None, **changes):
    facts = {"released": 10, "quarantined": 0, "disjoint": True, "measured": ALL} | changes
    return judge(policy or GatePolicy(), **facts)


def test_a_release_passes_only_when_everything_was_measured_and_holds():
    assert verdict().status == "passed"


@pytest.mark.parametrize("name", list(MEASUREMENTS))
def test_one_failed_measurement_blocks(name):
    assert verdict(measured=ALL | {name: False}).status == "blocked"


@pytest.mark.parametrize("name", list(MEASUREMENTS))
def test_one_missing_measurement_is_never_a_pass(name):
    missing = {k: v for k, v in ALL.items() if k != name}
    assert verdict(measured=missing).status == "not-measured"
    assert verdict(GatePolicy(require_evidence=True), measured=missing).status == "blocked"
    check = next(c for c in verdict(measured=missing).checks if c.name == name)
    assert check.detail.startswith("not measured")


def test_nothing_measured_is_said_of_every_measurement():
    result = verdict(measured=None)
    assert result.status == "not-measured"
    assert [c.name for c in result.checks if c.held is None] == list(MEASUREMENTS)


@pytest.mark.parametrize("changes", [{"released": 0}, {"disjoint": False}])
def test_an_empty_release_or_torn_patients_block(changes):
    assert verdict(**changes).status == "blocked"


def test_the_share_kept_back_is_bounded_by_the_policy():
    tight = GatePolicy(max_quarantined=0.1)
    assert verdict(tight, released=9, quarantined=1).status == "passed"
    assert verdict(tight, released=8, quarantined=2).status == "blocked"
