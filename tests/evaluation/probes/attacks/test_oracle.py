"""A3 runs the method on films of its own: what it learns from that, and where it has nothing to run."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from tests.chance import near
from tests.evaluation.probes.attacks.hospital import SMALL, exhibit, simple_pack
from updp.core.cache import MemoryCache
from updp.core.measurement import find
from updp.core.reasons import Reason
from updp.evaluation.probes.attacks.adversary import adversary
from updp.evaluation.probes.attacks.film import LINKAGE, Film
from updp.evaluation.probes.attacks.oracle import made_again, study_of
from updp.evaluation.probes.base import Inquiry, MethodUse
from updp.imaging.grey import grey8
from updp.methods.base import Deidentified

pytestmark = pytest.mark.numeric
LEAN = SMALL.but(steps=0, rebuilt=0, draws=100, again=10**6)


class Hashed:
    """Noise that follows from the film: nothing of it can be seen, and whoever runs the method again gets the same."""

    def __init__(self, reads=True, refused=False):
        self.reads, self.refused = reads, refused

    def reads_pixels(self, strength):
        return self.reads

    def deidentify(self, batch, strength, rng):
        if self.refused:
            return [Deidentified(None, refused=Reason.METHOD_REFUSED) for _ in batch]
        seeds = [zlib.crc32(study.pixels.tobytes()) for study in batch]
        shape = batch[0].pixels.shape
        return [Deidentified(np.random.default_rng(seed).random(shape, dtype=np.float32)) for seed in seeds]


@pytest.fixture
def runs(monkeypatch):
    """Lets the attacker run this method."""

    def use(method, roles=frozenset()):
        monkeypatch.setattr("updp.methods.make_method", lambda *_: method)
        return MethodUse("hashed", roles=roles)

    return use


@pytest.fixture(scope="module")
def hospital():
    shown = exhibit(patients=48, films=4, size=32)
    studies = [study_of(shown, row) for row in range(len(shown))]
    made = Hashed().deidentify(studies, None, [np.random.default_rng(row) for row in range(len(shown))])
    return shown.but(released=np.stack([grey8(one.pixels) for one in made]))


def test_who_can_run_the_method_finds_films_that_nobody_else_can(hospital, runs, tmp_path):
    pack = simple_pack(tmp_path)
    blind = Film().run(hospital, pack, LEAN.but(again=0), np.random.default_rng(0), method=runs(Hashed()))
    seeing = Film().run(hospital, pack, LEAN, np.random.default_rng(0), method=runs(Hashed()))
    without, with_it = (find(found, LINKAGE, protocol="own film") for found in (blind, seeing))
    assert "again" in with_it.detail["ways"]
    assert "again" not in without.detail["ways"]
    assert with_it.low > 0.9
    assert near(without, 0.5)


def test_a_setting_that_reads_no_pixels_is_not_run(hospital, runs):
    assert made_again(hospital, runs(Hashed(reads=False)), 100, MemoryCache()) is None
    assert made_again(hospital, None, 100, MemoryCache()) is None
    assert made_again(hospital, runs(Hashed()), 0, MemoryCache()) is None


def test_a_method_with_networks_is_run_on_whole_patients_within_the_budget(hospital, runs):
    found = made_again(hospital, runs(Hashed(), roles=frozenset({"generator"})), 41, MemoryCache())
    there = found["there"]
    assert there.sum() == 40
    films_of = {name: there[hospital.patients == name] for name in set(hospital.patients)}
    assert all(rows.all() or not rows.any() for rows in films_of.values())
    assert not found["films"][~there].any()


def test_films_that_the_method_refuses_tell_the_attacker_nothing(hospital, runs, tmp_path):
    inquiry = Inquiry(hospital, simple_pack(tmp_path), LEAN, 0, method=runs(Hashed(refused=True)))
    assert not inquiry.made_again["there"].any()
    assert "again" not in adversary(inquiry.features, "A3", "own film").ways


def test_a_candidate_goes_through_the_method_with_its_own_record(hospital):
    labels = hospital.labels.copy()
    labels[0], labels[1] = 0, np.nan
    labels[0, 2] = 1
    texts = ["a report", *hospital.released_texts[1:]]
    shown = hospital.but(labels=labels, released_texts=texts, records=np.zeros(0, "U1"))
    first, second = study_of(shown, 0), study_of(shown, 1)
    assert first.labels == (shown.classes[2],)
    assert first.report.text() == "a report"
    assert second.labels is None
    assert np.array_equal(np.rint(first.pixels * 255).astype(np.uint8), shown.real[0])
