import json
from typing import ClassVar

import numpy as np
import pytest

from tests.conftest import draw
from updp.core.policy import Policy
from updp.core.questions import Kind, Outcome
from updp.core.record import Study
from updp.methods import METHODS
from updp.methods.base import Deidentified, MethodInfo, reads_pixels
from updp.methods.keep import Keep
from updp.pipeline import non_interference
from updp.pipeline.run import deidentify
from updp.release.construction import CHECKED, DIFFERED, proofs


class FromRecord:
    """An image of noise from the record's own stream; nothing of the film."""

    info: ClassVar[MethodInfo] = MethodInfo("from-record", "noise", "none", None, "none")
    leak = 0.0

    def reads_pixels(self, strength):
        return False

    def deidentify(self, batch, strength, rng):
        out = []
        for study, stream in zip(batch, rng, strict=True):
            noise = stream.random(study.pixels.shape, np.float32)
            hidden = self.leak * study.pixels.mean()  # the brightness of the patient's film, in one corner
            noise[:8, :8] = noise[:8, :8] * (1 - self.leak) + hidden
            out.append(Deidentified(noise, {"made": "noise"}))
        return out


class Leaks(FromRecord):
    """Promises the same and keeps it for all but a little of the image."""

    info: ClassVar[MethodInfo] = MethodInfo("leaks", "noise", "none", None, "none")
    leak = 0.5


@pytest.fixture
def method(request):
    METHODS.add(request.param.info.name, request.param)
    yield request.param.info.name
    METHODS.remove(request.param.info.name)


def studies(count):
    return [Study(f"f{n}", f"s{n}", f"p{n}", pixels=draw(n, 64).astype(np.float32) / 255) for n in range(count)]


def test_a_method_that_promises_nothing_reads_pixels():
    assert reads_pixels(Keep(), None)
    assert not reads_pixels(FromRecord(), 0.5)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 64])
def test_at_least_one_record_of_a_shard_is_checked_and_one_in_so_many(key, count):
    chosen = non_interference.sample(studies(count), key)
    assert len(chosen) == -(-count // non_interference.ONE_IN)
    assert chosen == sorted(set(chosen))


def test_the_sample_follows_the_key_and_not_the_order(key):
    batch = studies(40)
    chosen = {batch[i].film_id for i in non_interference.sample(batch, key)}
    backwards = batch[::-1]
    assert {backwards[i].film_id for i in non_interference.sample(backwards, key)} == chosen


@pytest.mark.parametrize("count", [1, 5])
def test_a_foreign_image_is_never_the_patients_own(key, count):
    batch = studies(count)
    for i, study in enumerate(batch):
        assert not np.array_equal(non_interference._foreign(batch, i), study.pixels)


def test_films_of_one_patient_are_not_foreign_to_each_other():
    batch = [study.but(patient_id="p") for study in studies(3)]
    for i in range(3):
        foreign = non_interference._foreign(batch, i)
        assert not any(np.array_equal(foreign, study.pixels) for study in batch)


@pytest.mark.parametrize("method", [FromRecord], indirect=True)
def test_a_promise_that_holds_answers_the_questions_about_the_image_by_construction(hospital, tmp_path, key, method):
    policy = Policy.parse("[burned_in]\nmode='off'\n[image]\nsize=64\n[release]\nshard_size=4\n")
    outcome = deidentify(hospital.write(), tmp_path / "out", key=key, policy=policy, method=method, workers=1)
    facts = json.loads((outcome.folder / "evidence" / "evaluation.json").read_text())
    assert facts["tallies"][CHECKED] == 3  # one of each shard of four, four and two
    assert facts["tallies"][DIFFERED] == 0
    checks = {check["name"]: check for check in facts["gate"]["checks"]}
    for question in ("film",):
        assert checks[question]["outcome"] == Outcome.HELD
        assert checks[question]["kind"] == Kind.CONSTRUCTION
    assert outcome.status == "not-measured"  # usefulness and membership are still open


@pytest.mark.parametrize("method", [Leaks], indirect=True)
def test_a_promise_that_is_broken_blocks_the_release_and_says_so(hospital, tmp_path, key, method):
    policy = Policy.parse("[burned_in]\nmode='off'\n[image]\nsize=64\n")
    outcome = deidentify(hospital.write(), tmp_path / "out", key=key, policy=policy, method=method, workers=1)
    assert outcome.status == "blocked"
    assert outcome.folder.name == "blocked"
    facts = json.loads((outcome.folder / "evidence" / "evaluation.json").read_text())
    failed = next(check for check in facts["gate"]["checks"] if check["name"] == "film")
    assert failed["outcome"] == Outcome.FAILED
    assert "1 of 1 images made again from other pixels came out different" in failed["detail"]


def test_a_policy_that_accepts_no_construction_is_not_answered_by_it(hospital, tmp_path, key):
    METHODS.add("from-record", FromRecord)
    try:
        policy = Policy.parse("[burned_in]\nmode='off'\n[image]\nsize=64\n[gate]\naccept=['measured']\n")
        source = hospital.write()
        outcome = deidentify(source, tmp_path / "out", key=key, policy=policy, method="from-record", workers=1)
    finally:
        METHODS.remove("from-record")
    facts = json.loads((outcome.folder / "evidence" / "evaluation.json").read_text())
    assert next(c for c in facts["gate"]["checks"] if c["name"] == "film")["outcome"] == Outcome.NOT_ASKED


def test_no_count_proves_nothing():
    assert proofs({}) == []
    assert proofs({CHECKED: 0}) == []
    assert all(proof.held for proof in proofs({CHECKED: 3, DIFFERED: 0}))
    assert not any(proof.held for proof in proofs({CHECKED: 3, DIFFERED: 1}))
