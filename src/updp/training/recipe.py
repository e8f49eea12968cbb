"""`updp train pack`: code → decoder → vlm → generator → its finisher → decoder again → identity → classifier.

The classifier starts from the vlm's image tower and the findings head it learned with, and needs little more; identity
starts from ImageNet. `export_run` makes a pack of what a run has reached, finished or not. Roles that need nothing of
each other (`APART`) may learn at the same time, in the workers of an engine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from updp.core.global_state import limited, seeded
from updp.core.record import Study
from updp.models.backbone import EfficientNetLite0
from updp.models.classifier import Classifier
from updp.models.generator import Generator, UNet
from updp.models.identity import Identity
from updp.models.lapped import LappedAutoencoder
from updp.models.lpips import Lpips, installed_weights, read_trunk
from updp.models.pack import FINE, Pack, load_pack, role_entry, write_pack_toml
from updp.models.samplers import Sampling
from updp.models.vlm import VisionLanguage
from updp.models.weights import rounded
from updp.training.autoencoder import CodeStage, DecoderStage, WithAdversary
from updp.training.card import card, describe_pack
from updp.training.classifier import ClassifierStage
from updp.training.codes import codes_of
from updp.training.config import PackConfig
from updp.training.corpus import Corpus, load_corpus, prepare_corpus
from updp.training.finisher import FOUND, FinisherStage, Trunk, own_half_way
from updp.training.generator import GeneratorStage, GeneratorTextStage, Rows, draw_texts, unet_config
from updp.training.identity import IdentityStage
from updp.training.loop import StageConfig, TrainingError, read_checkpoint, run_stage
from updp.training.representation import PriorStage, image_features, representations
from updp.training.thresholds import thresholds
from updp.training.tokenizer import train_tokenizer
from updp.training.vlm import VlmStage, VlmTextStage, fit_heads

#: Keys of `PackConfig` that are stages, in the order they run; a checkpoint bears the name with hyphens.
STAGES = (
    *("code", "decoder", "vlm", "vlm_text", "generator_text", "generator", "generator_prior"),
    *("generator_finisher", "decoder_own"),
    *("identity", "classifier"),
)
_MAY_LACK = ("generator_prior", "generator_finisher", "decoder_own")  # stages that a run may leave out
#: What is trained first, each in need of nothing that another one learns.
APART = ("decoder", "vlm", "identity")
Say = Callable[[str], None]
#: ``engine(work, tasks, workers)`` calls ``work`` on every task, and gives each with what came back.
Engine = Callable[[Callable[[Any], Any], Iterable[Any], int | None], Iterator[tuple[Any, Any]]]


class StagesOf:
    """Stages over one corpus and one run folder; every finished stage is read back from its checkpoint."""

    def __init__(self, corpus: Any, directory: Path, config: Any, accelerator: Any = None, say: Say = print) -> None:
        self.corpus, self.directory, self.config = corpus, directory, config
        self.accelerator, self.say = accelerator, say
        directory.mkdir(parents=True, exist_ok=True)

    def _run(self, stage: Any, config: StageConfig, stop_after: float | None) -> Any:
        return run_stage(
            stage,
            config,
            self.directory,
            build=stage.build,
            accelerator=self.accelerator,
            say=self.say,
            stop_after=stop_after,
        ).cpu()


class Recipe(StagesOf):
    """The stages of a pack of films."""

    corpus: Corpus
    config: PackConfig
    findings: Any = None  # the head that found them while the vlm learned, for the classifier to begin with

    def tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        path = self.directory / "tokenizer.json"
        if not path.exists():
            texts = [s for row in self.corpus.rows("train") for s in self.corpus.sentences[row]]
            train_tokenizer(texts, self.config.vocabulary, self.config.names).save(str(path))
        return Tokenizer.from_file(str(path))

    def lpips(self) -> Lpips | None:
        if not self.config.perceptual:
            return None
        return Lpips(Path(self.config.lpips) if self.config.lpips else installed_weights())

    def trunk(self) -> Trunk | None:
        """AlexNet as the second network that the finisher's critic looks through."""
        if not self.config.perceptual:
            return None
        return read_trunk(Path(self.config.lpips) if self.config.lpips else installed_weights())

    def code(self, stop_after: float | None = None) -> LappedAutoencoder:
        model = {"further": self.config.further(), **self.config.autoencoder_model}
        stage = CodeStage(self.corpus, self.config.code, model)
        return stage.finished(self._run(stage, self.config.code, stop_after))

    def decoder(
        self, start: LappedAutoencoder | WithAdversary, own: Any = None, stop_after: float | None = None
    ) -> WithAdversary:
        """The decoder of a code, or with latents of the generator its last phase."""
        config = self.config.decoder if own is None else self.config.decoder_own
        stage = DecoderStage(
            self.corpus,
            config,
            start,
            lpips=self.lpips(),
            own=own,
            crop=self.config.crop * max(1, self.config.size // 256),
            width=self.config.adversary,
            directory=self.directory,
        )
        module: WithAdversary = self._run(stage, config, stop_after)
        return module

    def vlm(self, stop_after: float | None = None) -> VisionLanguage:
        first, second = self.config.vlm, self.config.vlm_text
        stage = VlmStage(
            self.corpus,
            first,
            self.tokenizer(),
            self.config.vlm_model,
            self.config.imagenet,
            self.config.frozen,
            self.directory,
            self.config.looks,
        )
        learned = self._run(stage, first, stop_after)
        vlm: VisionLanguage = learned.vlm
        self.findings = learned.findings
        texts = VlmTextStage(self.corpus, second, vlm, self.directory)
        tuned: VisionLanguage = self._run(texts, second, stop_after)
        fitted = fit_heads(tuned, self.corpus, texts.looks[0], np.random.default_rng(self.config.seed))
        self.say("vlm heads: " + "  ".join(f"{name} {value:.4g}" for name, value in fitted.items()))
        return tuned

    def _scores(self, vlm: VisionLanguage) -> NDArray[np.float32] | None:
        """How sure the vlm's findings head is of each finding in each film; None before it has learned."""
        if self.findings is None:
            return None
        with torch.no_grad():
            logits = self.findings.cpu()(torch.from_numpy(image_features(self.corpus, vlm, self.directory)))
        scores: NDArray[np.float32] = logits.numpy()
        return scores

    def generator(
        self, autoencoder: LappedAutoencoder, vlm: VisionLanguage, stop_after: float | None = None
    ) -> tuple[UNet, Any]:
        """The U-Net, and latents it draws for the decoder's last phase (None if there is none)."""
        model = unet_config(autoencoder, vlm.tokenizer, self.config.generator_model)
        shown, representation = None, None
        if size := self.config.representation:
            representation, shown = representations(self.corpus, vlm, size, self.directory)
            model["representation"] = size
        weights = self.config.source_weights
        scores = self._scores(vlm)
        texts = draw_texts(
            self.corpus, vlm.tokenizer, model["length"], self.directory, seed=self.config.seed, scores=scores
        )
        first = GeneratorTextStage(self.corpus, self.config.generator_text, texts, model, weights)
        start: UNet = self._run(first, self.config.generator_text, stop_after)
        config, sampling = self.config.generator, Sampling(**self.config.sampling)
        finishes = self.config.generator_finisher.steps and self.config.finisher
        stage = GeneratorStage(
            self.corpus, config, autoencoder, vlm, texts, start, weights, self.directory, sampling, shown,
            self.config.late if finishes else 0.0,
        )  # fmt: skip
        module: UNet = self._run(stage, config, stop_after)
        if shown is not None and representation is not None:
            prior = PriorStage(self.corpus, self.config.generator_prior, texts, module, shown, representation, weights)
            module.load_prior(self._run(prior, self.config.generator_prior, stop_after))
        module = rounded(module, FINE)  # the finisher learns on what the pack will hold
        if finishes:
            last = self.config.generator_finisher
            drawing = Generator(module, autoencoder, vlm, self.config.size, sampling)
            count = self.config.half_way
            rows = Rows(self.corpus, texts, weights, FOUND)
            seed = self.config.seed
            own = own_half_way(drawing, texts, rows, count, self.directory, seed, shown) if count else None
            finisher = FinisherStage(
                self.corpus, last, autoencoder, texts, module, self.config.finisher, own, self.directory,
                self.config.imagenet, self.trunk(), weights, shown, representation,
            )  # fmt: skip
            module = finisher.finished(self._run(finisher, last, stop_after))
        wanted = self.config.own_latents if self.config.decoder_own.steps else 0
        return module, stage.own_latents(module, wanted, self.config.seed) if wanted else None

    def identity(self, start: EfficientNetLite0 | None, stop_after: float | None = None) -> Identity:
        config = self.config.identity
        stage = IdentityStage(self.corpus, config, self.config.encoder_size, start, self.directory)
        module: Identity = self._run(stage, config, stop_after)
        return module

    def imagenet(self) -> EfficientNetLite0:
        """The backbone identity begins with: training on findings removes features that tell patients apart."""
        backbone = EfficientNetLite0()
        if self.config.imagenet:
            backbone.load_imagenet()
        return backbone

    def classifier(
        self,
        start: EfficientNetLite0 | None,
        stop_after: float | None = None,
        autoencoder: LappedAutoencoder | None = None,
    ) -> Classifier:
        config = self.config.classifier
        stage = ClassifierStage(
            self.corpus,
            config,
            self.config.encoder_size,
            start,
            self.config.frozen,
            directory=self.directory,
            looks=self.config.looks,
            head=self.findings,
            through=autoencoder,
        )
        module: Classifier = self._run(stage, config, stop_after)
        return module

    def begin(self, name: str) -> Any:
        """One of ``APART``. Its first weights are those of the seed, whatever was trained before it."""
        with seeded(self.config.seed):
            if name == "decoder":
                return self.decoder(self.code())
            return self.vlm() if name == "vlm" else self.identity(self.imagenet())

    def all(self) -> dict[str, Any]:
        """Every role, trained or read back."""
        # Wrong labels are found before hours are spent, not after.
        ClassifierStage(self.corpus, self.config.classifier, self.config.encoder_size, None)
        IdentityStage(self.corpus, self.config.identity, self.config.encoder_size, None)
        self.lpips()
        opposed, vlm, identity = (self.begin(name) for name in APART)
        generator, own = self.generator(opposed.autoencoder, vlm)
        if own is not None:
            opposed = self.decoder(opposed, own)
        autoencoder = opposed.autoencoder
        start = vlm.image.backbone
        return {
            "autoencoder": autoencoder,
            "vlm": vlm,
            "generator": generator,
            "identity": identity,
            "classifier": self.classifier(start, autoencoder=autoencoder),
        }


def export_pack(
    modules: dict[str, Any],
    directory: Path,
    config: Any,
    splits: dict[str, Any],
    extra: dict[str, Any] | None = None,
) -> Pack:
    """Write the pack folder: half-precision weights, tokenizer, `pack.toml`. The folder lands whole or not at all."""
    part = directory.with_name(directory.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        roles = {role: role_entry(role, module, part) for role, module in modules.items()}
        if config.sampling:
            roles["generator"]["sampling"] = config.sampling
        info = {
            "name": config.name,
            "size": config.size,
            "licence": config.licence,
            **(extra or {}),
            "roles": roles,
            "splits": splits,
            "recipe": config.as_dict(),
        }
        write_pack_toml(part, info)
        (part / "README.md").write_text(card(info), encoding="utf-8")
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        reason = error.strerror or error
        raise TrainingError(f"cannot write the pack to {directory}: {reason}; the checkpoints are intact") from error
    shutil.rmtree(directory, ignore_errors=True)
    part.rename(directory)
    return load_pack(directory)


def complete_pack(pack: Pack, corpus: Corpus) -> Pack:
    """Write what checks of generated films need: identities of the training films, and thresholds on unseen ones."""
    from safetensors.numpy import save_file

    people, pictures = codes_of(pack, corpus, corpus.rows("train"))
    save_file({"identities": people.astype(np.float16)}, pack.path / "training_identities.safetensors")
    if len(corpus.rows("val")):
        describe_pack(pack.path, thresholds=thresholds(pack, corpus, people, pictures))
    else:
        describe_pack(pack.path)
    return load_pack(pack.path)


def read_films(sources: Iterable[str | Path]) -> Iterator[tuple[str, Study]]:
    """Every film of every source, decoded; one that cannot be read is skipped."""
    from updp.core.reasons import Refused
    from updp.sources import Refusal, open_sources

    for name, source in open_sources(sources):
        for study in source:
            if not isinstance(study, Refusal):
                with contextlib.suppress(Refused):
                    yield name, source.load(study)


@dataclass(frozen=True)
class _Begin:
    """What a worker does with one of ``APART``: train it, into the checkpoints of the run."""

    corpus: Corpus | Path
    directory: Path
    config: PackConfig
    threads: int

    def __call__(self, name: str) -> None:
        corpus = load_corpus(self.corpus) if isinstance(self.corpus, Path) else self.corpus
        with limited(self.threads):
            Recipe(corpus, self.directory, self.config).begin(name)


def train_pack(
    sources: Sequence[str | Path] | Corpus,
    out: Path | str,
    config: PackConfig | None = None,
    *,
    run: Path | str | None = None,
    accelerator: Any = None,
    engine: Engine | None = None,
    workers: int | None = None,
    say: Say = print,
) -> Pack:
    """Train a pack on `sources` and write it to `out`; checkpoints live in `run` (default: `out` + ".run").

    Calling it again after a kill goes on where it stopped. With an `engine` what stands in ``APART`` learns in its
    workers, which find `run` at the same path.
    """
    out, config = Path(out), config or PackConfig()
    run = Path(run) if run is not None else out.with_name(out.name + ".run")
    if isinstance(sources, Corpus):
        corpus = sources
    else:
        corpus = prepare_corpus(read_films(sources), run / "corpus", config.size, rule=config.split)
    if engine is not None:
        kept = corpus if isinstance(sources, Corpus) else (run / "corpus").absolute()
        threads = max(1, (os.cpu_count() or 1) // min(workers or len(APART), len(APART)))
        for name, died in engine(_Begin(kept, (run / "stages").absolute(), config, threads), APART, workers):
            if died is not None:
                raise TrainingError(
                    f"the worker that trained {name} died; the same command goes on from its checkpoint"
                )
    with seeded(config.seed):
        modules = Recipe(corpus, run / "stages", config, accelerator, say).all()
    return complete_pack(export_pack(modules, out, config, corpus.record_of_splits()), corpus)


def export_run(
    run: Path | str,
    out: Path | str,
    config: PackConfig | None = None,
    *,
    corpus: Corpus | None = None,
    extra: dict[str, Any] | None = None,
    say: Say = print,
) -> Pack:
    """Write a pack of the checkpoints in `run` as they stand, without training any further.

    `extra` goes into `pack.toml` and the card: summary, data, limits and the like.
    """
    run, config = Path(run), config or PackConfig()
    steps, missing = {}, []
    for key in STAGES:
        state = read_checkpoint(run / "stages" / f"{key.replace('_', '-')}.checkpoint")
        if state is not None:
            steps[key] = int(state["step"])
        elif key in _MAY_LACK:
            steps[key] = 0
        else:
            missing.append(key)
    if missing:
        raise TrainingError(f"{run} has no checkpoint of {', '.join(missing)}: train these stages first")
    reached = config.but(**{key: replace(getattr(config, key), steps=count) for key, count in steps.items()})
    corpus = load_corpus(run / "corpus") if corpus is None else corpus
    with seeded(config.seed):
        modules = Recipe(corpus, run / "stages", reached, None, say).all()
    pack = export_pack(modules, Path(out), config, corpus.record_of_splits(), {**(extra or {}), "trained": steps})
    return complete_pack(pack, corpus)
