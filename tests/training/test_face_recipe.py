"""The recipe of a pack of faces, end to end with networks of a few channels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.training import small_faces
from updp.domains.face.labels import DISEASES
from updp.models import load_pack
from updp.training.config import BadConfig
from updp.training.face_recipe import FacePackConfig, train_face_pack
from updp.training.face_stages import as_tensor

pytestmark = pytest.mark.numeric


def test_a_pack_of_faces_fills_its_roles_and_opens_again(tmp_path):
    made = small_faces.pack(tmp_path / "tiny-faces")
    opened = load_pack(made.path)
    assert set(opened.info["roles"]) == {"autoencoder", "space", "identity", "classifier", "segmenter", "medical"}
    photos = as_tensor(small_faces.corpus().films[:3])
    assert opened.classifier.labels == DISEASES
    assert opened.classifier.probabilities(photos).shape == (3, len(DISEASES))
    assert opened.role("segmenter").masks(photos).shape == (3, 1, small_faces.SIDE, small_faces.SIDE)
    assert torch.allclose(opened.identity.embed(photos).norm(dim=1), torch.ones(3), atol=1e-5)
    maps = opened.role("medical").features(photos)
    assert [tuple(m.shape[1:]) for m in maps] == [(8, 8, 16), (8, 4, 8), (16, 2, 4)]
    assert opened.info["trained"] == dict.fromkeys(("identity", "classifier", "segmenter", "medical"), 2)


def test_the_code_of_a_face_loses_next_to_nothing(tmp_path):
    code = small_faces.pack(tmp_path / "tiny-faces").autoencoder
    photos = as_tensor(small_faces.corpus().films)
    again = code.decode(code.encode(photos))
    assert float((again - photos).abs().max()) < 0.5 / 255


def test_a_second_call_reads_the_stages_back(tmp_path):
    first = small_faces.pack(tmp_path / "tiny-faces")
    said: list[str] = []
    again = train_face_pack(
        small_faces.corpus(), tmp_path / "tiny-faces", small_faces.CONFIG, teacher=small_faces.teacher, say=said.append
    )
    assert first.info["sha256"] == again.info["sha256"]
    assert [line for line in said if "resumed at step 2" in line]


def test_the_configuration_of_faces_reads_from_a_file(tmp_path):
    (tmp_path / "faces.toml").write_text('name = "mine"\n[identity]\nsteps = 7\n')
    read = FacePackConfig.read(tmp_path / "faces.toml")
    assert (read.name, read.identity.steps, read.identity.batch) == ("mine", 7, FacePackConfig().identity.batch)


@pytest.mark.parametrize("split", ["train", "val"])
def test_people_of_two_splits_are_others(split):
    corpus = small_faces.corpus()
    own = set(corpus.patients[corpus.rows(split)].tolist())
    rest = set(corpus.patients[np.flatnonzero(corpus.splits != split)].tolist())
    assert own
    assert not own & rest


def test_a_pack_holds_the_roles_that_are_asked_for_and_its_card_no_other(tmp_path):
    config = small_faces.CONFIG.but(roles=["segmenter"])
    made = train_face_pack(small_faces.corpus(), tmp_path / "few", config, say=lambda line: None)
    assert set(made.info["roles"]) == {"autoencoder", "segmenter"}
    assert not {"identity", "classifier", "space_model"} & set(made.info["recipe"])
    with pytest.raises(BadConfig, match="role of a pack of faces"):
        small_faces.CONFIG.but(roles=["gaze"])
