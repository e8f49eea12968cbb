"""Stages `generator-text` and `generator`: latent diffusion, conditioned by a text tower of its own.

Each film has a dozen texts, drawn once and kept as token ids: its report's sentences, or sentences composed from its
labels with the side, zone and size the film shows. The text tower first learns what the composed sentences say, then
goes on learning it beside the diffusion, which it conditions. Films are turned, shifted and re-exposed a little, never
mirrored. The change is an input of the U-Net; without that input it draws films as they are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.models.generator import Condition, Generator, UNet, settled
from updp.models.samplers import Sampling, alpha, sigma
from updp.models.vlm import VisionLanguage, sentence
from updp.training.augment import NUMBERS, change
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.figures import relative_power
from updp.training.loop import StageConfig, TrainingError
from updp.training.prompts import ATTRIBUTES, encode_statements, findings_first, report_words, tell
from updp.training.sheet import write_sheet
from updp.training.zones import Zones

if TYPE_CHECKING:
    from updp.models.autoencoder import Autoencoder
    from updp.models.lapped import LappedAutoencoder

#: Share of films trained without text: the unconditional prediction of classifier-free guidance.
UNCONDITIONAL = 0.1
#: Of a U-Net with a representation, shares of films trained without it, and with it but without text.
OPEN, WORDLESS = 0.1, 0.1
#: Weight of the loss of the attribute head, beside the diffusion loss.
SAID = 0.05
LATE = 0.6  # below it a finisher has taken over
DRAWS, LENGTH = 12, 48  # texts per film, and tokens per text
_EDITION = 3  # of how texts are drawn
#: The prompts of the sheets. Rows of one seed show whether films follow side and place.
SHEET = (
    *("No acute cardiopulmonary abnormality. The lungs are clear. Heart size is normal.",) * 3,
    *("Normal chest. PA view.", "The heart is enlarged.", "The heart is enlarged."),
    *("Portable AP film. There is pulmonary edema.", "Severe bilateral lung opacities."),
    *("Large right pleural effusion.", "Large left pleural effusion.") * 2,
    *("Right upper lobe opacity.", "Left lower lung opacity."),
    *("Hyperinflated lungs consistent with emphysema.", "Findings typical of COVID-19 pneumonia."),
)
_SEEDS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 9, 10, 10, 11, 12)


@torch.no_grad()
def cached_latents(
    corpus: Corpus, autoencoder: Autoencoder | LappedAutoencoder, directory: Path
) -> NDArray[np.float16]:
    """Latents of every film, computed once for these autoencoder weights."""
    digest = hashlib.sha256()
    for value in autoencoder.state_dict().values():
        digest.update(value.numpy().tobytes())
    path = directory / f"latents-{digest.hexdigest()[:12]}-{len(corpus.films)}.npy"
    if not path.exists():
        parts = []
        for i in range(0, len(corpus.films), 32):
            parts.append(autoencoder.encode(as_tensor(corpus.films[i : i + 32])).half().numpy())
        directory.mkdir(parents=True, exist_ok=True)
        np.save(path, np.concatenate(parts))
    latents: NDArray[np.float16] = np.load(path)
    return latents


@dataclass(frozen=True)
class Texts:
    """Texts of every film as token ids, and what each says where that is known."""

    ids: NDArray[np.int32]  # films × draws × length, 0 is padding
    said: NDArray[np.int8]  # films × draws × attributes: 1 stated, 0 excluded, -1 left open

    def usable(self) -> NDArray[np.bool_]:
        """Films with a text: more tokens than the two that begin and end an empty one."""
        enough: NDArray[np.bool_] = (self.ids[:, 0] > 0).sum(-1) > 2
        return enough


def text_of(corpus: Corpus, row: int, zones: Zones, rng: np.random.Generator) -> tuple[str, NDArray[np.int8]]:
    """A text of a film, and what it says (`encode_statements`)."""
    own, observed = corpus.sentences[row], corpus.observed(row)
    open_ = np.full(len(ATTRIBUTES), -1, np.int8)
    if own and (observed is None or rng.random() < 0.7):
        kept = [s for s in own if rng.random() < 0.85] or list(own)
        order = rng.random()
        if order < 0.2:
            kept = [kept[i] for i in rng.permutation(len(kept))]
        elif order < 0.8:  # as prompts of a release are ordered
            kept = findings_first(kept)
        text = " ".join(kept)
        stated = report_words(text)
        return text, open_ if stated is None else encode_statements(stated, complete=True)
    if observed is None:
        return "", open_
    places = {name: place for name in observed if (place := zones.place(row, name)) is not None}
    text, words = tell(observed, str(corpus.views[row]), places, rng)
    return text, encode_statements(words, complete=not np.isnan(corpus.labels[row, 0]))


def draw_texts(
    corpus: Corpus,
    tokenizer: Any,
    length: int,
    directory: Path,
    draws: int = DRAWS,
    seed: int = 0,
    scores: NDArray[np.float32] | None = None,
) -> Texts:
    """`draws` texts of every film, cut to `length` tokens; kept in `directory` for these films and this tokenizer.

    `scores` N×findings say how sure a network is of each finding: from them texts name sizes."""
    words = tokenizer.to_str() + repr((_EDITION, length, draws, seed, ATTRIBUTES)) + "\n".join(corpus.ids.tolist())
    digest = hashlib.sha256(words.encode() + (b"" if scores is None else scores.tobytes()))
    path = directory / f"texts-{digest.hexdigest()[:16]}.npz"
    if not path.exists():
        zones, closing = Zones(corpus, scores), tokenizer.token_to_id("[SEP]")
        ids = np.zeros((len(corpus.films), draws, length), np.int32)
        said = np.full((len(corpus.films), draws, len(ATTRIBUTES)), -1, np.int8)
        for row in range(len(ids)):
            rng = np.random.default_rng([seed, row, *b"texts"])
            for k in range(draws):
                text, says = text_of(corpus, row, zones, rng)
                tokens = tokenizer.encode(text).ids
                if len(tokens) > length:
                    tokens = [*tokens[: length - 1], closing]
                ids[row, k, : len(tokens)] = tokens
                said[row, k] = says
        directory.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            np.savez(file, ids=ids, said=said)
        os.replace(part, path)
    held = np.load(path)
    return Texts(held["ids"], held["said"])


class Rows:
    """Training rows drawn by the weight of their source; with findings, `found` times as often."""

    def __init__(self, corpus: Corpus, texts: Texts, weights: Mapping[str, float], found: float = 1.0) -> None:
        usable = (corpus.splits == "train") & texts.usable()
        if not usable.any():
            raise TrainingError("no training film has a label or a report: the generator has no text to learn from")
        each = np.array([weights.get(source, 1.0) for source in corpus.sources()]) * usable
        each *= np.where([bool(corpus.observed(row)) for row in range(len(usable))], found, 1.0)
        self.share = np.cumsum(each / each.sum())

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        places = np.searchsorted(self.share, rng.random(count), side="right")
        return np.minimum(places, len(self.share) - 1)


def token_batch(ids: NDArray[np.int32], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids and mask, cut to the longest text."""
    longest = max(1, int((ids > 0).sum(1).max()))
    tokens = torch.from_numpy(ids[:, :longest].astype(np.int64)).to(device)
    return tokens, tokens > 0


def said_loss(unet: UNet, condition: Condition, said: NDArray[np.int8]) -> Tensor:
    """Loss of the attribute head: what composed sentences say, predicted from the text tower's states."""
    if unet.attributes is None or not (said >= 0).any():
        return condition.states.new_zeros(())
    logits = unet.attributes(sentence(condition.states, condition.mask))
    wanted = torch.from_numpy(said.astype(np.float32)).to(logits.device)
    each = functional.binary_cross_entropy_with_logits(logits, wanted.clamp_min(0), reduction="none")
    known = (wanted >= 0).to(each)
    loss: Tensor = (each * known).sum() / known.sum()
    return loss


def v_errors(predict: Callable[[Tensor, Tensor], Tensor], clean: Tensor, t: Tensor, rng: np.random.Generator) -> Tensor:
    """Mean squared error of v for each film, at its own time."""
    noise = torch.from_numpy(rng.standard_normal(tuple(clean.shape), np.float32)).to(clean.device)
    a, s = alpha(t)[:, None, None, None], sigma(t)[:, None, None, None]
    errors: Tensor = (predict(a * clean + s * noise, t) - (a * noise - s * clean)).square().mean((1, 2, 3))
    return errors


class GeneratorTextStage:
    """The text tower alone, before the diffusion that it conditions."""

    name = "generator-text"

    def __init__(
        self, corpus: Corpus, config: StageConfig, texts: Texts, model: dict[str, Any], weights: Mapping[str, float]
    ) -> None:
        self.corpus, self.config, self.texts, self.model_config = corpus, config, texts, model
        self.rows = Rows(corpus, texts, weights)
        self.module: nn.Module = self.build()
        for name, parameter in self.module.named_parameters():
            parameter.requires_grad_(name.startswith(("text.", "attributes.")))

    def build(self) -> UNet:
        return UNet(**self.model_config)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        bare: Any = getattr(module, "module", module)
        rows, draws = self.rows.draw(self.config.batch, rng), rng.integers(self.texts.ids.shape[1])
        condition = bare.condition(*token_batch(self.texts.ids[rows, draws], device))
        loss = said_loss(bare, condition, self.texts.said[rows, draws])
        zero: Tensor = 0 * condition.states.sum()  # a batch of reports alone has no loss, and still a gradient
        return loss + zero

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        bare: Any = module.to("cpu")
        rows = self.corpus.rows("val")[:256]
        if not len(rows):
            return {}
        condition = bare.condition(*token_batch(self.texts.ids[rows, 0], torch.device("cpu")))
        return {"validation loss": float(said_loss(bare, condition, self.texts.said[rows, 0]))}


class GeneratorStage:
    name = "generator"

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        autoencoder: LappedAutoencoder,
        vlm: VisionLanguage,
        texts: Texts,
        start: UNet,
        weights: Mapping[str, float],
        directory: Path,
        sampling: Sampling | None = None,
        shown: NDArray[np.float32] | None = None,
        late: float = 0.0,
    ) -> None:
        """`vlm` only brings the tokenizer for the sheets; `start` is what the text stage gave; `shown` are the
        representations of all films, for a U-Net that takes one; a share `late` of the times lies where no finisher
        has taken over."""
        self.corpus, self.config, self.texts, self.directory = corpus, config, texts, directory
        self.autoencoder = autoencoder.eval().requires_grad_(False)
        self.vlm, self.sampling, self.step = vlm, sampling, 0
        self.rows = Rows(corpus, texts, weights)
        self.model_config, self.shown, self.late = start.config, shown, late
        self.empty = vlm.tokenize([""])[0][0].numpy()
        self.module: nn.Module = self.build()
        self.module.load_state_dict(start.state_dict())
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def build(self) -> UNet:
        return UNet(**self.model_config)

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        self.step = step + 1
        bare: Any = getattr(module, "module", module)
        count = self.config.batch
        rows, draws = self.rows.draw(count, rng), rng.integers(self.texts.ids.shape[1], size=count)
        films, numbers = change(as_tensor(self.corpus.films[rows]), rng)
        ids, said = self.texts.ids[rows, draws].copy(), self.texts.said[rows, draws].copy()
        chance = rng.random(count)
        dropped = chance < UNCONDITIONAL
        open_ = dropped
        if self.shown is not None:  # the rest of the stretch: text without representation, and the other way round
            open_ = chance < UNCONDITIONAL + OPEN
            dropped = dropped | (chance > 1 - WORDLESS)
        ids[dropped], said[dropped] = 0, -1
        ids[dropped, : len(self.empty)] = self.empty
        condition = self._settled(bare.condition(*token_batch(ids, device)), rows, ~open_)
        # Evenly spread times within a batch make its loss far less noisy than independent ones.
        t = torch.from_numpy(self._times((np.arange(count) + rng.random()) / count).astype(np.float32))
        with torch.no_grad():
            clean = self.autoencoder.encode(films)
        error = self._errors(module, clean, t, condition, numbers.to(device), rng, device)
        return error.mean() + SAID * said_loss(bare, condition, said)

    def _times(self, even: NDArray[np.float64]) -> NDArray[np.float64]:
        """Evenly spread places in [0, 1] as times, of which a share of `late` lies above `LATE`."""
        if not self.late:
            return even
        early = 1 - self.late
        return np.where(even < early, even / early * LATE, LATE + (even - early) / self.late * (1 - LATE))

    def _settled(
        self, condition: Condition, rows: NDArray[np.int64], here: NDArray[np.bool_] | None = None
    ) -> Condition:
        """The condition with what these films show, where `here` says so."""
        if self.shown is None:
            return condition
        shown = torch.from_numpy(self.shown[rows]).to(condition.states)
        with_it = settled(condition, shown)
        if here is None or with_it.representation is None:
            return with_it
        kept = torch.from_numpy(here).to(condition.states)[:, None]
        return Condition(with_it.states, with_it.mask, with_it.representation * kept)

    def _errors(
        self,
        module: nn.Module,
        clean: Tensor,
        t: Tensor,
        condition: Condition,
        numbers: Tensor | None,
        rng: np.random.Generator,
        device: torch.device,
    ) -> Tensor:
        return v_errors(lambda x, times: module(x, times, condition, numbers), clean.to(device), t.to(device), rng)

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        """Loss and power by band on the same films, times and noise every time."""
        device = next(module.parameters()).device
        bare: Any = module
        rng = np.random.default_rng([5, *b"validation"])
        told = np.flatnonzero((self.corpus.splits == "val") & self.texts.usable())
        rows = rng.permutation(told)[:256]
        if not len(rows):
            return {}
        times = torch.linspace(0.02, 0.98, len(rows))[torch.from_numpy(rng.permutation(len(rows)))]
        errors = []
        for i in range(0, len(rows), 32):
            part = rows[i : i + 32]
            clean = self.autoencoder.encode(as_tensor(self.corpus.films[part]))
            condition = self._settled(bare.condition(*token_batch(self.texts.ids[part, 0], device)), part)
            errors.append(self._errors(bare, clean, times[i : i + 32], condition, None, rng, device))
        figures = {"validation loss": float(torch.cat(errors).mean())}
        if device.type == "cpu":
            films = self.sheet(bare)
            figures |= relative_power(films, as_tensor(self.corpus.films[np.sort(told)[:500]]))
        return figures

    def sheet(self, module: UNet) -> Tensor:
        """Sixteen films of the moment, kept for a person to look at."""
        generator = Generator(module, self.autoencoder, self.vlm, self.corpus.films.shape[1], self.sampling)
        films = generator.generate(SHEET, _SEEDS)
        write_sheet(films, self.directory / f"generator-sheet-{self.step:06d}.png")
        return films

    @torch.no_grad()
    def own_latents(self, module: UNet, count: int, seed: int = 0) -> Tensor:
        """Latents the generator draws for texts of training films, drawn once: what the decoder will meet."""
        digest = hashlib.sha256(repr((count, seed, self.sampling)).encode())
        for value in module.state_dict().values():
            digest.update(value.numpy().tobytes())
        path = self.directory / f"own-{digest.hexdigest()[:16]}.npy"
        if path.exists():
            return torch.from_numpy(np.load(path))
        rng = np.random.default_rng([seed, *b"own"])
        generator = Generator(module, self.autoencoder, self.vlm, self.corpus.films.shape[1], self.sampling)
        sampling, out = generator.sampling, []
        for _ in range(0, count, 16):
            rows, draws = self.rows.draw(16, rng), rng.integers(self.texts.ids.shape[1], size=16)
            condition = module.condition(*token_batch(self.texts.ids[rows, draws], torch.device("cpu")))
            noise = generator.seeded_noise(rng.integers(2**31, size=16).tolist())
            out.append(generator.sample(noise, condition, sampling.steps, sampling.guidance))
        drawn = torch.cat(out)[:count]
        np.save(path, drawn.numpy())
        return drawn


def unet_config(autoencoder: LappedAutoencoder, tokenizer: Any, model: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a U-Net for these latents and this vocabulary."""
    own = {
        "channels": autoencoder.channels,
        "vocabulary": tokenizer.get_vocab_size(),
        "length": LENGTH,
        "augmentation": NUMBERS,
        "attributes": len(ATTRIBUTES),
    }
    return {**own, **model}
