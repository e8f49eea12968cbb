"""The generator of a clinic's patients: what it learns from, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.core.reasons import Refused
from updp.core.record import Study
from updp.domains.face.labels import DISEASES, GRADES
from updp.models.face_patients import PatientDenoiser, mixture
from updp.models.face_space import FaceSpace
from updp.training.face_stages import latents_of
from updp.training.loop import StageConfig, run_stage

CONFIG = StageConfig(steps=3000, batch=64, rate=1e-3, warmup=50, average=0.995)


@dataclass(frozen=True)
class People:
    """Framed photographs of a source, with what is known of them."""

    films: NDArray[np.uint8]  # N×S×S×3
    patients: NDArray[np.str_]
    disease: NDArray[np.int64]  # index in DISEASES, -1 for none
    grade: NDArray[np.int64]  # -1 for none
    age: NDArray[np.int64]  # decade, -1 if it is not known
    sex: NDArray[np.str_]  # F, M or ""

    def __len__(self) -> int:
        return len(self.films)


def read_people(path: Path, size: int, most: int | None = None) -> People:
    """The photographs of a source with exactly one face, in the frame."""
    from updp.domains.face.frame import framed
    from updp.domains.face.landmarks import points_of
    from updp.sources import open_source

    source = open_source(path, domain="face")
    rows: list[tuple[Any, ...]] = []
    for item in source:
        if not isinstance(item, Study) or len(rows) == most:
            continue
        try:
            found = source.domain.examined(source.load(item))
        except Refused:
            continue
        points = points_of(found)
        assert found.pixels is not None
        assert points is not None
        photo = framed(np.rint(found.pixels * 255).astype(np.uint8), points, size)[0]
        labels = set(found.labels or ())
        disease = next((n for n, name in enumerate(DISEASES) if name in labels), -1)
        grade = next((n for n, name in enumerate(GRADES) if name in labels), -1)
        age = -1 if found.age is None else found.age // 10
        rows.append((photo, found.patient_id, disease, grade, age, found.sex or ""))
    if not rows:
        raise ValueError(f"{path} has no photograph with exactly one face")
    films, patients, disease_, grade_, ages, sexes = zip(*rows, strict=True)
    whole = [np.array(column, np.int64) for column in (disease_, grade_, ages)]
    return People(np.stack(films), np.array(patients), whole[0], whole[1], whole[2], np.array(sexes))


def one_hot(values: NDArray[np.int64], count: int) -> Tensor:
    """Rows of zeros for what is not known, or not there."""
    return torch.from_numpy((values[:, None] == np.arange(count)).astype(np.float32))


class PatientsStage:
    """Denoising, the face itself shown every second time: that is what a public face will be shown as."""

    name = "patients"

    def __init__(self, people: People, space: FaceSpace, config: StageConfig, model: dict[str, Any]) -> None:
        self.config, self.faces = config, space.components
        self.latents = latents_of(space, people.films)
        self.disease, self.grade = one_hot(people.disease, len(DISEASES)), one_hot(people.grade, len(GRADES))
        self.model = {
            "components": self.latents.shape[1], "face": space.components, "labels": len(DISEASES),
            "grades": len(GRADES), **model,
        }  # fmt: skip
        self.module: nn.Module = self.build()

    def build(self) -> PatientDenoiser:
        return PatientDenoiser(**self.model)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = rng.integers(len(self.latents), size=self.config.batch)
        clean = self.latents[rows].to(device)
        times = torch.from_numpy(rng.random(len(rows)).astype(np.float32)).to(device)
        noise = torch.from_numpy(rng.standard_normal(tuple(clean.shape), np.float32)).to(device)
        kept, added = mixture(times)
        known = [x[rows].to(device) for x in (self.disease, self.grade)]
        shown = torch.from_numpy((rng.random(len(rows)) < 0.5).astype(np.float32)).to(device)
        face = clean[:, : self.faces]
        made = module(kept[:, None] * clean + added[:, None] * noise, times, *known, face, shown)
        return functional.mse_loss(made, clean)

    def validate(self, module: nn.Module) -> dict[str, float]:
        return {}


def train_patients(
    people: People,
    space: FaceSpace,
    directory: Path,
    config: StageConfig = CONFIG,
    model: dict[str, Any] | None = None,
    say: Callable[[str], None] = print,
) -> PatientDenoiser:
    """Train, or go on with, the generator of these people; its checkpoint is in ``directory``."""
    from updp.core.global_state import seeded

    with seeded(config.seed):
        stage = PatientsStage(people, space, config, dict(model or {}))
        trained: Any = run_stage(stage, config, directory, build=stage.build, say=say)
    net: PatientDenoiser = trained.cpu().eval()
    return net
