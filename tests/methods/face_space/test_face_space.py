"""Small versions of published methods for faces, on a pack that learned from a few invented faces."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.methods.medsem.test_medsem import WORD, eight, near, streams, studies
from tests.training import small_faces
from updp.core.reasons import Reason
from updp.methods import UnknownMethod, make_method
from updp.methods.base import BadPassword, Reversible
from updp.methods.face_space.rotations import bits_of
from updp.methods.face_space.swaps import face_region
from updp.training.face_recipe import train_face_pack
from updp.training.face_stages import as_tensor

pytestmark = pytest.mark.numeric

TURNED_BACK, NOT = ("fit", "personal", "riddle"), ("disguise", "deepprivacy", "ciagan")


@pytest.fixture(scope="session")
def pack(tmp_path_factory):
    config = small_faces.CONFIG.but(space_model={"components": 24, "eyes": 8, "persons": 16})
    folder = tmp_path_factory.mktemp("space") / "tiny-faces"
    corpus = small_faces.corpus(30)
    return train_face_pack(corpus, folder, config, teacher=small_faces.teacher, say=lambda line: None)


def made(name, pack, strength=1.0, count=2, words=None):
    method = make_method(name, {"pack": str(pack.path)}, "face")
    if words is None:
        return [one.pixels for one in method.deidentify(studies(count), strength, streams(count))]
    return [one.pixels for one in method.encrypt(studies(count), strength, streams(count), words)]


@pytest.mark.parametrize("name", TURNED_BACK + NOT)
def test_more_strength_leaves_less_of_the_person_and_none_leaves_the_photograph(name, pack):
    original = small_faces.invented(1)[0][0]
    kept = [near(eight(made(name, pack, strength, 1)[0]), original) for strength in (0.0, 0.4, 1.0)]
    assert kept[0] > 30
    assert kept[0] > kept[1] > kept[2]


@pytest.mark.parametrize("name", TURNED_BACK + NOT)
def test_the_same_stream_gives_the_same_face(name, pack):
    assert np.array_equal(made(name, pack)[1], made(name, pack)[1])


@pytest.mark.parametrize("name", NOT)
def test_what_cannot_be_turned_back_does_not_claim_to(name, pack):
    assert not isinstance(make_method(name, {"pack": str(pack.path)}, "face"), Reversible)


@pytest.mark.parametrize("name", TURNED_BACK)
def test_the_password_gives_the_face_of_the_space_back_and_another_does_not(name, pack):
    method = make_method(name, {"pack": str(pack.path)}, "face")
    assert isinstance(method, Reversible)
    films = [eight(one) for one in made(name, pack, 1.0, 1, [WORD])]
    right, wrong = method.recover(films * 2, [WORD, WORD[::-1]])
    space = pack.role("space")
    framed = as_tensor(small_faces.invented(1)[0])
    best = eight(space.decode(space.encode(framed))[0].permute(1, 2, 0).clamp(0, 1).numpy())
    goal = small_faces.invented(1)[0][0] if name == "fit" else best
    assert near(right, goal) > near(wrong, goal) + 2
    with pytest.raises(BadPassword):
        method.encrypt(studies(1), 1.0, streams(1), [WORD[:-1]])


def test_fit_has_sixteen_bits_and_says_so(pack):
    method = make_method("fit", {"pack": str(pack.path)}, "face")
    assert method.password_bits == 16
    assert set(bits_of([WORD])[0].tolist()) <= {-1.0, 1.0}
    assert bits_of([WORD]).shape == (1, 16)


@pytest.mark.parametrize("name", ["deepprivacy", "ciagan"])
def test_no_pixel_of_the_face_that_is_cut_out_reaches_the_painter(name, pack):
    method = make_method(name, {"pack": str(pack.path)}, "face")
    photos = small_faces.invented(1)[0]
    inside = face_region(small_faces.SIDE, 1.0)[0, 0].numpy() == 1
    other = photos.copy()
    other[:, inside] = 255 - other[:, inside]
    parts = torch.zeros(1, 24)  # landmarks told apart from the photograph
    one, two = (method.changed(as_tensor(p), parts, [WORD], 1.0) for p in (photos, other))
    assert torch.allclose(one, two, atol=1e-5)


def test_disguise_moves_no_landmark_that_the_map_knows(pack):
    method = make_method("disguise", {"pack": str(pack.path)}, "face")
    space = pack.role("space")
    held = method._held
    rows = space.marks.reshape(space.components, -1, 2)[:, 33:97].flatten(1)
    assert float((held @ rows).norm()) < 0.1 * float(rows.norm())


@pytest.mark.parametrize("name", ["fit", "disguise"])
def test_a_study_without_landmarks_is_kept_back(name, pack):
    method = make_method(name, {"pack": str(pack.path)}, "face")
    study = studies(1)[0].but(landmarks={})
    assert method.deidentify([study], 1.0, streams(1))[0].refused is Reason.FACE_NONE


def test_a_pack_without_a_space_of_faces_ends_a_run_before_its_first_photograph(tmp_path):
    (tmp_path / "pack.toml").write_text('format = 1\nname = "bare"\n[roles]\n')
    with pytest.raises(UnknownMethod, match="no space of faces"):
        make_method("fit", {"pack": str(tmp_path)}, "face")
