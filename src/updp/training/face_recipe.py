"""`updp train pack --domain face`: medical encoder → disease → lesions → identity; code and space are fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from updp.core.global_state import seeded
from updp.core.registry import unknown
from updp.models.face_space import FaceSpace, fit_space
from updp.models.faces import ColourBlocks
from updp.models.pack import Pack
from updp.training.card import describe_pack
from updp.training.config import BadConfig, Config
from updp.training.face_stages import DenoiserStage, DiseaseStage, IdentityStage, LesionStage, Teacher, as_tensor
from updp.training.faces import FaceCorpus, prepare_faces
from updp.training.loop import StageConfig, read_checkpoint
from updp.training.recipe import Say, StagesOf, export_pack

#: Photographs that the components of blocks are taken from.
_BLOCKS_OF = 1000
#: What a pack of faces may hold; the code it always does.
ROLES = ("medical", "classifier", "segmenter", "identity", "space")

_IDENTITY = StageConfig(steps=3000, batch=32, rate=1e-3, warmup=50, average=0.995)
_CLASSIFIER = StageConfig(steps=2000, batch=32, rate=1e-3, warmup=50, average=0.995)
_SEGMENTER = StageConfig(steps=1500, batch=16, rate=1e-3, warmup=50, average=0.995)
_MEDICAL = StageConfig(steps=2000, batch=16, rate=1e-3, warmup=50, average=0.995)


@dataclass(frozen=True)
class FacePackConfig(Config):
    """Sizes and schedules of a pack of faces; the defaults are those of `face128`."""

    name: str = "face128"
    size: int = 128
    seed: int = 0
    roles: Sequence[str] = ROLES  # what the pack holds beside the code
    licence: str = (
        "non-commercial research: learned from CelebA, UTKFace and a recogniser of the InsightFace project"
    )
    looks: int = 3  # rows of each photograph: as it is, and with rendered diseases
    limit: int = 0  # most photographs of each source; 0 is all of them
    ill: int = 0  # most photographs that diseases are rendered on; 0 is all of them
    taught: int = 0  # most photographs that the recogniser is asked about; 0 is all
    recogniser: str = "arcface"  # the one that identity learns from; the others are kept for attacks
    sampling: dict[str, Any] = field(default_factory=dict)
    identity_model: dict[str, Any] = field(default_factory=dict)
    classifier_model: dict[str, Any] = field(default_factory=dict)
    segmenter_model: dict[str, Any] = field(default_factory=dict)
    medical_model: dict[str, Any] = field(default_factory=dict)
    space_model: dict[str, Any] = field(default_factory=dict)
    identity: StageConfig = _IDENTITY
    classifier: StageConfig = _CLASSIFIER
    segmenter: StageConfig = _SEGMENTER
    medical: StageConfig = _MEDICAL

    def __post_init__(self) -> None:
        if wrong := [role for role in self.roles if role not in ROLES]:
            raise BadConfig(unknown("role of a pack of faces", wrong[0], ROLES))

    def as_dict(self) -> dict[str, Any]:
        """Without what concerns roles that the pack does not hold."""
        left_out = {name for role in ROLES if role not in self.roles for name in (role, f"{role}_model")}
        return {name: value for name, value in super().as_dict().items() if name not in left_out}


class FaceRecipe(StagesOf):
    """The stages over one corpus of faces and one run folder."""

    corpus: FaceCorpus
    config: FacePackConfig
    teacher: Teacher | None = None

    def code(self) -> ColourBlocks:
        rows = self.corpus.rows("train")
        chosen = np.random.default_rng(self.config.seed).permutation(rows)[:_BLOCKS_OF]
        blocks = ColourBlocks()
        blocks.fit(as_tensor(self.corpus.films[np.sort(chosen)]))
        return blocks

    def space(self, code: ColourBlocks) -> FaceSpace:
        corpus = self.corpus
        first = np.unique(corpus.photos, return_index=True)[1]
        rows = first[corpus.splits[first] == "train"]
        people = np.unique(corpus.patients[rows], return_inverse=True)[1]
        ill = np.flatnonzero((corpus.splits == "train") & corpus.labels.any(1))
        space = FaceSpace(self.config.size, **self.config.space_model)
        with seeded(self.config.seed):
            fit_space(
                space,
                code,
                as_tensor(corpus.films[rows]),
                torch.from_numpy(people),
                torch.from_numpy(corpus.points[rows]).flatten(1) / self.config.size,
                as_tensor(corpus.films[ill]) if len(ill) else None,
            )
        return space

    def all(self, stop_after: float | None = None) -> dict[str, Any]:
        """Every role, trained or read back."""
        own = self.config

        def identity() -> IdentityStage:
            teacher = self.teacher or taught_by(own.recogniser)
            return IdentityStage(self.corpus, own.identity, own.identity_model, teacher, self.directory, own.taught)

        stages: dict[str, Any] = {
            "medical": lambda: DenoiserStage(self.corpus, own.medical, own.medical_model),
            "classifier": lambda: DiseaseStage(self.corpus, own.classifier, own.classifier_model),
            "segmenter": lambda: LesionStage(self.corpus, own.segmenter, own.segmenter_model),
            "identity": identity,
        }
        made = {
            role: self._run(stage(), getattr(own, role), stop_after)
            for role, stage in stages.items()
            if role in own.roles
        }
        code = self.code()
        space = {"space": self.space(code)} if "space" in own.roles else {}
        return {"autoencoder": code, **space, **made}


def taught_by(recogniser: str) -> Teacher:
    """Features of framed photographs by a recogniser that is installed."""
    from updp.domains.face.frame import GOAL
    from updp.models import recognisers

    def features(films: NDArray[np.uint8]) -> NDArray[np.float32]:
        fives = np.repeat(GOAL[None] * films.shape[1], len(films), 0)
        return recognisers.embed(recogniser, films, fives)

    return features


def train_face_pack(
    sources: Sequence[str | Path] | FaceCorpus,
    out: Path | str,
    config: FacePackConfig | None = None,
    *,
    run: Path | str | None = None,
    teacher: Teacher | None = None,
    accelerator: Any = None,
    say: Say = print,
    stop_after: float | None = None,
) -> Pack:
    """Train a pack of faces on ``sources`` and write it to ``out``; calling it again after a kill goes on.

    ``stop_after`` seconds ends each stage early; the pack says how far each came.
    """
    out, config = Path(out), config or FacePackConfig()
    run = Path(run) if run is not None else out.with_name(out.name + ".run")
    if isinstance(sources, FaceCorpus):
        corpus = sources
    else:
        corpus = prepare_faces(
            sources,
            run / "corpus",
            config.size,
            looks=config.looks,
            seed=config.seed,
            limit=config.limit or None,
            ill=config.ill or None,
            say=say,
        )
    with seeded(config.seed):
        recipe = FaceRecipe(corpus, run / "stages", config, accelerator, say)
        recipe.teacher = teacher
        modules = recipe.all(stop_after)
    made = export_pack(modules, out, config, corpus.record_of_splits())
    trained, figures = {}, {}
    for role in modules:
        state = read_checkpoint(run / "stages" / f"{role}.checkpoint")
        if state is not None:
            trained[role] = int(state["step"])
            last = state["history"][-1] if state["history"] else {}
            figures[role] = {k: v for k, v in last.items() if k not in ("step", "loss")}
    describe_pack(made.path, trained=trained, figures={role: own for role, own in figures.items() if own})
    from updp.models import load_pack

    return load_pack(made.path)
