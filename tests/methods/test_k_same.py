"""k-same, on a tiny untrained pack of the real classes."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.conftest import draw
from tests.methods.films import streams, studies
from updp.core.record import Study
from updp.methods import UnknownMethod, make_method
from updp.methods.k_same import KSame, cut
from updp.models import PackError


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A folder of eleven people, the first with two films."""
    folder = tmp_path_factory.mktemp("people")
    for n in range(11):
        Image.fromarray(draw(100 + n, 256)).save(folder / f"{n:02d}-0.png")
    Image.fromarray(draw(500, 256)).save(folder / "00-1.png")
    return str(folder)


@pytest.mark.parametrize("k", [2, 3, 5, 11])
def test_every_group_has_at_least_k_people_and_everyone_is_in_one(k):
    points = torch.nn.functional.normalize(torch.randn(11, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    groups = cut(points, k)
    assert sorted(int(row) for rows in groups for row in rows) == list(range(11))
    assert all(k <= len(rows) < 2 * k for rows in groups)


def test_more_people_asked_for_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="3 people"):
        cut(torch.eye(3), 4)


def test_k_same_releases_averages_of_its_gallery_and_nothing_else(small_pack, people):
    method = KSame(pack=small_pack, max_k=4, gallery=people)
    out = method.deidentify(studies(6), 1.0, streams(6))
    films = method.gallery.films
    assert len(films) == 11
    allowed = [films[rows].mean(0)[0].numpy() for rows in method.groups(4)]
    for made in out:
        assert made.decided == {"k": 4, "groups": 2}
        assert any(np.abs(made.pixels - one).max() < 1e-6 for one in allowed)


def test_k_same_gives_people_of_its_gallery_their_own_group(small_pack, people):
    method = KSame(pack=small_pack, max_k=3, gallery=people)
    films = method.gallery.films
    own = [Study(f"g{n}", f"g{n}", f"g{n}", pixels=film[0].numpy()) for n, film in enumerate(films)]
    made = method.deidentify(own, 1.0, streams(len(own)))
    for rows in method.groups(3):
        mean = films[rows].mean(0)[0].numpy()
        assert len(rows) >= 3
        for row in rows:
            assert np.abs(made[int(row)].pixels - mean).max() < 1e-5


def test_k_grows_with_strength(small_pack, people):
    method = KSame(pack=small_pack, max_k=8, gallery=people)
    assert [method.k(s) for s in (0.0, 0.5, 1.0)] == [2, 4, 8]


def test_k_same_by_findings_runs_on_the_same_groups(small_pack, people):
    method = KSame(pack=small_pack, max_k=4, gallery=people, choose="findings")
    assert method.deidentify(studies(2), 0.0, streams(2))[0].decided["k"] == 2


def test_k_same_without_people_says_what_to_give(small_pack, tmp_path):
    with pytest.raises(PackError, match="gallery=FOLDER"):
        KSame(pack=small_pack, gallery=str(tmp_path)).deidentify(studies(1), None, streams(1))


@pytest.mark.parametrize("options", [{"max_k": 1}, {"choose": "luck"}])
def test_k_same_refuses_settings_without_meaning(options):
    with pytest.raises(UnknownMethod, match="k-same"):
        make_method("k-same", options)
