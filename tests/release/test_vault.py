import csv
import os
import stat

import pytest

from updp.core.keys import Key
from updp.pipeline.run import deidentify
from updp.release.vault import BadVault, export, open_vault, seal


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
