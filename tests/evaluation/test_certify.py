import datetime as dt
import json
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.conftest import Hospital
from updp.core.keys import Key
from updp.core.measurement import Measurement
from updp.core.policy import GatePolicy, MethodPolicy, Policy
from updp.core.questions import Kind, Outcome
from updp.domains.chest.labels import FINDINGS
from updp.evaluation.certify import SeenPatients, certify, refuse_seen
from updp.evaluation.cohort.describe import describe, merge
from updp.evaluation.cohort.exhibit import Exhibit
from updp.evaluation.evaluate import unlike
from updp.pipeline.run import deidentify
from updp.release.signature import public_key

TODAY = dt.date(2026, 11, 17)


class Useful:
    """Says that films of any kind serve as real ones do."""

    name, question, quick = "useful", "utility", True

    def run(self, exhibit, pack, budget, rng, cache=None, method=None):
        detail = {"curve": [1, 2, 3]}
        return [Measurement("diagnostic skill kept", 0.96, 0.94, 0.98, 300, None, "higher", detail=detail)]


def test_a_certificate_of_a_cohort_answers_for_a_small_release_of_another_hospital(tmp_path):
    signer = Key(bytes(range(32)))
    cohort = Hospital(tmp_path / "cohort", films=20).write()
    method = MethodPolicy(name="pixelate", strength=0.5)
    made = certify(
        [cohort], method, tmp_path / "c.json", key=signer, films=20, today=TODAY, probes=[Useful()], say=lambda _: None
    )
    assert made.cohort["films"] > 0
    assert made.made == TODAY
    assert "curve" not in made.measurements[0].detail  # what draws a picture is no part of a certificate

    gate = GatePolicy(certificates=(str(tmp_path / "c.json"),), certifiers=(public_key(signer),))
    policy = Policy.parse("[burned_in]\nmode='off'\n").model_copy(update={"method": method, "gate": gate})
    export = Hospital(tmp_path / "export", films=4).write()
    outcome = deidentify(export, tmp_path / "out", key=Key(bytes(32)), policy=policy, workers=1)
    facts = json.loads((outcome.folder / "evidence" / "evaluation.json").read_text())
    check = next(check for check in facts["gate"]["checks"] if check["name"] == "utility")
    assert (check["outcome"], check["kind"]) == (Outcome.HELD, Kind.CERTIFIED)
    assert facts["certificates"][0]["certificate"]["subject"]["method"] == "pixelate"
    assert str(tmp_path) not in (outcome.folder / "policy.toml").read_text()


@pytest.fixture
def shown():
    labels = np.zeros((8, 14), np.float32)
    labels[:2, FINDINGS.index("Effusion")] = 1
    return Exhibit(
        real=np.zeros((8, 4, 4), np.uint8),
        released=np.zeros((8, 4, 4), np.uint8),
        patients=np.array([f"p{n // 2}" for n in range(8)]),
        splits=np.full(8, "train"),
        views=np.array(["PA" if n % 4 else "" for n in range(8)]),
        labels=labels,
        ages=np.array([35, 35, 41, 95, np.nan, 35, 35, 35], np.float32),
        sexes=np.full(8, ""),
        real_texts=[""] * 8,
        released_texts=[""] * 8,
    )


def test_a_cohort_is_described_in_shares_and_counts_its_patients(shown):
    told = describe(shown)
    assert (told["films"], told["patients"]) == (8, 4)
    assert told["views"] == {"PA": 0.75, "not known": 0.25}
    assert told["findings"] == {"Effusion": 0.25}
    assert told["ages"] == {"30s": round(5 / 7, 4), "40s": round(1 / 7, 4), "90s": round(1 / 7, 4)}


def test_cohorts_are_merged_by_their_films(shown):
    one = describe(shown)
    whole = merge([one, one | {"films": 24, "views": {"AP": 1.0}}])
    assert (whole["films"], whole["patients"], whole["sources"]) == (32, 8, 2)
    assert whole["views"] == {"AP": 0.75, "PA": 0.1875, "not known": 0.0625}


def test_where_a_release_is_unlike_the_cohort_of_its_certificate_is_said(shown):
    signed = {"certificate": {"cohort": {"views": {"PA": 0.7, "AP": 0.3}, "findings": {"Effusion": 0.3}}}}
    words = unlike([signed, signed], shown)
    assert "views AP: 0% of this release, 30% of the cohort" in words
    assert not any("Effusion" in one for one in words)
    assert len(words) == len(set(words))


def test_films_that_trained_the_pack_cannot_vouch_for_it(shown, tmp_path, monkeypatch):
    codes = np.eye(8, 192, dtype=np.float32)
    monkeypatch.setattr("updp.evaluation.probes.attacks.features.extract", lambda *_: {"embedded": codes})
    pack = SimpleNamespace(path=tmp_path, name="small", info={})
    refuse_seen(shown, pack, None)  # a pack without a list cannot be asked
    save_file({"identities": codes[:3].astype(np.float16)}, tmp_path / "training_identities.safetensors")
    with pytest.raises(SeenPatients, match="3 of 8 films trained the pack small"):
        refuse_seen(shown, pack, None)
