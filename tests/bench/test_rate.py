"""What a code tells, by its length: measured on other patients than its readers learned on."""

import json

import numpy as np
import pytest

from tests.conftest import Hospital, sweep
from tests.methods.tiny import tiny_pack
from updp.bench import rate
from updp.bench.tables import read_rows
from updp.methods.dcm.compensation import FeatureCompensator
from updp.methods.train import export_method
from updp.models import PackError, load_pack


@pytest.fixture
def source(tmp_path):
    hospital = Hospital(tmp_path / "export", films=0)
    for n in range(120):
        hospital.add(n, labels="Effusion" if n % 3 else "Nodule")
    return hospital.write()


@pytest.fixture
def pack(tmp_path):
    return str(tiny_pack(tmp_path / "tiny"))


def test_every_rate_is_measured_and_written(source, pack, tmp_path):
    opened = load_pack(pack)
    roles = opened.info["roles"]
    context = opened.generator.condition([""]).states.shape[2]
    network = FeatureCompensator(roles["classifier"]["config"], 16, context, channels=4, hidden=8, tokens=2)
    export_method("dcm", network, opened, tmp_path / "weights", ("autoencoder", "identity", "vlm", "generator"))
    given = {"pack": pack, "weights": str(tmp_path / "weights"), "films": 60, "say": lambda line: None}
    rows = rate.bench_rate(source, tmp_path / "out", **given)
    assert [row.channels for row in rows] == [1, 2, 4]
    assert rows[0].bits.value < rows[1].bits.value < rows[2].bits.value
    for row in rows:
        assert 0 <= row.identity.value <= 1
    written = json.loads((tmp_path / "out" / "rate.json").read_text())
    assert rate.markdown(read_rows(rate.Row, written["rows"])) == rate.markdown(rows)
    assert written["about"]["patients"] > 1
    assert (tmp_path / "out" / "rate.png").stat().st_size > 1000
    assert sweep(tmp_path / "out", skip=(".cache",)) == []


def test_weights_of_another_pack_are_refused_before_any_film(source, pack, tmp_path):
    with pytest.raises(PackError, match="learned with another"):
        rate.bench_rate(source, tmp_path / "out", pack=pack)
    assert not (tmp_path / "out").exists()


PATIENTS = np.repeat(np.arange(40), 3).astype(str)
HALVES = np.flatnonzero(np.arange(120) < 60), np.flatnonzero(np.arange(120) >= 60)


def test_a_code_of_the_patient_links_and_one_of_noise_does_not():
    rng = np.random.default_rng(0)
    personal = np.repeat(rng.standard_normal((40, 4)), 3, 0) + 0.05 * rng.standard_normal((120, 4))
    assert rate._identity(personal, PATIENTS, *HALVES, seed=0).value > 0.95
    # 60 pairs of one patient among 1770: the standard error of the AUC is below 0.04.
    assert rate._identity(rng.standard_normal((120, 4)), PATIENTS, *HALVES, seed=0).value == pytest.approx(0.5, abs=0.2)


def test_a_code_of_the_findings_tells_them():
    rng = np.random.default_rng(1)
    labels = (rng.random((120, 2)) < 0.5).astype(float)
    told = rate._findings(labels + 0.1 * rng.standard_normal((120, 2)), labels, PATIENTS, *HALVES, seed=0)
    assert told.value > 0.95
    assert told.low <= told.value <= told.high
