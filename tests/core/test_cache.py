"""The cache of attackers: whole files or none, by content."""

from __future__ import annotations

import numpy as np
import pytest

from updp.core.cache import FolderCache, Layered, MemoryCache, clear, kept_once, key_of, size_of


def test_what_is_put_comes_back_the_same(tmp_path):
    cache = FolderCache(tmp_path / "learned")
    arrays = {"a": np.arange(5, dtype=np.float16), "names": np.array(["x", "yy"])}
    key = key_of("something", np.zeros(3))
    assert cache.get(key) is None
    cache.put(key, arrays)
    found = FolderCache(tmp_path / "learned").get(key)
    assert set(found) == {"a", "names"}
    for name in arrays:
        np.testing.assert_array_equal(found[name], arrays[name])
        assert found[name].dtype == arrays[name].dtype
    assert [p.name for p in (tmp_path / "learned").iterdir()] == [f"{key}.npz"]


def test_a_damaged_file_counts_as_absent_and_is_replaced(tmp_path):
    cache = FolderCache(tmp_path)
    cache.put("k", {"a": np.ones(100)})
    (tmp_path / "k.npz").write_bytes((tmp_path / "k.npz").read_bytes()[:90])
    assert cache.get("k") is None
    cache.put("k", {"a": np.ones(2)})
    assert cache.get("k")["a"].tolist() == [1, 1]


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    cache = FolderCache(tmp_path)
    with pytest.raises(ValueError, match="Object arrays"):
        cache.put("k", {"a": np.array([object()])})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["", "../outside", "a/b"])
def test_a_key_is_no_path(tmp_path, key):
    with pytest.raises(ValueError, match="key"):
        FolderCache(tmp_path).put(key, {})


@pytest.mark.posix
def test_features_of_patients_are_readable_by_their_owner_alone(tmp_path):
    FolderCache(tmp_path / "c").put("k", {"a": np.ones(1)})
    assert (tmp_path / "c" / "k.npz").stat().st_mode & 0o077 == 0


def test_keys_tell_content_shape_and_type_apart():
    a = np.arange(6, dtype=np.int32)
    keys = [
        key_of(a),
        key_of(a.reshape(2, 3)),
        key_of(a.astype(np.int64)),
        key_of(a[::-1]),
        key_of("a", "bc"),
        key_of("ab", "c"),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of(a[::2]) == key_of(np.array([0, 2, 4], np.int32))


def test_the_memory_forgets_the_oldest_and_the_lasting_cache_does_not(tmp_path):
    memory, folder = MemoryCache(most=1000), FolderCache(tmp_path)
    both = Layered(memory, folder)
    for name in ("first", "second"):
        both.put(name, {"a": np.zeros(100)})
    assert memory.get("first") is None
    assert both.get("first")["a"].shape == (100,)
    assert memory.get("first") is not None
    assert Layered(MemoryCache(), None).get("first") is None


def test_an_array_is_made_once_for_a_key_and_again_for_another(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"a": np.arange(3)}

    for key in ("one", "one", "two"):
        assert kept_once(FolderCache(tmp_path), key, make)["a"].tolist() == [0, 1, 2]
    assert len(made) == 2


def test_clearing_removes_what_is_ours_and_nothing_else(tmp_path):
    FolderCache(tmp_path / "learned").put("k", {"a": np.zeros(100)})
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "real.u8").write_bytes(bytes(500))
    (tmp_path / "thesis.doc").write_bytes(b"x")
    held = size_of(tmp_path)
    assert held > 1300
    assert clear(tmp_path) == held
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.doc"]
    assert clear(tmp_path) == 0
