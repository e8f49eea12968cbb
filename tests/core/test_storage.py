import os

import pytest

from updp.core.storage import OutputError, lock_folder, write_bytes, writing


class Stop(Exception):
    """The moment at which the power goes."""


def cut(*_):
    raise Stop


def left(folder):
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_file_is_there_whole_or_not_at_all(tmp_path, fresh, monkeypatch):
    for name in ("fsync", "replace", "link"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, cut)
            if name == ("link" if not fresh else "replace"):
                continue  # not on this way
            with pytest.raises(Stop):
                write_bytes(tmp_path / "key", b"secret", fresh=fresh)
        assert left(tmp_path) == []
    write_bytes(tmp_path / "key", b"secret", fresh=fresh)
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert left(tmp_path) == ["key"]


def test_an_error_in_the_middle_leaves_the_file_before_it(tmp_path):
    write_bytes(tmp_path / "a", b"old")

    def half():
        with writing(tmp_path / "a") as out:
            out.write(b"half")
            raise Stop

    with pytest.raises(Stop):
        half()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert left(tmp_path) == ["a"]


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without links"])
def test_a_fresh_file_never_takes_the_place_of_another(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError()))
    write_bytes(tmp_path / "a", b"one", fresh=True)
    with pytest.raises(FileExistsError):
        write_bytes(tmp_path / "a", b"two", fresh=True)

    def late():
        with writing(tmp_path / "b", fresh=True) as out:
            out.write(b"two")
            (tmp_path / "b").write_bytes(b"meanwhile")

    with pytest.raises(FileExistsError):
        late()
    assert (tmp_path / "a").read_bytes() == b"one"
    assert (tmp_path / "b").read_bytes() == b"meanwhile"


def test_a_folder_is_locked_until_the_block_ends(tmp_path):
    busy = RuntimeError("taken")
    with lock_folder(tmp_path / "a" / "b", "lock", busy), pytest.raises(RuntimeError, match="taken"):
        lock_folder(tmp_path / "a" / "b", "lock", busy)
    with lock_folder(tmp_path / "a" / "b", "lock", busy):
        pass


@pytest.mark.posix
def test_a_locked_folder_is_its_owners_alone_and_a_file_in_its_place_is_explained(tmp_path):
    with lock_folder(tmp_path / "a", "lock", RuntimeError("taken")):
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="cannot be written"):
        lock_folder(tmp_path / "file", "lock", RuntimeError("taken"))
