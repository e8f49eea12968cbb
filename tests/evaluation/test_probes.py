"""The real attacks and measures, on invented patients: the gate finds in them what it reads, and judges rightly."""

import json

import numpy as np
import pytest

from tests.chance import at_chance
from tests.evaluation.probes.attacks import hospital
from tests.evaluation.probes.utility import small
from updp.core.measurement import find
from updp.core.policy import GatePolicy
from updp.core.questions import QUESTIONS, Exemption, Outcome
from updp.evaluation.evaluate import SAVINGS, left_out, run_probes
from updp.evaluation.probes import PROBES, probes
from updp.evaluation.probes.base import Budget, MethodUse
from updp.evaluation.report import CURVES, curve_points
from updp.release.gate import judge

pytestmark = pytest.mark.numeric

ATTACKS = [name for name in PROBES if ".attacks." in PROBES.module_of(name) and not PROBES[name].domains]


def judged(measured, **exempt):
    return judge(GatePolicy(), released=10, quarantined=0, disjoint=True, evidence=measured, exempt=exempt)


@pytest.fixture(scope="module")
def untouched():
    return hospital.exhibit(patients=28)


@pytest.fixture(scope="module")
def attacked(untouched, tmp_path_factory):
    """Every attack on films released as they are."""
    pack = hospital.simple_pack(tmp_path_factory.mktemp("pack"))
    return run_probes(untouched, pack, hospital.SMALL, 0, probes=probes(ATTACKS))


@pytest.fixture(scope="module")
def used():
    """The diagnosis experiment on films without labels: it names what it would have measured, at no cost."""
    blank = small.exhibit().but(labels=np.full_like(small.exhibit().labels, np.nan))
    return run_probes(blank, None, Budget.quick(), 0, probes=probes(["diagnosis"]))


def test_every_bound_of_the_gate_reads_a_measurement_that_exists(attacked, used):
    for question in QUESTIONS.values():
        found = [m for m in (*attacked, *used) if m.question == question.id]
        for bound in question.bounds:
            for metric in bound.metrics:
                assert find(found, metric), metric
        # The second matching of impostors needs a classifier of ours, which this pack has not.
        for metric in [name for name in question.shown if "among nearest" not in name][:2]:
            assert find(found, metric), metric


def test_no_attack_failed(attacked, used):
    assert [m.name for m in (*attacked, *used) if m.detail.get("failed")] == []


def test_untouched_films_are_blocked_for_what_links_them(attacked, used):
    result = judged([*attacked, *used])
    assert result.status == "blocked"
    assert result.check("film").outcome is Outcome.FAILED


def test_one_film_a_patient_still_gets_an_answer_about_the_film_itself(untouched, tmp_path):
    single = untouched.take(np.arange(0, len(untouched), 3))
    found = run_probes(single, hospital.simple_pack(tmp_path), hospital.SMALL, 0, probes=probes(["verification"]))
    strongest = find(found, "strongest linkage")
    assert strongest.measured
    assert "own film" in strongest.detail["strongest"]
    skipped = [m for m in found if not m.measured and "two films" in str(m.reason)]
    assert skipped


def test_too_few_patients_are_blocked_not_crashed(untouched, tmp_path):
    few = untouched.take(np.flatnonzero(np.isin(untouched.patients, ["p000", "p001", "p020", "p021"])))
    found = run_probes(few, hospital.simple_pack(tmp_path), hospital.SMALL, 0, probes=probes(ATTACKS))
    assert not any(m.detail.get("failed") for m in found)
    linkage = judged(found).check("film")
    assert linkage.outcome is Outcome.UNANSWERED
    assert "4, at least 20 needed" in linkage.detail


def test_missing_labels_are_said_and_block(used):
    assert not find(used, "diagnostic skill kept").measured
    check = judged(used).check("utility")
    assert check.outcome is Outcome.UNANSWERED
    assert "labelled" in check.detail


def test_networks_that_answer_nan_are_an_open_question(untouched, tmp_path):
    broken = hospital.simple_pack(tmp_path, broken=True)
    found = run_probes(untouched, broken, hospital.SMALL, 0, probes=probes(["film", "identification"]))
    result = judged(found)
    assert result.check("film").outcome is Outcome.UNANSWERED


def test_a_pack_without_a_list_of_training_films_leaves_membership_unanswered(attacked):
    found = find(attacked, "strongest membership")
    assert found.exemption is None
    assert judged(attacked).check("membership").outcome is Outcome.UNANSWERED


@pytest.mark.parametrize(
    ("method", "exemption"),
    [
        (MethodUse("blur", learned_from_images=False), Exemption.LEARNED_NOTHING),
        (MethodUse("privdiff", roles=frozenset({"autoencoder", "identity"})), None),
    ],
)
def test_only_a_method_that_learned_from_no_images_is_exempt_from_membership(untouched, tmp_path, method, exemption):
    pack, budget = hospital.simple_pack(tmp_path), hospital.SMALL.but(again=0)  # no film goes through the method
    found = run_probes(untouched, pack, budget, 0, probes=probes(["membership"]), method=method)
    asked = find(found, "strongest membership")
    assert not asked.measured
    assert asked.exemption is exemption
    exempt = {} if exemption is None else {"membership": exemption}
    expected = Outcome.NOT_APPLICABLE if exemption else Outcome.UNANSWERED
    assert judged(found, **exempt).check("membership").outcome is expected


def test_measurements_are_plain_json_without_a_patient(attacked, untouched):
    text = json.dumps([m.to_json() for m in attacked])
    assert not any(f'"{patient}"' in text for patient in set(untouched.patients.tolist()))


def test_curves_can_be_drawn(attacked):
    for kind in CURVES:
        drawn = [m for m in attacked if m.detail.get(kind)]
        assert drawn, kind
        assert all(len(curve_points(m.detail[kind])) > 1 for m in drawn)


def test_a_quick_budget_says_what_it_saves_on():
    said = left_out(Budget.quick())
    assert any("reconstruction attack: none instead of" in text for text in said)
    assert left_out(Budget.full()) == []
    slow = {p.name for p in probes()} - {p.name for p in probes(quick=True)}
    assert slow == {"report generation", "images", "image-text"}
    saved = {name for name in vars(Budget.full()) if getattr(Budget.quick(), name) != getattr(Budget.full(), name)}
    assert saved <= SAVINGS.keys()


def test_a_probe_is_marked_with_its_question(attacked):
    assert {m.detail["probe"] for m in attacked} == set(ATTACKS)
    assert all(m.question in QUESTIONS for m in attacked)


def test_a_second_release_learns_nothing_from_real_films_again(utility_pack, monkeypatch):
    """The two keep other films back; what is made anew for the second is of its released films."""
    import torch

    from updp.core.cache import MemoryCache
    from updp.evaluation.probes.attacks import features
    from updp.evaluation.probes.utility import base, captioner

    for name in ("judges", "epochs", "steps", "most_steps"):
        monkeypatch.setitem(base._QUICK, name, 1)
    monkeypatch.setattr(captioner, "_LENGTH_FILMS", 4)  # what is learned again is counted, not how well
    monkeypatch.setattr(captioner.Captioner, "write", lambda self, films, *_: ["No effusion."] * len(films))
    shown, pack, cache = small.exhibit(films=1), utility_pack, MemoryCache()
    real = {film.tobytes() for film in shown.real}
    seen, optimizers = [], []
    extract, adam = features.extract, torch.optim.AdamW
    monkeypatch.setattr(features, "extract", lambda pack, role, films: seen.extend(films) or extract(pack, role, films))
    monkeypatch.setattr(torch.optim, "AdamW", lambda *args, **kwargs: optimizers.append(1) or adam(*args, **kwargs))

    def release(seed, gone):
        kept_back = np.isin(np.arange(len(shown)), gone)
        films = np.where(kept_back[:, None, None], 0, small.noise(shown, seed)).astype(np.uint8)
        texts = ["" if out else text for text, out in zip(shown.released_texts, kept_back, strict=True)]
        return shown.but(released=films, released_texts=texts, kept_back=kept_back)

    def cost(exhibit):
        seen.clear()
        optimizers.clear()
        asked = probes(["diagnosis", "report generation", "images", "image-text"])
        found = run_probes(exhibit, pack, Budget.quick().but(threads=1), 0, probes=asked, cache=cache)
        assert not any(m.detail.get("failed") for m in found)
        return len(optimizers), sum(film.tobytes() in real for film in seen), len(seen)

    # Judges of real, released and both in three parts; captioners raw, released, local, local + released.
    assert cost(release(1, [2, 7])) == (3 * 3 + 4, len(shown), 2 * len(shown) - 2)
    assert cost(release(2, [5])) == (2 * 3 + 2, 0, len(shown) - 1)
    assert cost(release(2, [5])) == (0, 0, 0)


def test_attacks_look_at_real_films_once_whatever_a_method_keeps_back(untouched, tmp_path, monkeypatch):
    from updp.core.cache import MemoryCache
    from updp.evaluation.probes.attacks import features

    pack, cache, seen = hospital.simple_pack(tmp_path), MemoryCache(), []
    real = {film.tobytes() for film in untouched.real}
    extract = features.extract
    monkeypatch.setattr(features, "extract", lambda pack, role, films: seen.extend(films) or extract(pack, role, films))
    for seed, gone in enumerate(([], [2], [40, 50])):
        kept_back = np.isin(np.arange(len(untouched)), gone)
        exhibit = hospital.noise(untouched, seed).but(kept_back=kept_back)
        found = run_probes(exhibit, pack, hospital.SMALL, 0, probes=probes(ATTACKS), cache=cache)
        assert [m.name for m in found if m.detail.get("failed")] == []
        assert sum(film.tobytes() in real for film in seen) == (0 if seed else len(untouched))
        assert len(seen) == (0 if seed else len(untouched)) + len(untouched) - len(gone)
        assert at_chance(find(found, "strongest linkage"))
        seen.clear()
