"""Text: residual identifiers, reports that point to their patient, prompts that do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.probes.attacks.hospital import SMALL, by_name
from tests.methods.tiny import tiny_vlm
from updp.core.measurement import find
from updp.evaluation.probes.attacks.text import Text


def run(attack, exhibit, pack):
    return by_name(attack.run(exhibit, pack, SMALL, np.random.default_rng(1)))


def at(found, metric, protocol):
    return find(found.values(), metric, protocol=protocol)


def test_identifiers_left_in_reports_are_counted_by_kind(untouched, pack):
    texts = [f"{t} Call 617-555-8231." if i % 4 == 0 else t for i, t in enumerate(untouched.released_texts)]
    m = run(Text(), untouched.but(released_texts=texts), pack)["residual PHI"]
    assert m.value == pytest.approx(0.25, abs=0.01)
    assert m.detail["by_category"]["phone"] == 45
    assert m.detail["share_in_real_reports"] == 0


def test_finding_nothing_still_has_an_upper_bound(untouched, pack):
    m = run(Text(), untouched, pack)["residual PHI"]
    assert m.value == 0
    assert m.high == pytest.approx(1 - 0.05 ** (1 / 60))


def test_cleaned_reports_point_to_the_real_ones_and_says_so(untouched, pack):
    out = run(Text(), untouched, pack)
    assert at(out, "report→patient rank-1", "own report").value == 1
    assert {m.question for m in out.values() if m.metric.startswith("report→patient")} == {"record"}
    assert out["residual PHI"].question == "text"
    assert at(out, "report→patient rank-1", "another report").value > 0.9
    assert "keeps what the real one says" in at(out, "report→patient rank-1", "own report").detail["meaning"]


def test_reports_that_say_nothing_of_the_patient_are_at_chance(untouched, pack):
    out = run(Text(), untouched.but(released_texts=["Clear lungs."] * len(untouched)), pack)
    m = at(out, "report→patient rank-1", "own report")
    assert m.low <= m.chance


def test_a_release_without_reports_has_nothing_to_measure(untouched, pack):
    silent = untouched.but(released_texts=[""] * len(untouched), real_texts=[""] * len(untouched))
    for m in run(Text(), silent, pack).values():
        assert m.reason
    assert run(Text(), silent, pack)["residual PHI"].reason == "the release has no reports"


def test_one_report_a_patient_leaves_no_other_to_link(untouched, pack):
    single = untouched.take(np.arange(0, len(untouched), 3))
    out = run(Text(), single, pack)
    assert at(out, "report→patient rank-1", "own report").measured
    assert "two different reports" in at(out, "report→patient rank-1", "another report").reason


def test_prompts_made_from_a_report_are_linked_and_empty_ones_are_not(untouched, pack):
    pack.vlm = tiny_vlm()
    out = run(Text(untouched.real_texts), untouched, pack)
    assert at(out, "prompt→patient rank-1", "by real reports").value == 1
    assert at(out, "prompt→patient rank-1", "by real films").measured
    empty = run(Text([""] * len(untouched)), untouched, pack)
    assert "no prompts" in at(empty, "prompt→patient rank-1", "by real films").reason
    with pytest.raises(ValueError, match="prompts for"):
        run(Text(["one"]), untouched, pack)
