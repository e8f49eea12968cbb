import csv
import os
import stat

import pytest

from updp.core.keys import Key
from updp.pipeline.run import deidentify
from updp.release.vault import BadVault, export, open_vault, seal


@pytest.mark.posix
def test_the_vault_links_every_film_released_or_kept_back(hospital, tmp_path, key, policy):
    (hospital.root / hospital.rows[3]["image"]).write_bytes(b"")
    deidentify(hospital.write(), tmp_path / "out", key=key, policy=policy, workers=1)
    assert export(tmp_path / "out", key, tmp_path / "links.csv") == 10
    assert stat.S_IMODE(os.stat(tmp_path / "links.csv").st_mode) == 0o600
    with (tmp_path / "links.csv").open(newline="") as source:
        links = {link["source_film_id"]: link for link in csv.DictReader(source)}
    assert set(links) == {row["film_id"] for row in hospital.rows}
    bad = links.pop(hospital.rows[3]["film_id"])
    assert (bad["release_id"], bad["reason"]) == ("", "image-empty")
    for row in hospital.rows:
        if row["film_id"] in links:
            assert links[row["film_id"]]["release_id"] == key.film(row["film_id"])
            assert links[row["film_id"]]["source_patient_id"] == row["patient_id"]


def test_the_vault_does_not_open_with_another_key_and_leaves_no_file(hospital, tmp_path, key, policy):
    deidentify(hospital.write(), tmp_path / "out", key=key, policy=policy, workers=1)
    with pytest.raises(BadVault, match="does not open with this key"):
        export(tmp_path / "out", Key(bytes(32)), tmp_path / "links.csv")
    assert not (tmp_path / "links.csv").exists()


@pytest.mark.posix
def test_vault_files_are_sealed_private_and_bound_to_their_name(tmp_path, key):
    seal(tmp_path / "00000.vault", [{"ref": "q", "source_patient_id": "Zanthora"}], key)
    assert b"Zanthora" not in (tmp_path / "00000.vault").read_bytes()
    assert stat.S_IMODE(os.stat(tmp_path / "00000.vault").st_mode) == 0o600
    os.rename(tmp_path / "00000.vault", tmp_path / "00001.vault")
    with pytest.raises(BadVault, match="altered"):
        list(open_vault(tmp_path, key))


def test_an_export_never_overwrites_and_an_empty_output_is_said_so(hospital, tmp_path, key, policy):
    with pytest.raises(BadVault, match="no vault"):
        export(tmp_path, key, tmp_path / "links.csv")
    deidentify(hospital.write(), tmp_path / "out", key=key, policy=policy, workers=1)
    (tmp_path / "links.csv").touch()
    with pytest.raises(BadVault, match="already there"):
        export(tmp_path / "out", key, tmp_path / "links.csv")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_cell_of_an_export_is_a_formula(tmp_path, key, start):
    evil = f"{start}cmd|'/c calc'!A1"
    link = {"ref": "q", "release_id": "f", "patient": "p", "study": "s", "source_film_id": evil,
            "source_study_id": "1-2", "source_patient_id": evil}  # fmt: skip
    (tmp_path / "vault").mkdir()
    seal(tmp_path / "vault" / "00000.vault", [link], key)
    export(tmp_path, key, tmp_path / "links.csv")
    with (tmp_path / "links.csv").open(newline="", encoding="utf-8") as source:
        (row,) = csv.DictReader(source)
    assert not any(value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for value in row.values())
    assert row["source_film_id"] == f"'{evil}"
    assert row["source_study_id"] == "1-2"


def test_an_export_that_fails_half_way_leaves_nothing(hospital, tmp_path, key, policy):
    deidentify(hospital.write(), tmp_path / "out", key=key, policy=policy, workers=1)
    (tmp_path / "out/vault/00002.vault").write_bytes(b"damaged")
    before = set(tmp_path.iterdir())
    with pytest.raises(BadVault):
        export(tmp_path / "out", key, tmp_path / "links.csv")
    assert set(tmp_path.iterdir()) == before


def test_the_vault_states_the_recipient_and_opens_with_the_hospitals_key(hospital, tmp_path, key, policy):
    source = hospital.write()
    for name in ("Charité", "Mayo"):
        deidentify(source, tmp_path / name, key=key, policy=policy, workers=1, recipient=name)
    links = {name: list(open_vault(tmp_path / name / "vault", key)) for name in ("Charité", "Mayo")}
    for name, own in links.items():
        assert {link["recipient"] for link in own} == {name}
    for kind in ("release_id", "patient", "study"):
        assert not {link[kind] for link in links["Mayo"]} & {link[kind] for link in links["Charité"]}
    folder = tmp_path / "Mayo" / "unmeasured"
    assert not any(b"Mayo" in path.read_bytes() for path in folder.rglob("*") if path.is_file())
