"""Photographs of patients who do not exist, from a clinic of invented people, with networks of a few channels."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training import small_faces
from updp.domains.face.labels import DISEASES
from updp.models.face_patients import PatientDenoiser
from updp.models.face_space import FaceSpace, fit_space
from updp.models.faces import ColourBlocks
from updp.training.face_stages import as_tensor
from updp.virtual.mema import build as mema
from updp.virtual.mema.training import CONFIG, People, train_patients

SMALL = {"width": 16, "layers": 1, "heads": 2, "token": 8}
QUICK = replace(CONFIG, steps=2, batch=4, warmup=1)


def people(count: int, start: int = 0) -> People:
    films, _ = small_faces.invented(start + count)
    numbers = np.arange(count)
    sexes = np.array(["F", "M"])[numbers % 2]
    return People(
        films[start:], np.array([f"p{n}" for n in numbers]), numbers % 8 - 1, numbers % 3, 2 + numbers % 4, sexes
    )


@pytest.fixture(scope="module")
def space() -> FaceSpace:
    films, points = small_faces.invented(12)
    images, code, made = as_tensor(films), ColourBlocks(), FaceSpace(small_faces.SIDE, components=8, eyes=4, persons=4)
    code.fit(images)
    torch.manual_seed(0)
    marks = torch.from_numpy(points.astype(np.float32)).flatten(1) / small_faces.SIDE
    fit_space(made, code, images, torch.arange(12), marks)
    return made


def colours(films: np.ndarray) -> np.ndarray:
    """A recogniser of mean colours."""
    found = films.reshape(len(films), 4, -1, 4, films.shape[2] // 4, 3).mean((2, 4)).reshape(len(films), -1)
    found = found - found.mean(1, keepdims=True)
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def test_a_set_is_written_with_splits_card_and_figures(tmp_path, space, monkeypatch):
    monkeypatch.setattr(mema, "read_people", lambda path, side: people(6, 6 if path.name == "public" else 0))
    out = tmp_path / "set"
    figures = mema.build(
        tmp_path / "clinic", tmp_path / "public", out, space, seed=1, images=12, judged=8, config=QUICK, model=SMALL,
        recognisers={"colours": colours}, say=lambda line: None,
    )  # fmt: skip
    written = list(out.glob("*/*/*.png"))
    assert len(written) == figures["written"] == 12 - figures["dropped"]
    assert {path.parent.parent.name for path in written} <= {"train", "val", "test"}
    assert {path.parent.name for path in written} <= {*DISEASES, "Normal"}
    assert json.loads((out / "figures.json").read_text())["leakage"]["direct"].keys() == {"colours", "average"}
    assert "too near to a patient" in (out / "README.md").read_text()
    with pytest.raises(mema.BadMema, match="not empty"):
        mema.build(tmp_path / "clinic", tmp_path / "public", out, space, seed=1)


def test_the_weight_of_a_public_face_changes_the_sample_and_none_is_as_without_it():
    torch.manual_seed(0)
    net = PatientDenoiser(12, 8, 7, **SMALL)
    for layer in net.layers:  # what training would make of the layers that begin at zero
        torch.nn.init.normal_(layer.cross_attn_out.weight)
    noise, face = torch.randn(2, 12), torch.randn(2, 8)
    told = (torch.eye(7)[:2], torch.eye(3)[:2])
    without = net.sample(*told, noise, None, torch.ones(2), steps=3)
    nothing = net.sample(*told, noise, face, torch.zeros(2), steps=3)
    some = net.sample(*told, noise, face, torch.full((2,), 0.4), steps=3)
    assert torch.allclose(without, nothing, atol=1e-5)
    assert not torch.allclose(without, some, atol=1e-3)


def test_the_generator_learns_the_patients(tmp_path, space):
    config = replace(QUICK, steps=60, batch=16, rate=3e-3)
    said: list[str] = []
    train_patients(people(4), space, tmp_path, config, {**SMALL, "width": 32}, said.append)
    again = train_patients(people(4), space, tmp_path, config, {**SMALL, "width": 32}, said.append)
    assert any("resumed at step 60" in line for line in said)
    assert isinstance(again, PatientDenoiser)


def test_a_patient_himself_leaks_and_a_threshold_lets_few_strangers_pass():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((80, 16)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    limit = mema.threshold(features, np.arange(80).astype(str))
    assert mema.leaked(features[:5], features, limit).all()
    alike = features @ features.T
    np.fill_diagonal(alike, -1)
    assert (alike > limit).mean() <= 0.0012
    with pytest.raises(mema.BadMema):
        mema.threshold(features[:3], np.array(["a", "a", "a"]))


def test_guided_sampling_is_nearer_to_the_clinic_than_chance():
    clinic, public = people(6), people(12)
    clinic = replace(clinic, disease=np.zeros(6, np.int64))
    rng = np.random.default_rng(0)
    drawn, free = mema.guided(clinic, public, 60, rng), mema.at_random(public, 60, rng)
    assert mema.variation(drawn.disease, clinic.disease) == 0
    assert mema.variation(free.disease, clinic.disease) > 0.5
    assert set(public.sex[drawn.public]) <= set(clinic.sex)


class Square(torch.nn.Module):
    """A segmenter that finds a square of a given side in every second photograph."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def masks(self, images: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(len(images), 1, *images.shape[-2:])
        out[::2, :, 10 : 10 + self.side, 10 : 10 + self.side] = 1
        return out


@pytest.mark.parametrize(("side", "masked"), [(5, 2), (0, 0), (16, 0)])
def test_only_tumours_of_their_size_get_masks(side, masked):
    films = np.zeros((6, small_faces.SIDE, small_faces.SIDE, 3), np.uint8)
    which = [DISEASES.index(name) for name in ("BCC", "SCC", "TAO", "SCC", "BCC", "Ptosis")]
    wanted = mema.Wanted(np.array(which), np.zeros(6, int), np.zeros(6, int))
    found = mema.masks_of(films, wanted, Square(side))
    assert len(found) == masked
    assert set(found) <= {0, 1, 3, 4}
    assert mema.masks_of(films, wanted, None) == {}


def test_masks_stand_beside_the_photographs_and_the_set_still_opens_as_mema(tmp_path, space, monkeypatch):
    from updp.sources import open_source

    monkeypatch.setattr(mema, "read_people", lambda path, side: people(6, 6 if path.name == "public" else 0))
    out = tmp_path / "set"
    figures = mema.build(
        tmp_path / "clinic", tmp_path / "public", out, space, seed=3, images=40, judged=4, config=QUICK, model=SMALL,
        recognisers={}, segmenter=Square(5), say=lambda line: None,
    )  # fmt: skip
    masks = {path.relative_to(out / "masks") for path in (out / "masks").rglob("*.png")}
    assert len(masks) == figures["tumours"] > 0
    assert all((out / path).exists() and path.parent.name in mema.TUMOURS for path in masks)
    assert len([study for study in open_source(out, domain="face")]) == figures["written"]
