"""Source and output at an address: fsspec's memory here, and an S3-compatible server in another process."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

import updp
from tests.conftest import PLAIN, Hospital
from tests.pipeline.conftest import download, upload
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.remote import Remote, RemoteError
from updp.pipeline import depot, run
from updp.pipeline.depot import Depot, Lock
from updp.pipeline.run import RunError
from updp.release.signature import public_key
from updp.release.verify import verify

fsspec = pytest.importorskip("fsspec")

KEY = Key(bytes(range(32)))
#: Random or of the day: sealed files, and what names the day.
LEFT_OUT = {"signature", "settings.sealed"}


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(depot, "BEAT", 0.05)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """An export, and its release made on this machine."""
    root = tmp_path_factory.mktemp("plain")
    source = Hospital(root / "export", films=10).write()
    updp.deidentify(source, root / "out", key=KEY, policy=Policy.parse(PLAIN), workers=1)
    return source, root / "out"


@pytest.fixture
def memory():
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    yield "memory://bucket"
    store.store.clear()


def content(out: Path) -> dict[str, bytes]:
    """The release and what else of an output does not differ by day or by chance."""
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in LEFT_OUT | {"run.json"} and path.suffix != ".vault"
        and path.relative_to(out).parts[0] != "records"
    }  # fmt: skip


def make(source, out, **more):
    return updp.deidentify(source, out, key=KEY, policy=Policy.parse(PLAIN), workers=1, **more)


def same(address, plain_out, folder):
    """Whether the release at an address is that of this machine, byte for byte, and whole."""
    got = download(address, folder)
    assert content(got) == content(plain_out)
    assert verify(got / "unmeasured", trusted=public_key(KEY)).intact
    names = {path.name for path in (plain_out / "vault").iterdir()}
    assert {path.name for path in (got / "vault").iterdir()} == names
    assert not (got / ".work").exists()


def test_source_and_output_at_an_address_give_the_bytes_of_a_local_run(plain, memory, tmp_path):
    source, out = plain
    outcome = make(upload(source, f"{memory}/export"), f"{memory}/out")
    assert outcome.address == f"{memory}/out/unmeasured"
    assert outcome.released == 10
    same(f"{memory}/out", out, tmp_path / "got")
    assert not list((tmp_path / "cache").rglob("*.csv"))  # tables of the source do not stay
    again = make(f"{memory}/export", f"{memory}/out")
    assert (again.released, again.address) == (10, outcome.address)


def test_a_run_that_was_killed_goes_on_from_what_landed_in_the_store(plain, memory, tmp_path, monkeypatch):
    source, out = plain
    landed = []

    def fails(self, made, record, own=Depot.land):
        if len(landed) == 2:
            raise KeyboardInterrupt
        landed.append(record.shard)
        own(self, made, record)

    monkeypatch.setattr(Depot, "land", fails)
    with pytest.raises(KeyboardInterrupt):
        make(source, f"{memory}/out")
    assert not Remote(f"{memory}/out").exists("unmeasured/signature")
    monkeypatch.setattr(Depot, "land", lambda self, made, record, own=Depot.land: landed.append(record.shard))
    monkeypatch.undo()
    monkeypatch.setattr(depot, "BEAT", 0.05)
    before = list(landed)
    own = run._process
    done = []
    monkeypatch.setattr(run, "_process", lambda job, shard: done.append(shard.index) or own(job, shard))
    make(source, f"{memory}/out")
    assert len(before) == 2
    assert done == [2]  # the two that landed are not made again
    same(f"{memory}/out", out, tmp_path / "got")


def test_a_release_without_a_signature_is_no_release_and_is_put_again(plain, memory, tmp_path, monkeypatch):
    source, out = plain
    with monkeypatch.context() as patch:
        patch.setattr(Remote, "create", lambda self, name, data, own=Remote.create:
                      own(self, name, data) if "lock" in name else stop())  # fmt: skip
        with pytest.raises(KeyboardInterrupt):
            make(source, f"{memory}/out")
    assert Remote(f"{memory}/out").exists("unmeasured/README.md")
    Remote(f"{memory}/out").put("unmeasured/stray.txt", b"left by the run before")
    make(source, f"{memory}/out")
    same(f"{memory}/out", out, tmp_path / "got")


def stop():
    raise KeyboardInterrupt


def test_a_film_that_was_lost_in_the_store_is_made_again(plain, memory, tmp_path, monkeypatch):
    source, out = plain
    with monkeypatch.context() as patch:
        patch.setattr(Depot, "publish", lambda *_: stop())
        with pytest.raises(KeyboardInterrupt):
            make(source, f"{memory}/out")
    remote = Remote(f"{memory}/out")
    film = next(found for _, files in remote.walk(".work/build/images") for found in files)
    remote.remove(film.name)
    make(source, f"{memory}/out")
    same(f"{memory}/out", out, tmp_path / "got")


def test_two_drivers_on_one_output_the_second_is_refused(memory):
    remote = Remote(f"{memory}/out")
    with Lock(remote, RunError("busy")), pytest.raises(RunError, match="busy"):
        Lock(remote, RunError("busy")).__enter__()
    with Lock(remote, RunError("busy")) as free:
        assert free.number == 1


def test_the_lock_of_a_driver_that_died_is_taken_over_and_one_that_slept_stops(memory):
    remote = Remote(f"{memory}/out")
    dead = Lock(remote, RunError("busy"))
    dead.number = 1
    remote.put(".work/lock-00001", b"still")
    with Lock(remote, RunError("busy")) as heir:
        assert heir.number == 2
        dead.thread.start()
        dead.thread.join(20)
        with pytest.raises(RunError, match="busy"):
            dead.check()
        heir.check()


def test_of_many_drivers_that_find_a_dead_lock_one_gets_it(memory):
    remote = Remote(f"{memory}/out")
    remote.put(".work/lock-00001", b"still")
    held, refused = [], []
    gate = threading.Barrier(4)

    def drive():
        gate.wait()
        try:
            with Lock(remote, RunError("busy")):
                held.append(1)
                gate.wait()
        except RunError:
            refused.append(1)
            gate.wait()

    threads = [threading.Thread(target=drive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(held), len(refused)) == (1, 3)


def test_an_output_inside_the_source_and_contents_of_a_source_at_an_address_are_refused(plain, memory):
    address = upload(plain[0], f"{memory}/export")
    with pytest.raises(RunError, match="inside the source"):
        make(address, f"{memory}/export/out")
    with pytest.raises(RunError, match="--check-content"):
        make(address, f"{memory}/out", check_content=True)


def test_a_source_that_changed_is_noticed_on_resume(plain, memory, tmp_path, monkeypatch):
    folder = shutil.copytree(plain[0], tmp_path / "export")
    address = upload(folder, f"{memory}/export")
    with monkeypatch.context() as patch:
        patch.setattr(Depot, "publish", lambda *_: stop())
        with pytest.raises(KeyboardInterrupt):
            make(address, f"{memory}/out")
    film = next(folder.rglob("*.png"))
    Remote(address).put(film.relative_to(folder).as_posix(), film.read_bytes() + b"x")
    with pytest.raises(RunError, match="source has changed"):
        make(address, f"{memory}/out")


def test_a_store_that_goes_away_stops_the_run_with_a_sentence_and_keeps_no_film_back(plain, memory, monkeypatch):
    address = upload(plain[0], f"{memory}/export")
    from fsspec.implementations.memory import MemoryFileSystem

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "get_file", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("gone")))
        with pytest.raises(RemoteError, match="run the same command again"):
            make(address, f"{memory}/out")
    assert make(address, f"{memory}/out").quarantined == {}


# -- an S3-compatible server -------------------------------------------------------------------------------------------


def test_a_run_from_s3_to_s3_by_two_processes_gives_the_bytes_of_a_local_run(plain, s3, tmp_path):
    source, out = plain
    address = upload(source, f"{s3}/export")
    outcome = updp.deidentify(address, f"{s3}/out", key=KEY, policy=Policy.parse(PLAIN), workers=2)
    assert outcome.address == f"{s3}/out/unmeasured"
    same(f"{s3}/out", out, tmp_path / "got")


def test_s3_puts_an_object_only_if_there_is_none(s3):
    remote = Remote(f"{s3}/lock")
    assert remote.create("a", b"1")
    assert not remote.create("a", b"2")
    assert remote.read("a") == b"1"


def test_a_bucket_that_is_not_there_and_a_server_that_is_gone_are_sentences(s3, plain, monkeypatch):
    with pytest.raises(RemoteError, match=r"nothing at the address|check address and network"):
        make("s3://nowhere/export", f"{s3}/other")
    began = time.monotonic()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    fsspec.filesystem("s3").clear_instance_cache()
    from updp.core import remote

    remote._system.cache_clear()
    with pytest.raises(RemoteError, match="check address and network"):
        make(plain[0], f"{s3}/gone")
    assert time.monotonic() - began < 600
