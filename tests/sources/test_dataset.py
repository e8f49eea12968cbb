"""`updp.torch_dataset`: films, multi-hot labels and masks."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader

import updp
from tests.conftest import Hospital
from updp.sources import BadSource


@pytest.fixture
def release(tmp_path, key, policy):
    hospital = Hospital(tmp_path / "sent", films=12)
    for n, row in enumerate(hospital.rows):
        row["labels"] = ("Effusion|Nodule", "No Finding", "")[n % 3]
    return updp.deidentify(hospital.write(), tmp_path / "out", policy=policy, key=key, workers=1).folder


def test_labels_are_multi_hot_and_films_without_labels_are_masked(release):
    films = updp.torch_dataset(release)
    assert (len(films), films.classes) == (12, ("Effusion", "Nodule"))
    told = [(film["labels"].tolist(), film["mask"].tolist()) for film in films]
    assert sorted(map(str, told)) == sorted(
        map(str, [([1.0, 1.0], [True] * 2), ([0.0] * 2, [True] * 2), ([0.0] * 2, [False] * 2)] * 4)
    )
    assert films[0]["image"].shape == (1, 64, 64)
    assert films[0]["image"].dtype == torch.float32
    assert "effusion" in films[0]["report"]


def test_splits_part_the_films_and_share_no_patient(release):
    parts = {split: updp.torch_dataset(release, split) for split in ("train", "val", "test")}
    assert sum(map(len, parts.values())) == 12
    patients = [{film["patient"] for film in part} for part in parts.values()]
    assert sum(map(len, patients)) == len(set().union(*patients))


def test_local_and_received_films_stand_side_by_side_under_one_list_of_classes(release, tmp_path):
    local = Hospital(tmp_path / "local", films=4)
    for row in local.rows:
        row["labels"] = "Effusion|Edema"
    classes = ("Effusion", "Edema", "Nodule")
    both = ConcatDataset([
        updp.torch_dataset(release, classes=classes),
        updp.torch_dataset(local.write(), classes=classes, size=64),
    ])  # fmt: skip
    batch = next(iter(DataLoader(both, batch_size=16)))
    assert batch["image"].shape == (16, 1, 64, 64)
    assert batch["mask"][-1].tolist() == [True, True, False]  # nobody looked for nodules in the local films
    assert batch["mask"][:12, 1].any().item() is False


def test_a_source_without_films_is_told(tmp_path):
    hospital = Hospital(tmp_path / "export", films=1)
    hospital.rows[0]["image"] = "gone.png"
    with pytest.raises(BadSource, match="no film"):
        updp.torch_dataset(hospital.write())


def test_films_that_cannot_be_read_are_told_or_left_out(tmp_path):
    hospital = Hospital(tmp_path / "export", films=3)
    (hospital.root / hospital.rows[1]["image"]).write_bytes(b"")
    export = hospital.write()
    with pytest.raises(BadSource, match="image-empty"):
        list(updp.torch_dataset(export))
    assert len(list(updp.torch_dataset(export, check=True))) == 2


def test_labels_derived_from_reports_are_masked_unless_asked_for(release):
    given, both = updp.torch_dataset(release), updp.torch_dataset(release, derived=True)
    assert sum(film["derived"] for film in given) == 4
    assert not any(film["mask"].any() for film in given if film["derived"])
    assert [film["labels"].tolist() for film in both if film["derived"]] == [[1.0, 1.0]] * 4
    assert all(film["mask"].all() for film in both)
