"""A manifest in parts, and a release large enough to have one: fewer rows to a file stand for more films."""

import shutil

import pyarrow.parquet as pq
import pytest

import updp
from tests.conftest import PLAIN, Hospital
from updp.core.keys import Key
from updp.core.manifest_files import is_manifest, manifest_files, part_names
from updp.core.policy import Policy
from updp.release import manifest
from updp.release.assemble import located
from updp.release.signature import public_key
from updp.release.verify import NotARelease, verify
from updp.sources.files import BadSource

KEY = Key(bytes(range(32)))
FILMS = 12


def made(root, most, monkeypatch):
    monkeypatch.setattr(manifest, "MOST", most)
    policy = Policy.parse(PLAIN)  # four films to a shard
    source = root / "export"
    if not source.exists():
        Hospital(source, films=FILMS).write()
    return updp.deidentify(source, root / f"out-{most}", key=KEY, policy=policy, workers=1).folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same release with its manifest in one file and in three."""
    root = tmp_path_factory.mktemp("manifest")
    with pytest.MonkeyPatch.context() as patch:
        return made(root, 100, patch), made(root, 5, patch)


@pytest.fixture
def parted(pair, tmp_path):
    return shutil.copytree(pair[1], tmp_path / "unmeasured")


def test_a_large_release_has_a_manifest_in_parts_with_the_same_rows(pair):
    whole, parted = pair
    assert [path.name for path in manifest_files(whole)] == ["manifest.parquet"]
    assert [path.name for path in manifest_files(parted)] == part_names(3)
    assert [pq.read_metadata(path).num_rows for path in manifest_files(parted)] == [5, 5, 2]
    assert list(manifest.read(parted)) == list(manifest.read(whole))
    assert manifest.digest(parted) != manifest.digest(whole)
    assert located(parted.parent) == parted


def test_what_reads_a_release_reads_one_in_parts(pair, tmp_path):
    whole, parted = pair
    first, second = (list(updp.open_source(folder)) for folder in pair)
    assert [study.film_id for study in first] == [study.film_id for study in second]
    assert len(updp.torch_dataset(parted)) == len(updp.torch_dataset(whole)) == FILMS
    from updp.release.webdataset import write_shards

    assert write_shards(parted, tmp_path / "tar") == write_shards(whole, tmp_path / "tar-whole")


def test_hugging_face_reads_films_of_a_manifest_in_parts(parted, tmp_path):
    datasets = pytest.importorskip("datasets")
    films = datasets.load_dataset(str(parted), split="films", cache_dir=str(tmp_path / "cache"))
    assert len(films) == FILMS
    assert films[0]["image"].size == (64, 64)


def test_croissant_describes_a_manifest_in_parts(parted):
    mlcroissant = pytest.importorskip("mlcroissant")
    described = mlcroissant.Dataset(jsonld=str(parted / "croissant.json"))
    assert not described.metadata.issues.errors
    rows = list(described.records("films"))
    assert len(rows) == FILMS


def test_a_manifest_that_lacks_a_part_is_no_manifest(parted):
    (parted / part_names(3)[1]).unlink()
    assert manifest_files(parted) == []
    with pytest.raises(NotARelease, match="nor all parts"):
        verify(parted, trusted=public_key(KEY))
    with pytest.raises(BadSource):
        updp.open_source(parted, layout="release")


def test_rows_that_were_not_counted_are_never_left_out_silently(tmp_path, pair):
    rows = list(manifest.read(pair[0]))
    for count in (0, FILMS - 1, FILMS + 1):
        with pytest.raises(ValueError, match="more or fewer rows"):
            manifest.write(tmp_path, rows, count)


@pytest.mark.parametrize(
    ("name", "whether"),
    [("manifest.parquet", True), ("manifest-00001-of-00003.parquet", True), ("manifest-1-of-3.parquet", False),
     ("manifest.csv", False), ("x-manifest.parquet", False)],
)  # fmt: skip
def test_a_manifest_is_known_by_its_name(name, whether):
    assert is_manifest(name) is whether


def test_a_folder_without_a_manifest_is_no_release_without_films(tmp_path):
    with pytest.raises(FileNotFoundError, match="no manifest"):
        list(manifest.read(tmp_path))
