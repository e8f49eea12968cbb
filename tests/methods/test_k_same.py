"""k-same, on a tiny untrained pack of the real classes."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.conftest import Hospital, draw
from tests.methods.films import streams, studies
from updp.core.record import Study
from updp.methods import UnknownMethod, make_method
from updp.methods.k_same import KSame, cut
from updp.models import PackError
from updp.sources import open_source

pytestmark = pytest.mark.numeric


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
    allowed = [method.gallery.picture(rows).mean(0)[0].numpy() for rows in method.groups(4)]
    for made in out:
        assert made.decided == {"k": 4, "groups": 2, "space": "pixels"}
        assert any(np.abs(made.pixels - one).max() < 1e-6 for one in allowed)


def test_k_same_gives_people_of_its_gallery_their_own_group(small_pack, people):
    method = KSame(pack=small_pack, max_k=3, gallery=people)
    films = method.gallery.picture(torch.arange(11))
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


@pytest.fixture
def export(tmp_path):
    """An export of nine patients with two films each."""
    return Hospital(tmp_path / "export", films=18).write()


@pytest.mark.parametrize("space", ["pixels", "latents"])
def test_fitted_on_the_hospital_every_released_film_is_that_of_at_least_k_patients(small_pack, export, space):
    method = KSame(pack=small_pack, max_k=3, fit=str(export), space=space)
    source = open_source(export)
    own = [source.load(study) for study in source]
    made = method.deidentify(own, 1.0, streams(len(own)))
    assert len(method.gallery.identities) == 9
    assert len(method.gallery.looks) == 18
    patients = {}
    for study, one in zip(own, made, strict=True):
        assert one.decided["anonymous_among"] == "the hospital's patients"
        patients.setdefault(one.pixels.tobytes(), set()).add(study.patient_id)
    assert len(patients) == len(method.groups(3)) == one.decided["groups"]
    assert all(len(of) >= 3 for of in patients.values())
    assert sum(map(len, patients.values())) == 9  # all films of a patient are in one group


def test_pixels_and_latents_are_different_averages(small_pack, people):
    pixels, latents = (KSame(pack=small_pack, gallery=people, space=s).averages(3) for s in ("pixels", "latents"))
    assert pixels.shape == latents.shape
    assert (pixels - latents).abs().mean() > 1e-3


def test_an_export_of_one_patient_makes_no_group(small_pack, tmp_path):
    hospital = Hospital(tmp_path / "one", films=2).write()
    with pytest.raises(ValueError, match="fewer than two patients"):
        KSame(pack=small_pack, fit=str(hospital)).deidentify(studies(1), None, streams(1))


@pytest.mark.parametrize(
    "options", [{"max_k": 1}, {"choose": "luck"}, {"fit": "a", "gallery": "b"}, {"fit": "a", "choose": "findings"}]
)
def test_k_same_refuses_settings_without_meaning(options):
    with pytest.raises(UnknownMethod, match="k-same"):
        make_method("k-same", options)
