"""From design to kappa: the figures of a study, in the evidence where people read, never where a program did."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

import updp
from updp.core.measurement import Measurement, find
from updp.core.policy import BurnedInPolicy
from updp.evaluation.report import readers_part
from updp.release.verify import verify
from updp.review.analyse import (
    AGAINST,
    ALL,
    AREA,
    FLEISS,
    GUESS,
    KAPPA,
    MAJORITY,
    RATING,
    TWICE,
    analyse,
    into_folder,
    into_release,
    load_answers,
)  # fmt: skip
from updp.review.answers import Answers
from updp.review.design import design
from updp.review.plan import PRESENT, BadPlan, Plan
from updp.review.simulate import simulate
from updp.virtual.demo import demo_policy
from updp.virtual.hospital import make_hospital

from .conftest import released
from .test_answers import answer


def typed(plan: Plan, study, *, quality=(4, 3)) -> Answers:
    """Readers who see the truth in originals and, but for reader 3, in released films; 3 turns every fourth patient."""
    base = Answers(study, plan)
    turned = sorted({film.patient for film in plan.films.values()})[::4]
    for reader in plan.readers:
        given = []
        for place, item in enumerate(reader.items):
            film = plan.films[item.film]
            seen = np.array(film.truth) == 1
            if reader.name == "reader 3" and film.version == "released" and film.patient in turned:
                seen = ~seen
            given.append(
                answer(
                    plan, reader.name, place,
                    findings=tuple(int(v) for v in np.where(seen, 5, 1)),
                    quality=quality[film.version == "released"],
                    origin="real" if film.version == "original" else "generated",
                )
            )  # fmt: skip
        base.add(reader.name, given)
    return base


def test_figures_are_those_of_what_was_answered(study, plan):
    typed(plan, study)
    found = analyse(plan, load_answers(plan, study))
    figures = found.measurements
    assert found.complete

    def value(metric, **fields) -> Measurement:
        made = find(figures, metric, **fields)
        assert made is not None, f"{metric} {fields}"
        assert made.measured, str(made)
        return made

    # The report knows votes and comparisons by fields: with other words it shows the same.
    other = [replace(m, regime=f"arm {n}") for n, m in enumerate(figures)]
    facts = found.to_json()
    pages = [readers_part(facts | {"measurements": [m.to_json() for m in some]}) for some in (figures, other)]
    drawn = [page.partition("<svg")[2].partition("</svg>")[0] for page in pages]
    assert MAJORITY in drawn[0]
    assert drawn[0] == drawn[1]
    assert value(KAPPA, protocol=ALL, regime=f"{AGAINST}, reader 1").value == 1
    vote = value(KAPPA, protocol=ALL, regime=f"{AGAINST}, {MAJORITY}")
    assert vote.value == 1
    assert vote.low < 0.9  # twenty patients who all agree do not prove that all patients would
    truth = {film.patient: film.truth for film in plan.films.values()}
    names = sorted(truth)
    plain = np.array([truth[p][0] for p in names])
    turned = np.array([1 - v if n % 4 == 0 else v for n, v in enumerate(plain)])
    third = value(KAPPA, protocol=plan.findings[0], regime=f"{AGAINST}, reader 3")
    assert third.value == pytest.approx(cohen_kappa_score(plain, turned))
    assert third.low < third.value < third.high
    assert value(FLEISS, protocol=plan.findings[0], regime="between readers, original films").value == 1
    assert value(GUESS, regime="all readers").value == 1
    assert value(RATING, regime="released minus original").value == pytest.approx(-1)
    area = value(AREA, protocol=plan.findings[0], regime="released minus original")
    assert area.value < 0
    assert area.detail["original"] == [1, 1, 1]
    # Two repeated films are fewer than an interval takes, and the figure says so.
    twice = find(figures, KAPPA, protocol=ALL, regime=f"{TWICE}, reader 1")
    assert twice is not None
    assert "too few patients" in str(twice.reason)


def test_half_a_study_has_the_figures_of_its_half_and_says_so(study, plan):
    base = Answers(study, plan)
    assert not analyse(plan, load_answers(plan, study)).complete
    assert all(not m.measured for m in analyse(plan, load_answers(plan, study)).measurements)
    for reader in plan.readers[:2]:
        base.add(reader.name, [answer(plan, reader.name, n) for n in range(len(reader.items))])
    found = analyse(plan, load_answers(plan, study))
    assert not found.complete
    assert all(not m.measured for m in found.measurements)  # no patient was read by all three


def test_a_study_is_part_of_the_evidence_and_the_release_verifies(made, key, tmp_path):
    release = released(made)
    plan = design(release, made / "export", tmp_path / "study", key=key, films=20, days=0)
    typed(plan, tmp_path / "study")
    before = {check.name: check.outcome for check in verify(release).checks}
    folder = into_release(analyse(plan, load_answers(plan, tmp_path / "study")), release, key)
    assert {check.name: check.outcome for check in verify(folder).checks} == before
    facts = json.loads((folder / "evidence" / "evaluation.json").read_text())
    assert facts["readers"]["plan"] == plan.digest
    assert not any(film.patient in json.dumps(facts) for film in plan.films.values())
    page = (folder / "evidence" / "report.html").read_text()
    assert "Reader study" in page
    assert "simulated" not in page
    assert "Original and released film are read alike" in page
    assert 'aria-label="Kappa of each finding and reader"' in page


def test_a_study_of_other_films_is_refused(study, plan, made, key):
    typed(plan, study)
    from dataclasses import replace

    found = analyse(replace(plan, release="0" * 64), load_answers(plan, study))
    with pytest.raises(BadPlan, match="other films"):
        into_release(found, released(made), key)


def test_simulated_readers_run_from_design_to_kappa_and_say_so_everywhere(made, key, tmp_path):
    release, folder = released(made), tmp_path / "study"
    plan = design(release, made / "export", folder, key=key, films=20, simulated=True, seed=1)
    assert all("simulated" in reader.name for reader in plan.readers)
    assert simulate(plan, Answers(folder, plan), key) == sum(len(reader.items) for reader in plan.readers)
    found = analyse(plan, load_answers(plan, folder))
    kappa = find(found.measurements, KAPPA, protocol=ALL, regime=f"{AGAINST}, {MAJORITY} (simulated)")
    assert kappa is not None
    assert 0 < kappa.value <= 1
    assert all("simulated" in m.name and m.detail["simulated"] for m in found.measurements)
    page = into_folder(found, folder).read_text()
    assert "simulated readers" in page
    assert "No person read these films" in page
    signed = (release / "signature").read_bytes()
    with pytest.raises(BadPlan, match="not readers"):
        into_release(found, release, key)
    assert (release / "signature").read_bytes() == signed


def test_the_study_of_the_demonstrations_hospital_runs_from_design_to_kappa(key, tmp_path):
    make_hospital(tmp_path / "hospital", seed=0, patients=12)
    policy = demo_policy("pixelate").model_copy(update={"burned_in": BurnedInPolicy(mode="off")})
    outcome = updp.deidentify(tmp_path / "hospital", tmp_path / "out", policy=policy, key=key, workers=1)
    folder = tmp_path / "study"
    plan = design(outcome.folder, tmp_path / "hospital", folder, key=key, films=12, simulated=True)
    simulate(plan, Answers(folder, plan), key)
    found = analyse(plan, load_answers(plan, folder))
    assert found.complete
    kappa = find(found.measurements, KAPPA, protocol=ALL, regime=f"{AGAINST}, {MAJORITY} (simulated)")
    assert kappa is not None
    assert (kappa.measured, kappa.n) == (True, 12)
    assert 0.5 < kappa.value <= 1  # simulated readers see what is there, and blur it a little


def test_simulated_readers_do_not_answer_for_people(study, plan, key):
    with pytest.raises(BadPlan, match="for human readers"):
        simulate(plan, Answers(study, plan), key)


def test_a_finding_counts_from_probably_present_on():
    assert PRESENT == 4
