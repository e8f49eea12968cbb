"""Stages of a pack of faces: identity learned from one recogniser, disease, lesions, and diffusion of diseased eyes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.core.cache import FolderCache, kept_once, key_of
from updp.domains.face.labels import DISEASES
from updp.models.face_blend import blend
from updp.models.face_space import FaceSpace
from updp.models.faces import EyeClassifier, EyeDenoiser, EyeSegmenter, FaceIdentity, strip
from updp.training.faces import FaceCorpus
from updp.training.figures import auc, mean_auc
from updp.training.loop import StageConfig

#: Framed photographs N×S×S×3 to unit features of a recogniser.
Teacher = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
_WATCHED = 256  # validation rows
_ILL = 0.6  # share of a batch that has a disease for certain


def as_tensor(films: NDArray[np.uint8]) -> Tensor:
    """uint8 photographs N×S×S×3 to N×3×S×S in [0, 1]."""
    return torch.from_numpy(np.ascontiguousarray(films)).permute(0, 3, 1, 2).float().div_(255)


def latents_of(space: FaceSpace, films: NDArray[np.uint8]) -> Tensor:
    """Components of faces and of the detail around their eyes."""
    out = []
    with torch.no_grad():
        for start in range(0, len(films), 64):
            images = as_tensor(films[start : start + 64])
            out.append(torch.cat([space.encode(images), space.encode_eyes(images)], 1))
    return torch.cat(out)


def jittered(images: Tensor, rng: np.random.Generator, masks: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Photographs under other light, mirrored or not, moved by a few pixels; masks move along."""
    n, side = len(images), images.shape[-1]
    reach = max(1, side // 40)
    dx, dy = (int(v) for v in rng.integers(-reach, reach + 1, 2))
    mirror = torch.from_numpy(rng.random(n) < 0.5)[:, None, None, None]

    def moved(x: Tensor) -> Tensor:
        x = torch.where(mirror, x.flip(-1), x)
        padded = functional.pad(x, (reach,) * 4, mode="replicate")
        return padded[..., reach + dy : reach + dy + side, reach + dx : reach + dx + side]

    light = rng.uniform(0.82, 1.15, (n, 1, 1, 1)) * rng.uniform(0.93, 1.07, (n, 3, 1, 1))
    out = moved(images) * torch.from_numpy(light.astype(np.float32))
    out = out + 0.01 * torch.from_numpy(rng.standard_normal(tuple(out.shape), np.float32))
    return out.clamp(0, 1), None if masks is None else moved(masks)


class FaceStage:
    """A network on rows of a corpus of faces. A subclass has ``build``, ``loss`` and ``validate``."""

    name: str

    def __init__(self, corpus: FaceCorpus, config: StageConfig, model: dict[str, Any]) -> None:
        self.corpus, self.config, self.model = corpus, config, model
        self.rows = corpus.rows("train")
        self.ill = self.rows[corpus.labels[self.rows].any(1)]
        watched = corpus.rows("val")
        self.watched = np.random.default_rng(0).permutation(watched)[:_WATCHED]
        self.module: nn.Module = self.build()
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def build(self) -> nn.Module:
        raise NotImplementedError

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Rows of a batch; those with a disease are more than their share."""
        drawn = rng.choice(self.rows, self.config.batch)
        if len(self.ill):
            drawn = np.where(rng.random(len(drawn)) < _ILL, rng.choice(self.ill, len(drawn)), drawn)
        return drawn

    def masks(self, rows: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self.corpus.masks[rows]).float()[:, None]


class IdentityStage(FaceStage):
    """Learns the features of one recogniser, of photographs and of blends of two people."""

    name = "identity"

    def __init__(
        self,
        corpus: FaceCorpus,
        config: StageConfig,
        model: dict[str, Any],
        teacher: Teacher,
        directory: Path,
        taught: int = 0,
    ) -> None:
        """``taught`` is the most photographs of training people that the recogniser is asked about; 0 is all."""
        super().__init__(corpus, config, model)
        rng = np.random.default_rng([config.seed, *b"blends"])
        first = np.unique(corpus.photos, return_index=True)[1]
        learns = rng.permutation(first[corpus.splits[first] == "train"])[: taught or None]
        own = np.concatenate([np.sort(learns), first[corpus.splits[first] == "val"][: taught // 4 or None]])
        others = rng.permutation(first[corpus.splits[first] == "train"])
        strength = torch.from_numpy(rng.uniform(0.4, 1, len(own)).astype(np.float32))

        def asked() -> dict[str, NDArray[Any]]:
            blended = []
            for i in range(0, len(own), 64):
                part = own[i : i + 64]
                around = others[(np.arange(i, i + len(part))) % len(others)]
                made = blend(as_tensor(corpus.films[part]), as_tensor(corpus.films[around]), strength[i : i + 64])
                blended.append((made * 255).round().byte().permute(0, 2, 3, 1).numpy())
            films = np.concatenate([corpus.films[own], *blended])
            return {"films": films, "features": np.concatenate([teacher(film[None]) for film in films])}

        key = key_of("teacher", corpus.films[own[:4]], own, config.seed)
        held = kept_once(FolderCache(directory), key, asked)
        self.films, self.features = held["films"], held["features"].astype(np.float32)
        split = np.tile(corpus.splits[own], 2)
        self.learned, self.judged = np.flatnonzero(split == "train"), np.flatnonzero(split == "val")
        self.people = corpus.patients[own]

    def build(self) -> FaceIdentity:
        return FaceIdentity(**self.model)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = rng.choice(self.learned, self.config.batch)
        images, _ = jittered(as_tensor(self.films[rows]), rng)
        ours, theirs = module(images.to(device)), torch.from_numpy(self.features[rows]).to(device)
        alike = functional.mse_loss(ours @ ours.T, theirs @ theirs.T)
        loss: Tensor = 1 - (ours * theirs).sum(1).mean() + 10 * alike
        return loss

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        if not len(self.judged):
            return {}
        net: Any = module
        ours = net.embed(as_tensor(self.films[self.judged])).numpy()
        figures = {"cosine to the recogniser": float((ours * self.features[self.judged]).sum(1).mean())}
        photos = self.judged < len(self.people)
        people, own = self.people[self.judged[photos]], ours[photos]
        same = people[:, None] == people[None]
        upper = np.triu_indices(len(people), 1)
        if same[upper].any() and not same[upper].all():
            figures["verification"] = auc(same[upper], (own @ own.T)[upper])
        return figures


class DiseaseStage(FaceStage):
    name = "classifier"

    def build(self) -> EyeClassifier:
        from updp.models.lpips import installed_weights, read_trunk

        made = EyeClassifier(DISEASES, **self.model)
        if not self.model:  # of AlexNet's own sizes
            layers: Any = made.trunk
            for layer, (kernel, bias) in zip(layers, read_trunk(installed_weights()), strict=False):
                layer.weight.copy_(kernel)
                layer.bias.copy_(bias)
        return made

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = self.draw(rng)
        images, _ = jittered(as_tensor(self.corpus.films[rows]), rng)
        return functional.binary_cross_entropy_with_logits(
            module(images.to(device)), torch.from_numpy(self.corpus.labels[rows]).to(device)
        )

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        if not len(self.watched):
            return {}
        net: Any = module
        scores = net.probabilities(as_tensor(self.corpus.films[self.watched])).numpy()
        truth = self.corpus.labels[self.watched]
        ill = truth.sum(1) > 0
        right = scores[ill].argmax(1) == truth[ill].argmax(1)
        return {"auc": mean_auc(truth, scores), "accuracy among the ill": float(right.mean()) if ill.any() else 0.0}


def dice(found: Tensor, masks: Tensor) -> Tensor:
    """The Dice coefficient of each mask that is not empty."""
    there = masks.flatten(1).any(1)
    p, m = found[there].flatten(1), masks[there].flatten(1)
    return 2 * (p * m).sum(1) / (p.sum(1) + m.sum(1)).clamp_min(1e-6)


class LesionStage(FaceStage):
    name = "segmenter"

    def build(self) -> EyeSegmenter:
        return EyeSegmenter(**self.model)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = self.draw(rng)
        images, masks = jittered(as_tensor(self.corpus.films[rows]), rng, self.masks(rows))
        assert masks is not None
        logits, truth = module(images.to(device)), strip(masks).to(device)
        loss = functional.binary_cross_entropy_with_logits(logits, truth, pos_weight=torch.tensor(5.0, device=device))
        overlap = dice(torch.sigmoid(logits), truth)
        return loss + (1 - overlap.mean() if len(overlap) else 0.0)

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        if not len(self.watched):
            return {}
        net: Any = module
        found = (net.masks(as_tensor(self.corpus.films[self.watched])) > 0.5).float()
        overlap = dice(found, self.masks(self.watched))
        return {"dice": float(overlap.mean())} if len(overlap) else {}


class DenoiserStage(FaceStage):
    """Diffusion of diseased eyes: noise predicted at a time drawn evenly, the disease left out every tenth time."""

    name = "medical"

    def build(self) -> EyeDenoiser:
        return EyeDenoiser(DISEASES, **self.model)

    def _error(self, module: nn.Module, images: Tensor, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        eyes = strip(images)
        times = torch.from_numpy(rng.random(len(rows)).astype(np.float32)).to(eyes.device)
        noise = torch.from_numpy(rng.standard_normal(tuple(eyes.shape), np.float32)).to(eyes.device)
        turn = (times * torch.pi / 2)[:, None, None, None]
        # Strips are in [0, 1] where the network expects them; noise is drawn around the same middle.
        noisy = 0.5 + turn.cos() * (eyes - 0.5) + 0.5 * turn.sin() * noise
        labels = torch.from_numpy(self.corpus.labels[rows] * (rng.random((len(rows), 1)) > 0.1)).float()
        return functional.mse_loss(module(noisy, times, labels.to(eyes.device)), noise)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        rows = self.draw(rng)
        images, _ = jittered(as_tensor(self.corpus.films[rows]), rng)
        return self._error(module, images.to(device), rows, rng)

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        if not len(self.watched):
            return {}
        rng = np.random.default_rng(0)
        return {"noise": float(self._error(module, as_tensor(self.corpus.films[self.watched]), self.watched, rng))}
