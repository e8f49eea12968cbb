"""The report-generation experiment on drawn films: regimes, what the release adds, and what cannot be measured."""

from __future__ import annotations

import numpy as np
import pytest

from tests.chance import near
from tests.evaluation.probes.utility import small
from updp.evaluation.probes.base import Budget
from updp.evaluation.probes.utility import base, captioner
from updp.evaluation.probes.utility.base import Effort
from updp.evaluation.probes.utility.report_generation import (
    CONTROLS,
    LOCAL,
    LOCAL_RAW,
    LOCAL_RELEASED,
    RAW,
    RELEASED,
    ReportGeneration,
    compare,
    hospitals,
    regimes,
)

QUICK = Budget.quick().but(draws=100, threads=1)
EFFORT = Effort.of(QUICK)


def perfect(shown):
    """A captioner that has learned as much as its films are many: right on real films, wrong on released noise."""

    def write(pairs, scored, seed):
        films = sum(len(p.rows) for p in pairs)
        right = np.random.default_rng(seed).random(len(scored)) < films / (films + 20)
        return [shown.real_texts[i] if r else "No acute disease." for i, r in zip(scored, right, strict=True)]

    return write


def again(shown, seed):
    """The captioner above, always of this seed."""
    return lambda pairs, scored, _: perfect(shown)(pairs, scored, seed)


def by_name(found):
    assert len({m.name for m in found}) == len(found)
    return {m.name: m for m in found}


def rows(shown):
    return shown.rows("train"), shown.rows("val", "test")


def test_regimes_share_no_patient_between_local_and_transfer_and_grow_by_size():
    shown = small.exhibit()
    plans = regimes(shown, shown.rows("train"), (0.1, 0.5, 1.0), 0, quick=False)
    sizes = [LOCAL, LOCAL_RELEASED, LOCAL_RAW]
    assert [p.name for p in plans] == [RAW, RELEASED, *sizes, *CONTROLS, *sizes, *sizes]
    local = [set(shown.patients[p.pairs[0].rows]) for p in plans if p.name == LOCAL]
    assert local[0] < local[1] < local[2]
    transfer = set(shown.patients[plans[0].pairs[0].rows])
    assert not transfer & local[2]
    assert transfer | local[2] == set(shown.patients[shown.splits == "train"])


def test_released_pairs_carry_released_films_and_texts():
    shown = small.exhibit()
    shown = shown.but(released_texts=["Released."] * len(shown))
    plan = next(p for p in regimes(shown, shown.rows("train"), (1.0,), 0, quick=True) if p.name == LOCAL_RELEASED)
    assert [p.side for p in plan.pairs] == ["real", "released"]
    assert set(plan.pairs[1].reports) == {"Released."}
    assert "Released." not in plan.pairs[0].reports


def test_controls_give_the_released_reports_films_that_are_not_their_own():
    shown = small.exhibit(films=3)
    shown = shown.but(released_texts=[f"Report {i}." for i in range(len(shown))])
    plans = {p.name: p for p in regimes(shown, shown.rows("train"), (0.2, 1.0), 0, quick=False) if p.share != 1.0}
    ours = plans[LOCAL_RELEASED].pairs[1]
    for name in CONTROLS:
        local, given = plans[name].pairs
        assert given.reports == ours.reports
        assert local.side == "real"
        assert set(local.rows) == set(plans[LOCAL].pairs[0].rows)
    shuffled, noise, donor = (plans[name].pairs[1] for name in CONTROLS)
    assert sorted(shuffled.rows) == sorted(ours.rows)
    assert (shuffled.side, noise.side, donor.side) == ("released", "noise", "real")
    assert (shown.patients[donor.rows] != shown.patients[ours.rows]).all()
    assert (shown.labels[donor.rows] == shown.labels[ours.rows]).all()


def test_films_that_teach_no_more_than_noise_have_no_gain_over_it():
    shown = small.exhibit()
    train, scored = rows(shown)

    def reports_alone(pairs, scored, seed):
        return perfect(shown)([p._replace(side="real") for p in pairs], scored, seed)

    plans = [regimes(shown, train, (0.25,), 0, quick=False)]
    found = by_name(compare(shown, scored, train, plans, reports_alone, EFFORT, 0, java=False))
    for name in CONTROLS:
        gain = found[f"gain in BLEU-1: local + de-identified, 25% of local minus {name}, 25% of local"]
        assert near(gain, 0)


def test_more_films_that_teach_give_a_gain_whose_interval_excludes_zero():
    shown = small.exhibit()
    train, scored = rows(shown)
    plans = [regimes(shown, train, (0.2,), 0, quick=True)]
    found = by_name(compare(shown, scored, train, plans, perfect(shown), EFFORT, 0, java=False))
    gain = found["gain in BLEU-1: local + de-identified, 20% of local minus local only, 20% of local"]
    assert gain.low > 0
    assert gain.chance == 0
    assert found["findings F1 relative to real: transfer de-identified"].covers(1.0)
    assert found["BLEU-4, R2Gen-normalised: transfer raw"].measured
    assert not found["METEOR, raw: transfer raw"].measured


def test_a_release_that_teaches_nothing_gives_no_gain():
    shown = small.exhibit()
    train, scored = rows(shown)

    def local_only(pairs, scored, seed):
        return perfect(shown)([p for p in pairs if p.side == "real"] or [pairs[0]._replace(rows=[])], scored, seed)

    plans = [regimes(shown, train, (0.25,), 0, quick=True)]
    found = by_name(compare(shown, scored, train, plans, local_only, EFFORT, 0, java=False))
    assert near(found["gain in BLEU-1: local + de-identified, 25% of local minus local only, 25% of local"], 0)
    assert found["BLEU-4 relative to real: transfer de-identified"].high < 0.7


def test_every_sharing_of_the_patients_has_another_local_hospital():
    shown = small.exhibit()
    people = [
        tuple(sorted(set(shown.patients[plan.pairs[0].rows])))
        for k in range(4)
        for plan in regimes(shown, shown.rows("train"), (0.25,), k, quick=True)
        if plan.name == LOCAL
    ]
    assert len(set(people)) == 4


def test_a_patient_kept_back_leaves_the_others_in_their_hospitals():
    shown = small.exhibit()
    train = shown.rows("train")
    gone = train[shown.patients[train] != shown.patients[train[0]]]
    for seed in range(3):
        before, after = hospitals(shown, train, seed), hospitals(shown, gone, seed)
        moved = set(after[0]) - set(before[0]) | set(after[1]) - set(before[1])
        assert len(set(shown.patients[list(moved)])) <= 1  # the halves stay even


def test_a_figure_is_the_mean_over_sharings_and_each_is_shown():
    shown = small.exhibit()
    train, scored = rows(shown)
    plans = [regimes(shown, train, (0.25,), k, quick=True) for k in range(3)]
    found = by_name(compare(shown, scored, train, plans, perfect(shown), EFFORT, 0, java=False))
    for kind in ("findings F1", "BLEU-4", "ROUGE-L COCO"):
        gain = found[f"gain in {kind}: local + de-identified, 25% of local minus local only, 25% of local"]
        each = gain.detail["each_sharing"]
        assert len(set(each)) == 3
        assert gain.value == pytest.approx(np.mean(each))
        assert gain.low < gain.value < gain.high
    alone = [
        by_name(compare(shown, scored, train, [plan], again(shown, k), EFFORT, 0, java=False))
        for k, plan in enumerate(plans)
    ]
    for name in ("BLEU-4, raw: transfer raw", "findings F1: transfer raw", "ROUGE-L F1, raw: transfer raw"):
        assert found[name].value == pytest.approx(np.mean([one[name].value for one in alone]))
    assert gain.n == len(set(shown.patients[scored]))


def test_larger_sizes_may_be_in_fewer_sharings():
    shown = small.exhibit()
    train, scored = rows(shown)
    plans = [regimes(shown, train, shares, k, quick=True) for k, shares in enumerate([(0.25, 1.0), (0.25,)])]
    found = by_name(compare(shown, scored, train, plans, perfect(shown), EFFORT, 0, java=False))
    assert found["BLEU-1, raw: local only, 25% of local"].detail["sharings"] == 2
    assert found["BLEU-1, raw: local only, 100% of local"].detail["sharings"] == 1
    assert found["gain in BLEU-4: local + de-identified, 25% of local minus local only, 25% of local"].measured


def test_a_regime_that_nobody_can_learn_leaves_its_comparison_unmeasured():
    shown = small.exhibit()
    train, scored = rows(shown)
    plans = [[p for p in regimes(shown, train, (0.25,), k, quick=True) if p.name == LOCAL] for k in range(2)]
    found = by_name(compare(shown, scored, train, plans, perfect(shown), EFFORT, 0, java=False))
    assert found["BLEU-1, raw: local only, 25% of local"].measured
    assert not found["BLEU-1 relative to real: transfer de-identified"].measured


def test_the_embedded_captioner_runs_through_and_is_deterministic(pack, monkeypatch):
    monkeypatch.setitem(base._QUICK, "steps", 30)  # what there is to learn here takes no more
    monkeypatch.setattr(captioner, "_LENGTH_FILMS", 4)
    shown = small.exhibit(patients=30, films=1)
    shown = shown.but(splits=np.where(np.arange(30) % 2 == 0, "train", "test"))
    runs = [
        by_name(ReportGeneration().run(shown, pack, QUICK.but(draws=50), np.random.default_rng(0))) for _ in range(2)
    ]
    assert runs[0]["BLEU-1, raw: transfer de-identified"].value > 0.3
    assert {n: m.to_json() for n, m in runs[0].items()} == {n: m.to_json() for n, m in runs[1].items()}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda shown: shown.but(released_texts=[""] * len(shown)), "no film has a report"),
        (lambda shown: shown.but(real_texts=[" "] * len(shown)), "no film has a report"),
        (lambda shown: shown.take(np.flatnonzero(shown.splits == "train")), "too few patients"),
        (lambda shown: shown.take(np.flatnonzero(shown.splits != "train")), "too few training films"),
    ],
)
def test_what_cannot_be_measured_is_missing_with_its_reason(pack, change, reason):
    found = ReportGeneration().run(change(small.exhibit()), pack, QUICK, np.random.default_rng(0))
    assert found
    assert not any(m.measured for m in found)
    assert all(reason in m.reason for m in found)
