import pytest

from updp.pipeline.run import deidentify


def test_the_croissant_description_is_valid_and_yields_the_manifest(hospital, tmp_path, key, policy):
    mlcroissant = pytest.importorskip("mlcroissant")
    deidentify(hospital.write(), tmp_path / "out", key=key, policy=policy, workers=1)
    described = mlcroissant.Dataset(jsonld=tmp_path / "out" / "unmeasured" / "croissant.json")
    assert described.metadata.issues.errors == set()
    records = list(described.records("films"))
    assert len(records) == 10
    assert {record["films/view"] for record in records} == {b"PA"}
