"""Stage `identity`: a linear layer in closed form on ImageNet maps, then supervised contrastive learning over patients.

Contrast as in Khosla et al. 2020 (arXiv 2004.11362). Each batch holds two films of many patients; a patient with a
single film gives two augmented views of it. A memory of recent embeddings supplies the negatives that a small batch
lacks (cross-batch memory, Wang et al. 2020, arXiv 1912.06798).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from updp.core.global_state import seeded
from updp.models.backbone import EfficientNetLite0
from updp.models.identity import Identity
from updp.training.augment import augment
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.figures import auc
from updp.training.loop import StageConfig, TrainingError

TEMPERATURE = 0.1


class IdentityStage:
    name = "identity"

    def __init__(
        self, corpus: Corpus, config: StageConfig, size: int, start: EfficientNetLite0 | None,
        directory: Path | None = None, frozen: int = 5, share: float = 1.0, memory: int = 1024,
    ) -> None:  # fmt: skip
        """`directory` keeps the features the linear layer is fitted on; `share` of patients, for learning curves."""
        self.corpus, self.config, self.size = corpus, config, size
        rows = corpus.rows("train")
        groups: dict[str, list[int]] = {}
        for row in rows:
            groups.setdefault(str(corpus.patients[row]), []).append(int(row))
        many = sorted(p for p, films in groups.items() if len(films) > 1)
        if not many:
            raise TrainingError("no training patient has two films: identity cannot be learned from this source")
        if share < 1:
            kept = np.random.default_rng(config.seed).permutation(many)
            many = sorted(kept[: max(2, int(share * len(many)))])
        self.many = [np.array(groups[p]) for p in many]
        self.single = [np.array(f) for p, f in sorted(groups.items()) if len(f) == 1] if share == 1 else []
        self.module: nn.Module = self.build()
        self._capacity = memory
        self._memory: list[tuple[Tensor, Tensor]] = []
        if start is None:
            return
        self.module.backbone.load_state_dict(start.state_dict())
        self.module.backbone.freeze(frozen)
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        used = np.concatenate([*self.many, *self.single])
        features = film_features(self.module.eval(), corpus, used, directory)
        fit_linear(self.module, features, corpus.patients[used])

    def build(self) -> Identity:
        return Identity(self.size)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        people = self.config.batch // 2
        lone = min(people // 8, len(self.single))
        # Weight by films: a patient with sixty films gives more pairs than one with two, but not thirty times more.
        weights = np.sqrt([len(films) for films in self.many])
        chosen = rng.choice(
            len(self.many), min(people - lone, len(self.many)), replace=False, p=weights / weights.sum()
        )
        rows: list[int] = []
        person: list[int] = []
        for place in chosen:
            rows.extend(rng.choice(self.many[place], 2, replace=False))
            person.extend([int(place)] * 2)
        for place in rng.choice(len(self.single), lone, replace=False) if lone else ():
            rows.extend([self.single[place][0]] * 2)
            person.extend([len(self.many) + int(place)] * 2)
        films = augment(as_tensor(self.corpus.films[np.array(rows)]).to(device), self.size, rng)
        embedded = module(films)
        who = torch.tensor(person, device=device)
        # The memory may be out of date; it is rebuilt within a few steps after a resume.
        others = torch.cat([embedded.detach(), *(m for m, _ in self._memory)])
        names = torch.cat([who, *(w for _, w in self._memory)])
        self._memory = [(embedded.detach(), who), *self._memory][: self._capacity // max(1, len(who))]
        logits = embedded @ others.T / TEMPERATURE
        logits[:, : len(embedded)] = embedded @ embedded.T / TEMPERATURE
        itself = torch.zeros_like(logits, dtype=torch.bool)
        itself[:, : len(embedded)].fill_diagonal_(True)
        logits = logits.masked_fill(itself, -1e4)
        same = (who[:, None] == names[None]) & ~itself
        share = logits.log_softmax(1)
        loss: Tensor = -((share * same).sum(1) / same.sum(1).clamp_min(1)).mean()
        return loss

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        rows = self.corpus.rows("val")
        device = next(module.parameters()).device
        parts = [module(as_tensor(self.corpus.films[rows[i : i + 32]]).to(device)) for i in range(0, len(rows), 32)]
        return identity_figures(torch.cat(parts).cpu().numpy(), self.corpus.patients[rows], np.random.default_rng(0))


@torch.no_grad()
def film_features(
    module: Identity, corpus: Corpus, rows: NDArray[np.int64], directory: Path | None = None
) -> NDArray[np.float32]:
    """The maps of films as the linear layer gets them; kept in `directory` if there is one."""
    path = None
    if directory is not None:
        digest = hashlib.sha256(rows.tobytes())
        for value in module.backbone.state_dict().values():
            digest.update(value.numpy().tobytes())
        path = directory / f"maps-{digest.hexdigest()[:12]}.npy"
        if path.exists():
            kept: NDArray[np.float32] = np.load(path).astype(np.float32)
            return kept
    parts = [module.features(as_tensor(corpus.films[rows[i : i + 32]])).numpy() for i in range(0, len(rows), 32)]
    features: NDArray[np.float32] = np.concatenate(parts)
    if path is not None:
        np.save(path, features.astype(np.float16))
    return features


def fit_linear(
    module: Identity,
    features: NDArray[np.float32],
    patients: NDArray[np.str_],
    components: int = 384,
    ridge: float = 0.1,
) -> None:
    """The linear layer in closed form: principal components, then directions in which a person's films agree.

    Linear discriminant analysis with within-person whitening; contrastive steps can only improve on a good start.
    """
    x = torch.from_numpy(features)
    centre, spread = x.mean(0), x.std(0).clamp_min(1e-2)
    x = (x - centre) / spread
    components = min(components, *(n - 1 for n in x.shape))
    with seeded(0):  # the randomised decomposition draws its test matrix from the global generator
        _, scale, basis = torch.pca_lowrank(x, q=components, center=False, niter=3)
    basis = basis / scale.clamp_min(1e-6) * len(x) ** 0.5
    y = x @ basis
    within = torch.zeros(components, components)
    means = []
    counted = 0
    for person in np.unique(patients):
        own = y[torch.from_numpy(np.flatnonzero(patients == person))]
        means.append(own.mean(0))
        if len(own) > 1:  # each person counts once, however many films there are
            centred = own - own.mean(0)
            within += centred.T @ centred / (len(own) - 1)
            counted += 1
    within = within / max(1, counted)
    within += ridge * within.diagonal().mean() * torch.eye(components)
    values, vectors = torch.linalg.eigh(within)
    whiten = vectors / values.sqrt()
    between = torch.stack(means) @ whiten
    _, _, directions = torch.linalg.svd(between - between.mean(0), full_matrices=False)
    space = module.project.out_features
    weight = (basis @ whiten @ directions[:space].T).T
    with torch.no_grad():
        module.centre.copy_(centre)
        module.spread.copy_(spread)
        module.project.weight.zero_()
        # Of order one in half precision: only the direction of the embedding counts.
        module.project.weight[: len(weight)] = weight / weight.abs().max()


def identity_figures(
    embedded: np.ndarray, patients: np.ndarray, rng: np.random.Generator, gallery: int = 400, most: int = 10
) -> dict[str, float]:
    """Verification AUC over balanced pairs, and rank-1 of a second film among one film of each patient.

    At most `most` genuine pairs per patient, so that a few patients with many films do not decide the figure.
    """
    people = {p: np.flatnonzero(patients == p) for p in np.unique(patients)}
    genuine: list[tuple[int, int]] = []
    impostor: list[tuple[int, int]] = []
    names = sorted(people)
    for name in names:
        films = people[name]
        pairs = [(a, b) for i, a in enumerate(films) for b in films[i + 1 :]]
        for place in rng.permutation(len(pairs))[:most]:
            genuine.append(pairs[place])
    if not genuine or len(names) < 2:
        return {}
    while len(impostor) < len(genuine):
        a, b = rng.choice(len(names), 2, replace=False)
        impostor.append((rng.choice(people[names[a]]), rng.choice(people[names[b]])))
    both = np.array([*genuine, *impostor])
    scores = (embedded[both[:, 0]] * embedded[both[:, 1]]).sum(1)
    truth = np.arange(len(both)) < len(genuine)
    enrolled = sorted(rng.permutation(names)[:gallery])
    probes, kept = [], []
    for name in enrolled:
        order = rng.permutation(people[name])
        kept.append(order[0])
        if len(order) > 1:
            probes.append((order[1], len(kept) - 1))
    figures = {"auc": auc(truth, scores), "pairs": float(len(genuine))}
    if probes:
        ranked = embedded[[p for p, _ in probes]] @ embedded[kept].T
        figures["rank-1"] = float((ranked.argmax(1) == [g for _, g in probes]).mean())
        figures["gallery"] = float(len(kept))
        figures["probes"] = float(len(probes))
    return figures
