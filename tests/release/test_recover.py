"""`updp recover`: the original comes back to whoever has the key, and the log says so."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image

import updp
from tests.conftest import PLAIN
from tests.domains.face.photographs import export, face
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.methods.base import BadPassword
from updp.release import manifest
from updp.release.recover import NotRecoverable, recover
from updp.release.vault import BadVault


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release of three invented people, its key, and the bytes of their photographs by release id."""
    root = tmp_path_factory.mktemp("recover")
    source = root / "export"
    source.mkdir()
    for n in range(3):
        face(n).save(source / f"{n}.png")
    export(source, {f"{n}.png": (f"person {n}", "Ptosis|heavy") for n in range(3)})
    key = Key(b"k" * 32)
    policy = Policy.parse(PLAIN + "[source]\ndomain = 'face'\n")
    policy = policy.model_copy(
        update={"method": policy.method.model_copy(update={"name": "invented-face", "options": {"side": 64}})}
    )
    out = updp.deidentify(source, root / "out", key=key, policy=policy, workers=1)
    assert out.released == 3
    originals = {key.film(f"{n}.png"): (source / f"{n}.png").read_bytes() for n in range(3)}
    return out.folder, key, originals


def records(folder) -> list[str]:
    return sorted(row["release_id"] for row in manifest.read(folder))


def test_the_vault_gives_back_the_exact_file(made, tmp_path):
    folder, key, originals = made
    for n, record in enumerate(records(folder)):
        recover(folder, record, key, tmp_path / f"{n}.png", how="vault")
        assert (tmp_path / f"{n}.png").read_bytes() == originals[record]


def test_the_released_file_gives_back_the_face(made, tmp_path):
    folder, key, originals = made
    record = records(folder)[0]
    recover(folder.parent, record, key, tmp_path / "face.png", by="auditor", why="visit 3")
    got = np.asarray(Image.open(tmp_path / "face.png"))
    released = np.asarray(Image.open(folder / f"images/00000/{record}.png"))
    with Image.open(io.BytesIO(originals[record])) as image:
        own = np.asarray(image.convert("RGB").resize((16, 16), Image.Resampling.BOX)).astype(float)
    assert got.shape == released.shape
    assert (tmp_path / "face.png").stat().st_mode & 0o077 == 0
    # Frames of the same face: mean colours of the middle agree, those of the released face do not as well.
    middle = own[5:11, 5:11].mean((0, 1))
    side = got.shape[0]
    part = slice(side // 4, 3 * side // 4)
    assert np.abs(got[part, part].mean((0, 1)) - middle).max() < 25
    log = (folder.parent / "vault" / "recovered.jsonl").read_text().splitlines()
    last = json.loads(log[-1])
    assert (last["record"], last["how"], last["by"], last["why"]) == (record, "password", "auditor", "visit 3")


def test_another_key_gives_nothing_and_nothing_is_logged(made, tmp_path):
    folder, _, _ = made
    log = folder.parent / "vault" / "recovered.jsonl"
    before = log.read_bytes() if log.exists() else None
    with pytest.raises(NotRecoverable, match="another key"):
        recover(folder, records(folder)[0], Key(b"x" * 32), tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
    assert (log.read_bytes() if log.exists() else None) == before


def test_a_record_of_another_release_is_refused(made, tmp_path):
    folder, key, _ = made
    with pytest.raises(NotRecoverable, match="no record"):
        recover(folder, key.film("9.png"), key, tmp_path / "a.png")


def test_a_file_is_never_overwritten(made, tmp_path):
    folder, key, _ = made
    (tmp_path / "a.png").write_bytes(b"mine")
    with pytest.raises(NotRecoverable, match="already there"):
        recover(folder, records(folder)[0], key, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == b"mine"


def test_two_records_have_two_passwords(made):
    from updp.methods.invented_face.method import InventedFace

    folder, key, _ = made
    first, second = records(folder)[:2]
    assert key.password(first) != key.password(second)
    method = InventedFace(side=64)
    film = np.asarray(Image.open(folder / f"images/00000/{first}.png"))
    assert method.recover([film], [key.password(first)])[0].shape == film.shape
    with pytest.raises(BadPassword):
        method.recover([film], [key.password(second)])


def test_originals_of_two_records_cannot_be_swapped(made, tmp_path):
    folder, key, _ = made
    first, second = records(folder)[:2]
    kept = folder.parent / "vault" / "originals"
    held = (kept / f"{first}.vault").read_bytes()
    try:
        (kept / f"{first}.vault").write_bytes((kept / f"{second}.vault").read_bytes())
        with pytest.raises(BadVault):
            recover(folder, first, key, tmp_path / "a.png", how="vault")
    finally:
        (kept / f"{first}.vault").write_bytes(held)


def test_the_release_holds_neither_originals_nor_passwords(made):
    folder, key, originals = made
    for path in folder.rglob("*"):
        if path.is_file():
            raw = path.read_bytes()
            assert all(key.password(record) not in raw for record in originals)
            assert all(data[64:128] not in raw for data in originals.values())
    assert not list(folder.rglob("*.vault"))


def test_the_command_writes_the_exact_file_and_refuses_what_is_not_there(made, tmp_path):
    from typer.testing import CliRunner

    from updp.cli.app import app
    from updp.cli.secrets import recover as _command  # noqa: F401 - registers it

    folder, _, originals = made
    Key.create(tmp_path / "key", b"k" * 32)
    record = records(folder)[0]

    def run(*arguments: str):
        return CliRunner().invoke(app, ["recover", str(folder), "--key", str(tmp_path / "key"), *arguments])

    done = run("--record", record, "--to", str(tmp_path / "a.png"), "--exact")
    assert done.exit_code == 0
    assert (tmp_path / "a.png").read_bytes() == originals[record]
    assert run("--record", "f" + "a" * 19, "--to", str(tmp_path / "b.png")).exit_code != 0
    assert not (tmp_path / "b.png").exists()


def test_a_release_that_was_edited_after_signing_gives_nothing_back(made, tmp_path):
    folder, key, _ = made
    copied = shutil.copytree(folder.parent, tmp_path / "out") / folder.name
    with (copied / "manifest.parquet").open("ab") as file:  # a manifest says which file a record is
        file.write(b"x")
    with pytest.raises(NotRecoverable, match="edited"):
        recover(copied, records(folder)[0], key, tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
