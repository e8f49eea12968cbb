"""The tree of checksum lists of a large release; fewer rows to a file of the manifest stand for more films."""

import datetime as dt
import json
import os
import shutil

import pytest

from tests.release.test_manifest import KEY, made
from updp.core.policy import Policy
from updp.release.assemble import restate
from updp.release.signature import (
    Remembered,
    check_signature,
    check_sums,
    checksum_line,
    content_sum,
    file_sum,
    listed_sums,
    public_key,
    sign,
)
from updp.release.verify import verify

PUBLIC = public_key(KEY)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return made(tmp_path_factory.mktemp("tree"), 5, patch)


@pytest.fixture
def release(tree, tmp_path):
    return shutil.copytree(tree, tmp_path / "unmeasured")


def lists(release):
    return sorted((release / "checksums").iterdir())


def test_a_list_of_every_shard_is_signed_through_the_first_list(release):
    names = [line.partition("  ")[2] for line in (release / "checksums.sha256").read_text().splitlines()]
    assert [f"checksums/{path.name}" for path in lists(release)] == [n for n in names if n.startswith("checksums/")]
    assert len(lists(release)) == 3
    assert not [name for name in names if name.startswith(("images/", "reports/"))]
    assert dict(listed_sums(release)) == {
        path.relative_to(release).as_posix(): file_sum(path)
        for path in release.rglob("*")
        if path.is_file() and path.name not in ("checksums.sha256", "signature")
    }
    result = verify(release, trusted=PUBLIC)
    assert result.intact
    assert result.status == "not-measured"


def first_film(release):
    return next(release.rglob("*.png"))


def rewrite(path, change):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(change(lines)))


DAMAGES = {
    "a film altered": lambda r: first_film(r).write_bytes(b"x"),
    "a film missing": lambda r: first_film(r).unlink(),
    "a film more": lambda r: first_film(r).with_name("more.png").write_bytes(b"x"),
    "a report altered": lambda r: next((r / "reports").iterdir()).write_bytes(b"{}\n"),
    "a report file more": lambda r: (r / "reports" / "99999.jsonl").write_bytes(b""),
    "a folder of films more": lambda r: (r / "images" / "99999").mkdir(),
    "a file among the shards": lambda r: (r / "images" / "note.txt").write_bytes(b"x"),
    "a file at the top": lambda r: (r / "note.txt").write_bytes(b"x"),
    "a list altered": lambda r: rewrite(lists(r)[0], lambda lines: lines[1:]),
    "a list missing": lambda r: lists(r)[0].unlink(),
    "a list more": lambda r: (r / "checksums" / "99999.sha256").write_bytes(b""),
    "films by a link": lambda r: link(r / "images" / lists(r)[0].stem),
    "all films by a link": lambda r: link(r / "images"),
    "a list by a link": lambda r: link(lists(r)[0]),
}


def link(path):
    moved = path.parents[2] / "elsewhere"
    path.rename(moved)
    os.symlink(moved, path)


@pytest.mark.posix
@pytest.mark.parametrize("kind", DAMAGES)
def test_what_was_done_to_any_part_of_the_tree_is_found(release, kind):
    assert list(check_sums(release)) == []
    DAMAGES[kind](release)
    faults = list(check_sums(release))
    assert faults
    assert faults == list(check_sums(release, workers=3))
    assert check_signature(release, PUBLIC)  # the first list is untouched: the tree finds it, not the signature


def relist(release, path):
    """The sum of a list in the first list, as whoever signs anew would write it."""
    name = path.relative_to(release).as_posix()
    root = release / "checksums.sha256"
    rewrite(root, lambda lines: [line for line in lines if not line.endswith(f"  {name}\n")])
    with root.open("ab") as more:
        more.write(checksum_line(file_sum(path), name))


def test_a_list_speaks_of_its_own_shard_only_even_if_signed(release):
    seal = check_signature(release)
    one, other = lists(release)[:2]
    moved = other.read_bytes().splitlines(keepends=True)[0]
    with one.open("ab") as more:
        more.write(moved)
    relist(release, one)
    sign(release, KEY, seal)
    assert any("malformed" in fault for fault in check_sums(release))


def test_the_first_list_of_a_tree_speaks_of_no_film(release):
    film = first_film(release)
    with (release / "checksums.sha256").open("ab") as more:
        more.write(checksum_line(file_sum(film), film.relative_to(release).as_posix()))
    assert any("malformed" in fault for fault in check_sums(release))


def test_content_is_told_by_the_lists_of_the_shards(release):
    before = content_sum(release)
    (release / "README.md").write_text("other words")
    assert content_sum(release) == before
    rewrite(release / "checksums.sha256", lambda lines: [line for line in lines if "checksums/00000" not in line])
    assert content_sum(release) != before


def test_a_large_release_is_sealed_anew_with_its_tree(release):
    facts = json.loads((release / "evidence/evaluation.json").read_bytes())
    again = restate(release, facts, Policy.load(release / "policy.toml"), KEY, "<html></html>", dt.date(2026, 3, 4))
    result = verify(again, trusted=PUBLIC)
    assert result.intact, result.checks
    assert result.seal.serial == 2
    assert len(lists(again)) == 3


def test_a_check_of_a_tree_that_remembers_reads_what_changed(release, tmp_path, monkeypatch):
    from updp.release import signature

    read = []
    monkeypatch.setattr(signature, "file_sum", lambda path, own=signature.file_sum: read.append(path.name) or own(path))
    known = tmp_path / "known"
    assert list(check_sums(release, Remembered(known))) == []
    assert len(read) == len(dict(listed_sums(release)))
    read.clear()
    first_film(release).write_bytes(b"x")
    assert len(list(check_sums(release, Remembered(known)))) == 1
    assert read == [first_film(release).name]
    assert known.stat().st_mode & 0o077 == 0
