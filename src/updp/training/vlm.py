"""Stage `vlm`: films and sentences in one space. Two passes.

`vlm`: the image tower from ImageNet, the text tower from random weights, contrastive on small batches with the findings
as a second task (contrast over a batch of 32 alone trains an image tower slowly). `vlm-text`: image features fixed and
cached, large batches, so that each report is contrasted with hundreds of others, and the words of a text can be read
from its states. Then the two heads are fitted in closed form: contrastive training leaves a space of few dimensions, in
which reports that differ in rare findings are close.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.domains.chest.labels import FINDINGS
from updp.domains.chest.words import phrases
from updp.models.backbone import FEATURES, pooled
from updp.models.vlm import VisionLanguage, sentence
from updp.training.augment import augment
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.figures import mean_auc, recall_at
from updp.training.looks import Looks
from updp.training.loop import StageConfig
from updp.training.prompts import describe

#: Weight of reading a text's words from its states, beside the contrast of texts.
WORDS = 0.2


def missing_words(states: Tensor, table: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    """Error of reading the words of texts from their sentence vectors: cross-entropy over the vocabulary."""
    chance = (states @ table.T).log_softmax(-1)
    return -(chance.gather(1, ids) * mask).sum() / mask.sum()


def masked_bce(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy over the labels that are known (NaN is not known)."""
    known = ~labels.isnan()
    each = functional.binary_cross_entropy_with_logits(logits, labels.nan_to_num(), reduction="none")
    return (each * known).sum() / known.sum().clamp_min(1)


def contrastive(images: Tensor, texts: Tensor, scale: Tensor, same: Tensor) -> Tensor:
    """Symmetric InfoNCE; `same[i, j]` says that text j describes film i as truly as its own does."""
    logits = scale.exp().clamp(max=100) * images @ texts.T
    target = same.float()
    rows = -(target / target.sum(1, keepdim=True) * logits.log_softmax(1)).sum(1).mean()
    columns = -(target / target.sum(0, keepdim=True) * logits.log_softmax(0)).sum(0).mean()
    return (rows + columns) / 2


def draw_texts(corpus: Corpus, rows: NDArray[np.int64], rng: np.random.Generator) -> tuple[list[str], Tensor]:
    """A text for each row, and which texts of the batch are equally true of which films.

    A composed text says nothing but labels, so it fits every film of the batch with the same labels.
    """
    texts, composed = [], []
    for row in rows:
        known = not np.isnan(corpus.labels[row, 0])
        text, own = describe(
            corpus.sentences[row], corpus.findings(row) if known else None, str(corpus.views[row]), rng
        )
        texts.append(text)
        composed.append(not own)
    labels = corpus.labels[rows]
    same = (labels[:, None] == labels[None]).all(-1) & np.array(composed)[None]
    same |= np.eye(len(rows), dtype=bool)
    return texts, torch.from_numpy(same)


class _WithFindings(nn.Module):
    """The vlm and, while training only, a findings head on its image features."""

    def __init__(self, vlm: VisionLanguage) -> None:
        super().__init__()
        self.vlm = vlm
        self.findings = nn.Linear(FEATURES, len(FINDINGS))

    def forward(self, maps: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = functional.dropout(pooled(self.vlm.image.backbone.finish(maps)), 0.2, self.training)
        text = self.vlm.embed_tokens(self.vlm.text.tokens(ids), mask)
        return self.findings(features), self.vlm.embed_features(features), text


class VlmStage:
    name = "vlm"

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        tokenizer: Any,
        model: dict[str, Any],
        imagenet: bool,
        frozen: int = 8,
        directory: Path | None = None,
        looks: int = 2,
    ) -> None:
        """`directory` keeps the looks; `frozen` blocks keep their ImageNet weights (none of them without ImageNet)."""
        self.corpus, self.config, self.tokenizer = corpus, config, tokenizer
        self.model_config = model
        self.rows = corpus.rows("train")
        self.module: nn.Module = self.build()
        backbone = self.module.vlm.image.backbone
        if imagenet:
            backbone.load_imagenet()
            backbone.freeze(frozen)
        self.looks = Looks(corpus, backbone, self.module.vlm.image.size, looks, directory, config.seed)

    def build(self) -> _WithFindings:
        vlm = VisionLanguage(self.tokenizer.get_vocab_size(), **self.model_config)
        vlm.tokenizer = self.tokenizer
        return _WithFindings(vlm)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        vlm = _unwrap(module).vlm
        rows = rng.choice(self.rows, self.config.batch, replace=False)
        texts, same = draw_texts(self.corpus, rows, rng)
        ids, mask = vlm.tokenize(texts)
        logits, image, text = module(self.looks(rows, rng, device), ids.to(device), mask.to(device))
        found = masked_bce(logits, torch.from_numpy(self.corpus.labels[rows]).to(device))
        return 2 * found + 0.5 * contrastive(image, text, vlm.logit_scale, same.to(device))

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        inner = _unwrap(module)
        rows = self.corpus.rows("val")
        features = film_features(inner.vlm, self.corpus, rows)
        figures = vlm_figures(inner.vlm, self.corpus, rows, features)
        scores = inner.findings(features.to(inner.findings.weight.device)).cpu().numpy()
        return {"auc": mean_auc(self.corpus.labels[rows], scores), **figures}


class VlmTextStage:
    name = "vlm-text"

    def __init__(
        self, corpus: Corpus, config: StageConfig, vlm: VisionLanguage, directory: Path, views: int = 1
    ) -> None:
        self.corpus, self.config, self.vlm = corpus, config, vlm
        self.rows = corpus.rows("train")
        vlm.requires_grad_(True)
        vlm.image.requires_grad_(False).eval()
        self.looks = self._looks(directory, views)
        self.module: nn.Module = vlm

    def _looks(self, directory: Path, views: int) -> Tensor:
        """Features of the training films, `views` looks at each, computed once for these image-tower weights."""
        digest = hashlib.sha256()
        for value in self.vlm.image.state_dict().values():
            digest.update(value.numpy().tobytes())
        path = directory / f"features-{digest.hexdigest()[:12]}-{views}.npy"
        if not path.exists():
            rng = np.random.default_rng(self.config.seed)
            looks = [film_features(self.vlm, self.corpus, self.rows, rng if i else None) for i in range(views)]
            np.save(path, torch.stack(looks).numpy())
        return torch.from_numpy(np.load(path))

    def build(self) -> VisionLanguage:
        vlm = VisionLanguage(**self.vlm.config)
        vlm.tokenizer = self.vlm.tokenizer
        return vlm

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        vlm = _unwrap(module)
        places = rng.choice(len(self.rows), min(self.config.batch, len(self.rows)), replace=False)
        features = self.looks[rng.integers(0, len(self.looks), len(places)), places].to(device)
        features = functional.dropout(features, 0.2)
        texts, same = draw_texts(self.corpus, self.rows[places], rng)
        # Composed texts are short and reports long: embedded in separate batches, neither needs the other's padding.
        order = np.argsort([len(text) for text in texts])
        parts, said = [], []
        for part in np.array_split(order, 4):
            ids, mask = (t.to(device) for t in vlm.tokenize([texts[i] for i in part]))
            pooled_states = sentence(vlm.token_states(functional.dropout(vlm.text.tokens(ids), 0.1), mask), mask)
            parts.append(functional.normalize(vlm.text_head(pooled_states), dim=-1))
            said.append(missing_words(pooled_states, vlm.token_table, ids, mask))
        text = torch.cat(parts)[torch.from_numpy(np.argsort(order)).to(device)]
        found = contrastive(vlm.embed_features(features), text, vlm.logit_scale, same.to(device))
        return found + WORDS * torch.stack(said).mean()

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        vlm = _unwrap(module)
        rows = self.corpus.rows("val")
        return vlm_figures(vlm, self.corpus, rows, film_features(vlm, self.corpus, rows))


#: Ridges tried by `fit_heads`, in units of the features' variance.
RIDGES = (3.0, 10.0, 30.0, 100.0)


@torch.no_grad()
def fit_heads(
    vlm: VisionLanguage, corpus: Corpus, looks: Tensor, rng: np.random.Generator, draws: int = 3
) -> dict[str, float]:
    """Set both heads in closed form: sentence vectors whitened, and films regressed onto them.

    `looks` are the image tower's features of the training films. The ridge is chosen on validation patients.
    """
    rows = corpus.rows("train")
    space = vlm.text_head.out_features
    features = functional.layer_norm(looks, (FEATURES,)).double()
    pooled_texts = []
    for _ in range(draws):
        texts, _ = draw_texts(corpus, rows, rng)
        pooled_texts.append(
            torch.cat([sentence(*vlm.text_states(texts[i : i + 64])) for i in range(0, len(texts), 64)])
        )
    states = torch.stack(pooled_texts).double()
    mean = states.mean((0, 1))
    _, values, vectors = torch.linalg.svd((states - mean).flatten(0, 1), full_matrices=False)
    spread = values / (draws * len(rows)) ** 0.5
    # Directions in which texts hardly differ would amplify noise.
    whiten = (vectors.T / (spread + 0.003 * spread[0] + 1e-3))[:, :space]
    targets = (states.mean(0) - mean) @ whiten
    centre, scale = features.mean(0), features.std(0).clamp_min(1e-2)
    seen = (features - centre) / scale

    # Films with a report count as much, all together, as those described by labels alone.
    own = torch.tensor([bool(corpus.sentences[row]) for row in rows])
    share = float(own.double().mean())
    weight = torch.where(own, 1 / share, 1 / (1 - share))[:, None].double() if 0 < share < 1 else torch.ones(1).double()
    gram, cross = (weight * seen).T @ seen, (weight * seen).T @ targets

    def solve(ridge: float) -> Tensor:
        damped = gram + ridge * weight.expand(len(seen), 1).sum() * torch.eye(len(gram), dtype=gram.dtype)
        coefficients: Tensor = torch.linalg.solve(damped, cross)
        return coefficients

    ridge, found = RIDGES[len(RIDGES) // 2], float("nan")
    with_report = np.array([row for row in corpus.rows("val") if corpus.sentences[row]], np.int64)
    if len(with_report):
        # Not on training patients: the image tower was trained on their films, and no ridge would win.
        texts = [" ".join(corpus.sentences[row]) for row in with_report]
        wanted = (sentence(*vlm.text_states(texts)).double() - mean) @ whiten
        shown = (functional.layer_norm(film_features(vlm, corpus, with_report), (FEATURES,)).double() - centre) / scale
        recalls = {r: _found(wanted, shown @ solve(r)) for r in RIDGES}
        ridge = max(recalls, key=lambda r: recalls[r])
        found = recalls[ridge]
    solved = solve(ridge)
    head: Any = vlm.image_head
    head[0].weight.fill_(1)
    head[0].bias.zero_()
    head[1].weight.zero_()
    head[1].bias.zero_()
    used = solved.shape[1]
    head[1].weight[:used] = (solved / scale[:, None]).T.float()
    head[1].bias[:used] = (-(centre / scale) @ solved).float()
    vlm.text_head.weight.zero_()
    vlm.text_head.bias.zero_()
    vlm.text_head.weight[:used] = whiten.T.float()
    vlm.text_head.bias[:used] = (-mean @ whiten).float()
    return {"ridge": ridge, "recall@10": found}


def _found(texts: Tensor, films: Tensor) -> float:
    near = functional.normalize(texts, dim=1) @ functional.normalize(films, dim=1).T
    return recall_at(near.numpy(), 10)


def _unwrap(module: nn.Module) -> Any:
    return getattr(module, "module", module)


@torch.no_grad()
def film_features(
    vlm: VisionLanguage, corpus: Corpus, rows: NDArray[np.int64], rng: np.random.Generator | None = None
) -> Tensor:
    """Image-tower features of films, of an augmented look if `rng` is given."""
    device = vlm.token_table.device
    out = []
    for i in range(0, len(rows), 32):
        films = as_tensor(corpus.films[rows[i : i + 32]]).to(device)
        out.append(vlm.image(films if rng is None else augment(films, vlm.image.size, rng)).cpu())
    return torch.cat(out)


def vlm_figures(vlm: VisionLanguage, corpus: Corpus, rows: NDArray[np.int64], features: Tensor) -> dict[str, float]:
    """Report→film recall@10 among films with a report, and zero-shot mean AUC on the findings."""
    image = vlm.embed_features(features.to(vlm.token_table.device))
    figures = {}
    with_report = [i for i, row in enumerate(rows) if corpus.sentences[row]]
    if with_report:
        texts = vlm.embed_texts([" ".join(corpus.sentences[rows[i]]) for i in with_report])
        figures["recall@10"] = recall_at((texts @ image[with_report].T).cpu().numpy(), 10)
        figures["recall@10 chance"] = min(1.0, 10 / len(with_report))
    figures["zero-shot auc"] = mean_auc(corpus.labels[rows], zero_shot(vlm, image).cpu().numpy())
    return figures


def zero_shot(vlm: VisionLanguage, image: Tensor) -> Tensor:
    """Scores N×findings: how much nearer an image is to "there is …" than to "normal" sentences."""
    said = phrases()
    normal = vlm.embed_texts([s for group in said["normal"].values() for s in group]).mean(0)
    found = torch.stack([vlm.embed_texts(said["findings"][name]).mean(0) for name in FINDINGS])
    return image @ (found - normal).T
