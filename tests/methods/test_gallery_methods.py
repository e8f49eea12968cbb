"""k-same and vanilla image-to-image, on a tiny untrained pack of the real classes."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.conftest import draw
from tests.methods.tiny import tiny_pack
from updp.core.reasons import Reason
from updp.core.record import Study
from updp.methods import UnknownMethod, make_method
from updp.methods.k_same import KSame, cut
from updp.models import PackError


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return str(tiny_pack(tmp_path_factory.mktemp("packs") / "tiny"))


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A folder of eleven people, the first with two films."""
    folder = tmp_path_factory.mktemp("people")
    for n in range(11):
        Image.fromarray(draw(100 + n, 256)).save(folder / f"{n:02d}-0.png")
    Image.fromarray(draw(500, 256)).save(folder / "00-1.png")
    return str(folder)


def studies(count, first=0, **changes):
    made = [
        Study(f"f{n}", f"s{n}", f"p{n}", pixels=draw(n, 256).astype(np.float32) / 255, view="PA", labels=("Effusion",))
        for n in range(first, first + count)
    ]
    return [study.but(**changes) for study in made]


def streams(count, seed=0):
    return [np.random.default_rng(seed + n) for n in range(count)]


@pytest.mark.parametrize("k", [2, 3, 5, 11])
def test_every_group_has_at_least_k_people_and_everyone_is_in_one(k):
    points = torch.nn.functional.normalize(torch.randn(11, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    groups = cut(points, k)
    assert sorted(int(row) for rows in groups for row in rows) == list(range(11))
    assert all(k <= len(rows) < 2 * k for rows in groups)


def test_more_people_asked_for_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="3 people"):
        cut(torch.eye(3), 4)


def test_k_same_releases_averages_of_its_gallery_and_nothing_else(pack, people):
    method = KSame(pack=pack, max_k=4, gallery=people)
    out = method.deidentify(studies(6), 1.0, streams(6))
    films = method.gallery.films
    assert len(films) == 11
    allowed = [films[rows].mean(0)[0].numpy() for rows in method.groups(4)]
    for made in out:
        assert made.decided == {"k": 4, "groups": 2}
        assert any(np.abs(made.pixels - one).max() < 1e-6 for one in allowed)


def test_k_same_gives_people_of_its_gallery_their_own_group(pack, people):
    method = KSame(pack=pack, max_k=3, gallery=people)
    films = method.gallery.films
    own = [Study(f"g{n}", f"g{n}", f"g{n}", pixels=film[0].numpy()) for n, film in enumerate(films)]
    made = method.deidentify(own, 1.0, streams(len(own)))
    for rows in method.groups(3):
        mean = films[rows].mean(0)[0].numpy()
        assert len(rows) >= 3
        for row in rows:
            assert np.abs(made[int(row)].pixels - mean).max() < 1e-5


def test_k_grows_with_strength(pack, people):
    method = KSame(pack=pack, max_k=8, gallery=people)
    assert [method.k(s) for s in (0.0, 0.5, 1.0)] == [2, 4, 8]


def test_k_same_by_findings_runs_on_the_same_groups(pack, people):
    method = KSame(pack=pack, max_k=4, gallery=people, choose="findings")
    assert method.deidentify(studies(2), 0.0, streams(2))[0].decided["k"] == 2


def test_k_same_without_people_says_what_to_give(pack, tmp_path):
    with pytest.raises(PackError, match="gallery=FOLDER"):
        KSame(pack=pack, gallery=str(tmp_path)).deidentify(studies(1), None, streams(1))


@pytest.mark.parametrize("options", [{"max_k": 1}, {"choose": "luck"}])
def test_k_same_refuses_settings_without_meaning(options):
    with pytest.raises(UnknownMethod, match="k-same"):
        make_method("k-same", options)


def image_to_image(pack, **more):
    return make_method("image-to-image", {"pack": pack, "steps": 3, **more})


def test_image_to_image_of_strength_zero_is_the_autoencoder_alone(pack):
    method = image_to_image(pack)
    made = method.deidentify(studies(1), 0.0, streams(1))[0].pixels
    film = torch.from_numpy(studies(1)[0].pixels)[None, None]
    with torch.no_grad():
        again = method.pack.autoencoder.decode(method.pack.autoencoder.encode(film))
    assert np.abs(made - again[0, 0].numpy()).max() < 1e-6


def test_image_to_image_drifts_from_the_film_as_strength_grows(pack):
    method = image_to_image(pack)
    base = method.deidentify(studies(2), 0.0, streams(2))
    moved = [
        np.mean([np.abs(a.pixels - b.pixels).mean() for a, b in zip(base, made, strict=True)])
        for made in (method.deidentify(studies(2), s, streams(2)) for s in (0.1, 0.9))
    ]
    assert 0 < moved[0] < moved[1]


def test_image_to_image_gives_a_study_the_same_film_in_any_batch(pack):
    together = image_to_image(pack).deidentify(studies(3), 0.5, streams(3))
    alone = image_to_image(pack).deidentify(studies(3)[1:2], 0.5, streams(3)[1:2])
    assert np.abs(together[1].pixels - alone[0].pixels).max() < 1e-4


def test_a_lateral_film_is_kept_back_and_the_others_are_made(pack):
    batch = studies(3)
    batch[1] = batch[1].but(view="LATERAL")
    out = image_to_image(pack).deidentify(batch, None, streams(3))
    assert [one.refused for one in out] == [None, Reason.FILM_NOT_FRONTAL, None]


@pytest.mark.parametrize("strength", [-0.01, 1.01])
def test_strength_outside_its_range_is_an_error(pack, strength):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        image_to_image(pack).deidentify(studies(1), strength, streams(1))
