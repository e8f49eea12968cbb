"""A pack of tiny networks and tiny weights of MedSem-DeID, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training import small_faces
from updp.methods.medsem.method import MedSem
from updp.methods.train import train_method

MODEL = {"width": 16, "layers": 1, "heads": 2, "fused": 1, "critic": 8, "recogniser": ""}


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("medsem")
    pack = small_faces.pack(root / "tiny-faces")
    train_method(
        "medsem",
        [],
        root / "weights",
        pack=pack.path,
        corpus=small_faces.corpus(),
        settings={"steps": 3, "batch": 4, "warmup": 1},
        model=MODEL,
        say=lambda line: None,
    )
    return pack.path, root / "weights"


@pytest.fixture(scope="session")
def make(folders):
    def made(**options) -> MedSem:
        return MedSem(pack=str(folders[0]), weights=str(folders[1]), **options)

    return made
