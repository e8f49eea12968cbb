"""`updp train pack`: autoencoder → vlm → generator → identity → classifier, each resumable, then the pack.

The classifier starts from the vlm's image tower and the findings head it learned with, and needs little more; identity
starts from ImageNet.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from updp.core.global_state import seeded
from updp.core.record import Study
from updp.models.autoencoder import Autoencoder
from updp.models.backbone import EfficientNetLite0
from updp.models.classifier import Classifier
from updp.models.generator import UNet
from updp.models.identity import Identity
from updp.models.pack import Pack, load_pack, role_entry, write_pack_toml
from updp.models.vlm import VisionLanguage
from updp.training.autoencoder import AutoencoderStage
from updp.training.card import card
from updp.training.classifier import ClassifierStage
from updp.training.config import PackConfig
from updp.training.corpus import Corpus, prepare_corpus
from updp.training.generator import GeneratorStage
from updp.training.identity import IdentityStage
from updp.training.loop import StageConfig, TrainingError, run_stage
from updp.training.tokenizer import train_tokenizer
from updp.training.vlm import VlmStage, VlmTextStage, fit_heads

STAGES = ("autoencoder", "vlm", "generator", "identity", "classifier")
Say = Callable[[str], None]


class Recipe:
    """The stages over one corpus and one run folder; every finished stage is read back from its checkpoint."""

    def __init__(
        self, corpus: Corpus, directory: Path, config: PackConfig, accelerator: Any = None, say: Say = print
    ) -> None:
        self.corpus, self.directory, self.config = corpus, directory, config
        self.accelerator, self.say = accelerator, say
        self.findings: Any = None  # the head that found them while the vlm learned, for the classifier to begin with
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

    def tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        path = self.directory / "tokenizer.json"
        if not path.exists():
            texts = [s for row in self.corpus.rows("train") for s in self.corpus.sentences[row]]
            train_tokenizer(texts, self.config.vocabulary, self.config.names).save(str(path))
        return Tokenizer.from_file(str(path))

    def autoencoder(self, stop_after: float | None = None) -> Autoencoder:
        config = self.config.autoencoder
        stage = AutoencoderStage(self.corpus, config, **self.config.autoencoder_model)
        module: Autoencoder = self._run(stage, config, stop_after)
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

    def generator(self, autoencoder: Autoencoder, vlm: VisionLanguage, stop_after: float | None = None) -> UNet:
        config = self.config.generator
        stage = GeneratorStage(self.corpus, config, autoencoder, vlm, self.config.generator_model, self.directory)
        module: UNet = self._run(stage, config, stop_after)
        return module

    def identity(self, start: EfficientNetLite0 | None, stop_after: float | None = None) -> Identity:
        config = self.config.identity
        stage = IdentityStage(self.corpus, config, self.config.encoder_size, start, self.directory)
        module: Identity = self._run(stage, config, stop_after)
        return module

    def imagenet(self) -> EfficientNetLite0:
        """The backbone identity begins with: findings networks have unlearned what it needs."""
        backbone = EfficientNetLite0()
        if self.config.imagenet:
            backbone.load_imagenet()
        return backbone

    def classifier(
        self,
        start: EfficientNetLite0 | None,
        stop_after: float | None = None,
        autoencoder: Autoencoder | None = None,
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

    def all(self) -> dict[str, Any]:
        """Every role, trained or read back."""
        # Wrong labels are found before hours are spent, not after.
        ClassifierStage(self.corpus, self.config.classifier, self.config.encoder_size, None)
        IdentityStage(self.corpus, self.config.identity, self.config.encoder_size, None)
        autoencoder = self.autoencoder()
        vlm = self.vlm()
        generator = self.generator(autoencoder, vlm)
        start = vlm.image.backbone
        return {
            "autoencoder": autoencoder,
            "vlm": vlm,
            "generator": generator,
            "identity": self.identity(self.imagenet()),
            "classifier": self.classifier(start, autoencoder=autoencoder),
        }


def export_pack(
    modules: dict[str, Any],
    directory: Path,
    config: PackConfig,
    splits: dict[str, Any],
    extra: dict[str, Any] | None = None,
) -> Pack:
    """Write the pack folder: half-precision weights, tokenizer, `pack.toml`. The folder lands whole or not at all."""
    part = directory.with_name(directory.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        roles = {role: role_entry(role, module, part) for role, module in modules.items()}
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


def read_films(sources: Iterable[str | Path]) -> Iterator[tuple[str, Study]]:
    """Every film of every source, decoded; one that cannot be read is passed over."""
    from updp.core.reasons import Refused
    from updp.sources import Refusal, open_source

    seen: Counter[str] = Counter()
    for path in sources:
        source = open_source(path)
        seen[source.layout] += 1
        name = source.layout if seen[source.layout] == 1 else f"{source.layout}-{seen[source.layout]}"
        for study in source:
            if not isinstance(study, Refusal):
                with contextlib.suppress(Refused):
                    yield name, source.load(study)


def train_pack(
    sources: Sequence[str | Path] | Corpus,
    out: Path | str,
    config: PackConfig | None = None,
    *,
    run: Path | str | None = None,
    accelerator: Any = None,
    say: Say = print,
) -> Pack:
    """Train a pack on `sources` and write it to `out`; checkpoints live in `run` (default: `out` + ".run").

    Calling it again after a kill goes on where it stopped.
    """
    out, config = Path(out), config or PackConfig()
    run = Path(run) if run is not None else out.with_name(out.name + ".run")
    corpus = (
        sources if isinstance(sources, Corpus) else prepare_corpus(read_films(sources), run / "corpus", config.size)
    )
    with seeded(config.seed):
        modules = Recipe(corpus, run / "stages", config, accelerator, say).all()
    return export_pack(modules, out, config, corpus.record_of_splits())
