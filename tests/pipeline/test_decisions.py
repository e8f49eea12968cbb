"""An officer's decisions: logged so that changes show, applied to what they touch, and the release verifies."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

import updp
from tests.conftest import PLAIN, Hospital, reasons, same_tree, sweep
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.questions import Outcome
from updp.core.reasons import Reason
from updp.core.storage import OutputError
from updp.pipeline.decisions import OVERRULED, BadDecision, Decision, Kind, Way, decide, log_of, read_decisions
from updp.release import manifest
from updp.release.assemble import finished
from updp.release.vault import open_vault
from updp.release.verify import verify

POLICY = Policy.parse(PLAIN.replace("'keep'", "'pixelate'"))
FILMS = 12


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    root = tmp_path_factory.mktemp("decisions")
    hospital = Hospital(root / "export", films=FILMS)
    hospital.add(FILMS, findings="Das Herz ist normal groß. Kein Pleuraerguss. Keine Stauung der Lunge.")
    hospital.write()
    updp.deidentify(hospital.root, root / "out", policy=POLICY, key=Key(bytes(range(32))), workers=1)
    return root


@pytest.fixture
def ran(run_once, tmp_path):
    shutil.copytree(run_once, tmp_path / "ran", copy_function=shutil.copy2)
    return tmp_path / "ran"


def again(root: Path, key: Key) -> Path:
    """The run with the decisions taken since; its release is intact."""
    outcome = updp.deidentify(root / "export", root / "out", policy=POLICY, key=key, workers=1)
    failed = [c.name for c in verify(outcome.folder).checks if c.outcome is Outcome.FAILED and c.name != "gate"]
    assert failed == []
    return outcome.folder


def folder_of(root: Path) -> Path:
    ended = finished(root / "out")
    assert ended is not None
    return ended.folder


def ref_of(key: Key, n: int) -> str:
    return key.ref(f"MRN7741982-{n}")


def films(folder: Path) -> dict[str, bytes]:
    return {
        row["release_id"]: (folder / row["file_name"]).read_bytes()
        for row in manifest.read(folder)
    }


def test_a_film_kept_back_leaves_the_release_and_a_withdrawal_restores_every_byte(ran, key, tmp_path):
    before = folder_of(ran)
    shutil.copytree(before, tmp_path / "before")
    decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, 3), "officer", "a tattoo"))
    folder = again(ran, key)
    assert key.film("MRN7741982-3") not in films(folder)
    assert len(films(folder)) == FILMS - 1
    assert reasons(ran / "out")[Reason.OFFICER] == 1
    assert any(link["ref"] == ref_of(key, 3) for link in open_vault(ran / "out" / "vault", key))
    decide(ran / "out", key, Decision(Kind.WITHDRAW, ref_of(key, 3), "officer"))
    assert same_tree(again(ran, key), tmp_path / "before")


def test_another_strength_changes_one_film_and_the_manifest_says_so(ran, key):
    before = films(folder_of(ran))
    decide(ran / "out", key, Decision(Kind.REDO, ref_of(key, 5), "officer", strength=0.2))
    folder = again(ran, key)
    after, name = films(folder), key.film("MRN7741982-5")
    assert {film for film in before if after[film] != before[film]} == {name}
    rows = {row["release_id"]: json.loads(row["decided"]) for row in manifest.read(folder)}
    assert [film for film, decided in rows.items() if decided.get("review") == "redone"] == [name]


def test_a_study_whose_report_kept_it_back_leaves_without_it(ran, key):
    name = key.film(f"MRN7741982-{FILMS}")
    assert name not in films(folder_of(ran))
    assert reasons(ran / "out") == {Reason.REPORT_LANGUAGE: 1}
    way = OVERRULED[Reason.REPORT_LANGUAGE]
    decide(ran / "out", key, Decision(Kind.RELEASE, ref_of(key, FILMS), "officer", "read by a colleague", way=way))
    folder = again(ran, key)
    row = next(row for row in manifest.read(folder) if row["release_id"] == name)
    assert not row["has_report"]
    assert reasons(ran / "out") == {}


def test_a_string_that_identifies_leaves_every_report_that_has_it(ran, key):
    folder = folder_of(ran)
    refs = {row["release_id"]: row for row in manifest.read(folder)}
    links = {link.get("release_id"): link["ref"] for link in open_vault(ran / "out" / "vault", key)}
    affected = tuple(sorted(links[name] for name in refs))
    decide(ran / "out", key, Decision(Kind.PHI, affected[0], "officer", text="nodule", affected=affected))
    folder = again(ran, key)
    assert "nodule" in (folder_of(ran) / "manifest.parquet").read_bytes().decode("latin1").lower()  # the label stays
    texts = "".join(path.read_text() for path in (folder / "reports").glob("*.jsonl"))
    assert "nodule" not in texts.lower()
    assert len(films(folder)) == FILMS
    assert read_decisions(ran / "out", key).block == ("nodule",)


@pytest.mark.posix
def test_nothing_an_officer_writes_stands_in_the_log_in_the_clear(ran, key):
    decide(ran / "out", key, Decision(Kind.PHI, ref_of(key, 1), "officer", text="Quibblesworth"))
    decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, 1), "officer", words="that is Zanthora"))
    assert sweep(ran / "out" / "review") == []
    assert read_decisions(ran / "out", key).lines[1].words == "that is Zanthora"
    assert (log_of(ran / "out").stat().st_mode & 0o777) == 0o600


@pytest.mark.parametrize("fault", ["altered", "removed", "swapped", "other key"])
def test_a_log_that_was_changed_stops_everything(ran, key, fault):
    for n in range(3):
        decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, n), "officer", at=f"2026-01-0{n + 1}"))
    path = log_of(ran / "out")
    lines = path.read_bytes().splitlines(keepends=True)
    changed = {
        "altered": [lines[0].replace(b"keep back", b"withdraw "), *lines[1:]],
        "removed": lines[1:],
        "swapped": [lines[1], lines[0], lines[2]],
        "other key": lines,
    }[fault]
    path.write_bytes(b"".join(changed))
    reader = Key(bytes(32)) if fault == "other key" else key
    with pytest.raises(BadDecision):
        read_decisions(ran / "out", reader)
    with pytest.raises(BadDecision):
        decide(ran / "out", reader, Decision(Kind.WITHDRAW, ref_of(key, 0), "officer"))
    if fault != "other key":
        with pytest.raises(BadDecision):
            updp.deidentify(ran / "export", ran / "out", policy=POLICY, key=key, workers=1)


def test_a_log_that_was_cut_behind_what_was_applied_is_refused(ran, key):
    for n in range(2):
        decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, n), "officer"))
    again(ran, key)
    lines = log_of(ran / "out").read_bytes().splitlines(keepends=True)
    for left in (lines[:1], []):
        log_of(ran / "out").write_bytes(b"".join(left))
        with pytest.raises(BadDecision, match="cut"):
            read_decisions(ran / "out", key)
    log_of(ran / "out").unlink()
    with pytest.raises(BadDecision, match="cut"):
        updp.deidentify(ran / "export", ran / "out", policy=POLICY, key=key, workers=1)


def test_a_full_disk_takes_no_decision_and_harms_none(ran, key, monkeypatch):
    decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, 0), "officer"))
    whole = log_of(ran / "out").read_bytes()
    write = os.write

    def full(handle: int, data: bytes) -> int:
        """Room for the beginning of a line, then for nothing."""
        if len(data) > 600:
            return write(handle, data[:40])
        raise OSError(errno.ENOSPC, "No space left on device")

    def fails(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name, fault in (("fsync", fails), ("write", full)):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, fault)
            with pytest.raises(OutputError, match="no room left"):
                decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, 1), "officer"))
        assert log_of(ran / "out").read_bytes() == whole
    decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, 1), "officer"))
    assert len(read_decisions(ran / "out", key).lines) == 2


def test_a_line_that_a_killed_server_left_unfinished_was_not_taken(ran, key):
    for n in range(2):
        decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, n), "officer"))
    path = log_of(ran / "out")
    path.write_bytes(path.read_bytes()[:-30])
    assert len(read_decisions(ran / "out", key).lines) == 1
    decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, 2), "officer"))
    assert [line.ref for line in read_decisions(ran / "out", key).lines] == [ref_of(key, 0), ref_of(key, 2)]


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (Decision(Kind.RELEASE, "q", "officer", "because", way=None), "written reason"),
        (Decision(Kind.RELEASE, "q", "officer", " ", way=Way.NO_REPORT), "written reason"),
        (Decision(Kind.REDO, "q", "officer"), "seed or strength"),
        (Decision(Kind.REDO, "q", "officer", strength=2.0), "between 0 and 1"),
        (Decision(Kind.PHI, "q", "officer", text=" "), "identifies"),
    ],
)
def test_half_a_decision_is_refused(tmp_path, key, decision, why):
    with pytest.raises(BadDecision, match=why):
        decide(tmp_path, key, decision)
    assert not log_of(tmp_path).exists()


def test_a_run_killed_while_it_applies_decisions_goes_on(ran, key, monkeypatch):
    from updp.pipeline import run

    decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, 3), "officer"))
    monkeypatch.setattr(run, "assemble", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        again(ran, key)
    monkeypatch.undo()
    assert len(films(again(ran, key))) == FILMS - 1
    assert not (ran / "out" / ".superseded").exists()


def test_without_records_of_shards_everything_is_made_again_and_comes_out_alike(ran, key):
    before = films(folder_of(ran))
    shutil.rmtree(ran / "out" / "records")
    decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, 3), "officer"))
    after = films(again(ran, key))
    assert after == {name: data for name, data in before.items() if name in after}
    assert len(after) == FILMS - 1


def test_a_film_that_was_altered_in_the_release_is_made_again(ran, key):
    before = films(folder_of(ran))
    name = key.film("MRN7741982-0")
    path = next(folder_of(ran).rglob(f"{name}.png"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")  # of the same size
    decide(ran / "out", key, Decision(Kind.KEEP_BACK, ref_of(key, 11), "officer"))
    after = films(again(ran, key))
    assert after[name] == before[name]
    assert len(after) == FILMS - 1
