"""What the trainings of methods share: the films they learn from, and the figures that are watched.

A subclass has ``loss`` and ``release``; ``train_method`` in ``methods/train.py`` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from updp.core.cache import FolderCache, kept_once, key_of
from updp.methods.learned import digests
from updp.models.errors import PackError
from updp.models.generator import Generator
from updp.models.pack import Pack
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.figures import auc, mean_auc
from updp.training.loop import StageConfig, TrainingError


class MethodStage:
    """The training of a method's network on a corpus, with the models of a pack."""

    name: str
    uses: tuple[str, ...] = ("autoencoder", "identity")  # roles of the pack that the weights are bound to
    watched = 32  # validation films
    module: nn.Module

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        pack: Pack,
        model: dict[str, Any],
        *,
        directory: Path,
        people: Mapping[str, tuple[int | None, str | None]],
        say: Callable[[str], None] = print,
    ) -> None:
        """``model`` has the sizes of the network, ``people`` age and sex by film id; ``directory`` keeps what is
        computed once."""
        self.corpus, self.config, self.pack, self.model = corpus, config, pack, model
        self.directory, self.people, self.say = directory, people, say

    def release(self, module: nn.Module, rows: NDArray[np.int64]) -> tuple[Tensor, dict[str, float]]:
        """Films of these rows as the method releases them, and figures of its own."""
        raise NotImplementedError

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        rows = validation_rows(self.corpus, self.watched)
        if len(rows) == 0:
            return {}
        made, figures = self.release(module, rows)
        return figures | linkage_and_findings(self.pack, self.corpus, rows, made)

    def labelled_rows(self, why: str) -> NDArray[np.int64]:
        """Films of the training patients that have labels; none is an error that says ``why`` they are needed."""
        rows = np.flatnonzero((self.corpus.splits == "train") & self.corpus.labelled())
        if len(rows) == 0:
            raise TrainingError(f"no film of the training patients is labelled: {why}")
        return rows

    def own_generator(self) -> Generator:
        """The pack's generator, which must be one of updp's own."""
        generator: Any = self.pack.generator
        if not isinstance(generator, Generator):
            raise PackError(f"{self.name} needs a generator of updp's own; that of pack {self.pack.name} is another")
        return generator


@torch.no_grad()
def cached_identities(
    corpus: Corpus, pack: Pack, rows: NDArray[np.int64], directory: Path, say: Callable[[str], None]
) -> NDArray[np.float16]:
    """Identity embeddings of these rows (others are zero), computed once for the pack's identity."""

    def embed() -> dict[str, NDArray[np.float16]]:
        say(f"embedding {len(rows)} films")
        space = int(pack.info["roles"]["identity"]["config"]["space"])
        out = np.zeros((len(corpus.films), space), np.float16)
        for i in range(0, len(rows), 32):
            part = rows[i : i + 32]
            out[part] = pack.identity.embed(as_tensor(corpus.films[part])).numpy()
        return {"identities": out}

    key = key_of("identities", len(corpus.films), rows, digests(pack).get("identity", ""))
    return kept_once(FolderCache(directory), key, embed)["identities"]


def validation_rows(corpus: Corpus, count: int) -> NDArray[np.int64]:
    """Labelled films of validation patients with several films, to measure linkage and findings on the same films."""
    rows = np.flatnonzero((corpus.splits == "val") & corpus.labelled())
    names, times = np.unique(corpus.patients[rows], return_counts=True)
    several = rows[np.isin(corpus.patients[rows], names[times > 1])]
    chosen = np.random.default_rng(0).permutation(several if len(several) else rows)[:count]
    return np.sort(chosen)


@torch.no_grad()
def linkage_and_findings(pack: Pack, corpus: Corpus, rows: NDArray[np.int64], made: Tensor) -> dict[str, float]:
    """Released films against real ones: frozen linkage, frozen findings. To watch a training, not to state results."""
    real = as_tensor(corpus.films[rows])
    own, new = pack.identity.embed(real).numpy(), pack.identity.embed(made).numpy()
    figures = {
        "linkage real": linkage(own, own, corpus.patients[rows]),
        "linkage": linkage(new, own, corpus.patients[rows]),
        "findings real": mean_auc(corpus.labels[rows], pack.classifier.probabilities(real).numpy()),
        "findings": mean_auc(corpus.labels[rows], pack.classifier.probabilities(made).numpy()),
        "mean change": float((made - real).abs().mean()),
    }
    return {name: value for name, value in figures.items() if value == value}


def linkage(released: NDArray[np.float32], real: NDArray[np.float32], patients: NDArray[np.str_]) -> float:
    """Verification AUC of each released film against *another* real film of the patient and of someone else."""
    similarity = released @ real.T
    same = patients[:, None] == patients[None]
    np.fill_diagonal(same, False)
    genuine, impostor = [], []
    rng = np.random.default_rng(0)
    other = patients[:, None] != patients[None]
    for row in range(len(patients)):
        if same[row].any():
            genuine.append(similarity[row, rng.choice(np.flatnonzero(same[row]))])
            impostor.append(similarity[row, rng.choice(np.flatnonzero(other[row]))])
    scores = np.array([*genuine, *impostor])
    return auc(np.arange(len(scores)) < len(genuine), scores)
