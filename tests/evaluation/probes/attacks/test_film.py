"""Film beyond record: identity is found, disease is not taken for it, and films that hold nothing pass the gate."""

from __future__ import annotations

import numpy as np
import pytest

from tests.chance import near
from tests.evaluation.probes.attacks.hospital import SMALL, exhibit, film, noise, simple_pack, strangers
from updp.core.measurement import find
from updp.core.policy import GatePolicy
from updp.core.questions import QUESTIONS, Outcome
from updp.evaluation.probes.attacks.film import DELTA, ENOUGH, LINKAGE, RANK, Film
from updp.evaluation.probes.attacks.matching import genuine_pairs, nearest_impostors
from updp.evaluation.probes.attacks.record import ALONE, SMALLEST, Record, cells
from updp.evaluation.probes.base import cross_fit
from updp.release.gate import judge

pytestmark = pytest.mark.numeric

PROTOCOLS = ("another film", "own film")
LEAN = SMALL.but(steps=0, rebuilt=0, draws=300)


@pytest.fixture(scope="module")
def sixty():
    """Sixty patients with eight films each, two kinds of label sets."""
    shown = exhibit(patients=60, films=8, size=32)
    labels = np.zeros_like(shown.labels)
    labels[:, 0] = np.arange(len(shown)) // 8 % 2
    return shown.but(labels=labels, records=np.zeros(0, "U1"))


def run(shown, tmp_path, seed=1, budget=LEAN):
    return Film().run(shown, simple_pack(tmp_path), budget, np.random.default_rng(seed))


def outcome(found):
    asked = {"film": QUESTIONS["film"]}
    result = judge(GatePolicy(), released=9, quarantined=0, disjoint=True, evidence=found, questions=asked)
    return result.check("film").outcome


@pytest.fixture(scope="module")
def from_text(sixty, tmp_path_factory):
    """The figures of films made from the record alone, which show its finding."""
    return run(shown_findings(with_findings(sixty)), tmp_path_factory.mktemp("pack"))


def shown_findings(like, seed=5):
    """Films made from the record alone: a stranger's anatomy, and a bright corner where the first finding is."""
    rng = np.random.default_rng(seed)
    made = [film(10_000 + int(rng.integers(10_000)), 0, like.real.shape[1]) for _ in range(len(like))]
    out = np.stack(made)
    out[like.labels[:, 0] == 1, :8, :8] = 255
    return like.but(released=out)


def with_findings(like):
    """Real films that show their first finding as a bright corner."""
    real = like.real.copy()
    real[like.labels[:, 0] == 1, :8, :8] = 255
    return like.but(real=real, released=real.copy())


@pytest.mark.parametrize("kind", ["noise", "shuffled", "text-only"])
def test_films_that_hold_nothing_of_the_patient_are_at_chance_and_sixty_patients_suffice(
    kind, sixty, from_text, tmp_path
):
    if kind == "noise":
        found = run(noise(sixty), tmp_path)
    elif kind == "shuffled":
        found = run(sixty.but(released=sixty.real[np.random.default_rng(3).permutation(len(sixty))]), tmp_path)
    else:
        found = from_text
    limits = GatePolicy()
    for protocol in PROTOCOLS:
        for metric, chance, limit in ((LINKAGE, 0.5, limits.max_film_linkage), (DELTA, 0.0, limits.max_film_delta)):
            m = find(found, metric, protocol=protocol)
            assert near(m, chance), str(m)
            # The interval is narrow enough for a figure at chance to pass; luck may still move the figure itself.
            assert chance + (m.high - m.value) < limit, str(m)


def test_untouched_films_are_found_and_blocked(sixty, tmp_path):
    found = run(sixty, tmp_path)
    for protocol in PROTOCOLS:
        assert find(found, LINKAGE, protocol=protocol).low > 0.95
        assert find(found, RANK, protocol=protocol).low > 0.9
        assert find(found, DELTA, protocol=protocol).low > 0.3
    assert outcome(found) is Outcome.FAILED


def test_one_patient_in_three_untouched_is_found_and_blocked(sixty, tmp_path):
    third = np.searchsorted(np.unique(sixty.patients), sixty.patients) % 3 == 0
    planted = np.where(third[:, None, None], sixty.real, noise(sixty).released)
    found = run(sixty.but(released=planted), tmp_path)
    assert find(found, LINKAGE, protocol="own film").low > 0.55
    assert outcome(found) is Outcome.FAILED


def test_findings_link_films_among_any_impostors_and_not_among_those_of_the_same_record(sixty, from_text, tmp_path):
    shown = shown_findings(with_findings(sixty))
    blind = shown.but(records=np.full(len(shown), "one record for all"))
    assert find(run(blind, tmp_path), LINKAGE, protocol="own film").low > 0.6
    assert near(find(from_text, LINKAGE, protocol="own film"), 0.5)


def test_impostors_and_twins_have_the_record_and_never_the_patient(sixty):
    rng = np.random.default_rng(0)
    rows = np.arange(len(sixty))
    for protocol in PROTOCOLS:
        pairs = genuine_pairs(sixty.records, sixty.patients, rows, protocol, rng, 5)
        assert len(pairs) == 60 * 5 * (1 if protocol == "own film" else 3)
        assert (sixty.patients[pairs.released] == sixty.patients[pairs.real]).all()
        assert ((pairs.released == pairs.real) == (protocol == "own film")).all()
        for of, others in ((pairs.real, pairs.impostors), (pairs.released, pairs.twins)):
            assert (sixty.records[others] == sixty.records[of][:, None]).all()
            assert (sixty.patients[others] != sixty.patients[of][:, None]).all()


def test_nearest_impostors_are_of_other_patients_and_of_the_view_and_nearer_than_the_rest(sixty):
    rng = np.random.default_rng(0)
    rows = np.arange(len(sixty))
    views = np.where(rows % 2, "PA", "AP")
    codes = rng.normal(size=(len(sixty), 3)).astype(np.float32)
    codes[5] = np.nan  # a film that nothing is known of has no impostors and is none
    pairs = genuine_pairs(sixty.records, sixty.patients, rows, "own film", rng, 8)
    near = nearest_impostors(pairs, sixty.patients, views, rows, codes)
    assert 5 not in near.real
    assert 5 not in near.impostors
    assert len(near) == len(pairs) - 1
    assert (sixty.patients[near.impostors] != sixty.patients[near.real][:, None]).all()
    assert (views[near.impostors] == views[near.real][:, None]).all()
    one, chosen = near.real[0], near.impostors[0]
    fit = (sixty.patients != sixty.patients[one]) & (views == views[one]) & ~np.isnan(codes).any(1)
    apart = np.square(codes - codes[one]).sum(1)
    assert apart[chosen].max() <= np.sort(apart[fit])[len(chosen) - 1] + 1e-6


def test_films_that_show_more_than_their_labels_are_linked_less_among_impostors_that_show_the_same(sixty, tmp_path):
    """A mark that no label names tells films apart, as severity does, until impostors are matched by their reports."""
    mark = np.searchsorted(np.unique(sixty.patients), sixty.patients) % 2 == 1
    real = sixty.real.copy()
    real[mark, :8, :8] = 255
    texts = ["A large effusion is present." if one else "The heart is normal in size." for one in mark]
    shown = sixty.but(real=real, real_texts=texts, released_texts=texts)
    made = strangers(shown, seed=4).released.copy()
    made[mark, :8, :8] = 255
    records = np.full(len(shown), "one record for all")
    found = run(shown.but(released=made, records=records), tmp_path)
    matched = find(found, "film linkage among nearest reports", protocol="own film")
    assert find(found, LINKAGE, protocol="own film").low > 0.55
    assert near(matched, 0.5), str(matched)
    assert find(found, "film linkage among nearest findings", protocol="own film") is None  # the pack has no classifier


def test_a_record_nobody_shares_is_counted_and_left_out(sixty):
    records = sixty.records.astype("U80")
    records[sixty.patients == sixty.patients[0]] = "alone"
    rows = np.arange(len(sixty))
    pairs = genuine_pairs(records, sixty.patients, rows, "own film", np.random.default_rng(0), 8)
    assert pairs.unmatched == 8
    assert sixty.patients[0] not in sixty.patients[pairs.released]


def test_few_patients_are_scored_in_turn_and_many_as_they_are_split(sixty):
    parts = cross_fit(sixty, 0, ENOUGH)
    asked = [set(part.patients[part.rows("test")]) for part in parts]
    assert len(parts) == 3
    assert set.union(*asked) == set(sixty.patients)
    assert sum(map(len, asked)) == 60
    many = exhibit(patients=2 * ENOUGH, films=1, size=16)
    assert cross_fit(many, 0, ENOUGH) == [many]


def test_too_few_patients_leave_the_question_unanswered_and_say_how_many_it_takes(tmp_path):
    found = run(exhibit(patients=8, films=2, size=32), tmp_path)
    assert not any(m.measured for m in found)
    assert all("at least 20 needed" in m.reason for m in found)
    assert outcome(found) is Outcome.UNANSWERED


def test_one_film_a_patient_leaves_the_other_film_unanswered(tmp_path):
    found = run(strangers(exhibit(patients=30, films=1, size=32)), tmp_path)
    assert "two films" in find(found, LINKAGE, protocol="another film").reason
    assert find(found, LINKAGE, protocol="own film").measured


def test_cells_count_patients_and_the_record_says_what_a_smallest_cell_would_cost(sixty, tmp_path):
    records = np.array(["a", "a", "a", "b", "b", "c"])
    patients = np.array(["p", "p", "q", "p", "q", "r"])
    assert cells(records, patients).tolist() == [2, 2, 2, 2, 2, 1]
    words = sixty.records.astype("U80")
    words[:8] = "alone"
    found = Record().run(sixty.but(records=words), simple_pack(tmp_path), LEAN, np.random.default_rng(0))
    assert find(found, SMALLEST).value == 1
    assert find(found, ALONE).value == pytest.approx(1 / 60)
    assert find(found, ALONE).detail["min_cell"]["2"]["films"] == 8
    linkage = find(found, "record linkage AUC", protocol="another film")
    assert linkage.low > 0.5  # labels that stay with a patient link their films, whatever the films show
