"""`updp evaluate --policy`: another gate, the same figures."""

import json

import pytest

import updp
from tests.evaluation.fake_probes import passing
from updp.core.policy import Policy
from updp.evaluation.cohort.load import NotComparable
from updp.evaluation.evaluate import evaluate
from updp.evaluation.rejudge import rejudge
from updp.release.signature import public_key


def test_a_stricter_gate_blocks_and_the_old_one_passes_again_without_measuring(made, key):
    hospital, outcome = made
    first = evaluate(outcome.folder, hospital.root, key=key, probes=passing())
    assert first.status == "passed"
    before = json.loads((first.folder / "evidence" / "evaluation.json").read_bytes())
    strict = rejudge(first.folder, Policy.parse("[gate]\nmin_skill = 1.0\naccept = ['measured']\n"), key=key)
    assert (strict.status, strict.folder.name) == ("blocked", "blocked")
    after = json.loads((strict.folder / "evidence" / "evaluation.json").read_bytes())
    assert after["measurements"] == before["measurements"]
    assert after["evaluation"] == before["evaluation"]
    assert Policy.load(strict.folder / "policy.toml").gate.min_skill == 1.0
    again = rejudge(strict.folder, Policy(), key=key)
    assert (again.status, again.folder.name) == ("passed", "release")
    assert updp.verify(again.folder, trusted=public_key(key)).intact


def test_other_sections_of_the_policy_do_not_count(made, key):
    hospital, outcome = made
    first = evaluate(outcome.folder, hospital.root, key=key, probes=passing())
    again = rejudge(first.folder, Policy.parse("[method]\nname = 'blur'\n"), key=key)
    assert Policy.load(again.folder / "policy.toml").method.name == "keep"


def test_what_was_not_measured_cannot_be_judged(made, key):
    with pytest.raises(NotComparable, match="not measured yet"):
        rejudge(made[1].folder, Policy(), key=key)
