"""Where identity passes in PrivDiff-Net: linkage by setting, the attributes of another patient, sizes of branches."""

import json

import pytest
import torch

from tests.conftest import Hospital, sweep
from tests.methods.tiny import tiny_pack
from tests.methods.tiny_weights import tiny_weights
from updp.bench import privdiff
from updp.bench.tables import read_rows
from updp.models import PackError


@pytest.fixture
def source(tmp_path):
    hospital = Hospital(tmp_path / "export", films=0)
    for n in range(40):
        hospital.add(n, labels="Effusion" if n % 3 else "Nodule")
    return hospital.write()


@pytest.fixture
def pack(tmp_path):
    return str(tiny_pack(tmp_path / "tiny"))


def test_every_setting_is_measured_and_written(source, pack, tmp_path):
    weights = str(tiny_weights(pack, tmp_path / "weights"))
    given = {"pack": pack, "weights": weights, "patients": 6, "strengths": (0.5,), "steps": 2, "say": lambda line: None}
    rows, sizes = privdiff.bench_privdiff(source, tmp_path / "out", **given)
    assert [row.setting for row in rows] == [
        "the film itself", *privdiff.SETTINGS, privdiff.SWAPPED, privdiff.TOWARDS
    ]  # fmt: skip
    by_name = {row.setting: row for row in rows}
    assert by_name["plain diffusion"].moved == 0
    assert by_name["both"].moved > 0
    assert by_name[privdiff.SWAPPED].attributes is not None
    assert by_name[privdiff.TOWARDS].film is None
    assert all(size.identity > 0 and 0 <= size.kept <= 1 for size in sizes)
    written = json.loads((tmp_path / "out" / "privdiff.json").read_text())
    again = privdiff.markdown(read_rows(privdiff.Row, written["rows"]), read_rows(privdiff.Size, written["sizes"]))
    assert again == privdiff.markdown(rows, sizes)
    assert written["about"]["patients"] >= 3
    assert sweep(tmp_path / "out", skip=(".cache",)) == []


def test_weights_of_another_pack_are_refused_before_any_film(source, pack, tmp_path):
    weights = str(tiny_weights(pack, tmp_path / "weights"))
    with pytest.raises(PackError, match="learned with another"):
        privdiff.bench_privdiff(source, tmp_path / "out", pack="cxr256", weights=weights)
    assert not (tmp_path / "out").exists()


def test_films_that_stay_themselves_are_linked_and_films_of_the_next_patient_are_linked_to_that_one():
    codes = torch.eye(8)
    people = [str(n) for n in range(8)]
    assert privdiff._linkage(codes, codes, people, 0).value == 1
    assert privdiff._linkage(torch.ones(8, 8), codes, people, 0).value == 0.5
    moved = codes.roll(-1, 0)  # released film n is of patient n + 1
    assert privdiff._linkage(moved, codes, people, 0).value < 0.5
    assert privdiff._linkage(moved, codes.roll(-1, 0), people, 0).value == 1
