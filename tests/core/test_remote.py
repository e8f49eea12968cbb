"""Files at an address: what is said of faults, and how a file takes its place."""

from __future__ import annotations

import uuid

import pytest

from updp.core.remote import Remote, RemoteError, address_of

pytest.importorskip("fsspec")
NAME = "Smith_Mary_19480203/film.dcm"


@pytest.fixture
def store():
    return Remote(f"memory://{uuid.uuid4().hex}")


def test_no_message_quotes_the_name_of_a_file(store):
    for ask in (store.read, lambda name: store.copy(name, "b"), lambda name: store.reading(name).__enter__()):
        with pytest.raises(FileNotFoundError) as missing:
            ask(NAME)
        assert "Smith" not in str(missing.value)
        assert missing.value.__suppress_context__


def test_a_scheme_that_nobody_knows_is_named_without_the_rest_of_the_address():
    with pytest.raises(RemoteError, match="nosuch://") as unknown:
        Remote("nosuch://hospital/Smith_Mary").exists("a")
    assert "Smith" not in str(unknown.value)


def test_a_driver_that_cannot_begin_says_what_to_check_and_quotes_nothing(monkeypatch):
    """That of HDFS raises an error where Java is missing or nothing answers, before any file is asked for."""
    import fsspec

    def unable(address, **_):
        raise OSError(2, f"Unable to load libjvm for {address}")

    monkeypatch.setattr(fsspec.core, "url_to_fs", unable)
    with pytest.raises(RemoteError, match="hdfs:// cannot be opened") as said:
        Remote(f"hdfs://{uuid.uuid4().hex}/Smith_Mary").exists("a")
    assert "Smith" not in str(said.value)
    assert said.value.__suppress_context__


def test_a_store_that_refuses_says_what_to_check_and_quotes_nothing(store, monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    def refuse(self, path, *_, **__):
        raise PermissionError(path)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", refuse)
    with pytest.raises(RemoteError, match="credentials") as refused:
        store.read(NAME)
    assert "Smith" not in str(refused.value)


def test_where_there_is_a_rename_a_file_is_written_beside_its_place_and_renamed(tmp_path, monkeypatch):
    from fsspec.implementations.local import LocalFileSystem

    remote = Remote(f"local://{tmp_path}")
    remote.put("a/b", b"first")
    remote.put("a/b", b"second")
    assert (tmp_path / "a" / "b").read_bytes() == b"second"

    def killed(self, *_, **__):
        raise OSError("killed before the rename")

    monkeypatch.setattr(LocalFileSystem, "mv", killed)
    with pytest.raises(RemoteError):
        remote.put("a/b", b"third")
    assert (tmp_path / "a" / "b").read_bytes() == b"second"


def test_of_two_who_create_a_file_one_succeeds(store):
    assert store.create("lock", b"one")
    assert not store.create("lock", b"two")
    assert store.read("lock") == b"one"


@pytest.mark.parametrize("place", ["/data/export", "C:\\export", "C:/export", "file:///data/export", "export"])
def test_a_path_of_this_machine_is_no_address(place):
    assert address_of(place) is None
