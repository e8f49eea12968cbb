"""Training of PrivDiff-Net: the pack's generator is conditioned on identity, age, sex and findings, not on sentences.

``spg = "guidance"`` (default): plain denoising, each film with the condition of one branch or a random set of
attributes, so that every branch is a noise predictor of its own. ``spg = "literal"``: the printed loss, on the
combination of three branches with one sensitive attribute per step. Suppression is on in every second step, so that
one network can run with and without.

``learn = "attention"`` (default) trains the tokens and the cross-attention and leaves the body of the generator as it
is: little training cannot spoil it. ``learn = "all"`` takes several times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from updp.domains.chest.labels import FINDINGS
from updp.domains.chest.words import phrases
from updp.methods.privdiff.method import Attributes, Denoiser, PrivDiffNet, age_group
from updp.methods.privdiff.sas import Suppression
from updp.methods.privdiff.spg import ATTRIBUTES, BRANCHES, guided
from updp.methods.stage import MethodStage, cached_identities, validation_rows
from updp.models.generator import Generator
from updp.models.samplers import alpha, sigma
from updp.training.generator import cached_latents
from updp.training.loop import StageConfig, TrainingError
from updp.training.sheet import write_sheet

#: 204 800 samples; three of ten teach the identity branch or that of age and sex.
CONFIG = StageConfig(steps=12_800, batch=16, rate=1e-3, warmup=100, average=0.999)
#: Share of films with the condition of each branch; the rest has a random set of attributes.
SHARES = {"none": 0.1, "diagnosis": 0.4, "identity": 0.15, "demographics": 0.15}


class PrivDiffStage(MethodStage):
    name = "privdiff"
    uses = ("autoencoder", "identity", "generator")
    watched = 24

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        corpus, pack, directory = self.corpus, self.pack, self.directory
        self.spg = self.model.pop("spg", "guidance")
        if self.spg not in ("guidance", "literal"):
            raise TrainingError("spg is one of guidance, literal")
        self.learn = self.model.pop("learn", "attention")
        if self.learn not in ("attention", "all"):
            raise TrainingError("learn is one of attention, all")
        start = self.own_generator()
        self.latents = cached_latents(corpus, pack.autoencoder, directory)  # type: ignore[arg-type]
        self.rows = self.labelled_rows("there is no diagnosis to condition on")
        known_rows = np.union1d(self.rows, validation_rows(corpus, self.watched))
        self.identities = cached_identities(corpus, pack, known_rows, directory, self.say)
        known = [self.people.get(str(name), (None, None)) for name in corpus.ids]
        self.ages = np.array([age_group(age) for age, _ in known])
        self.sexes = np.array([{"F": 0, "M": 1}.get(sex or "", 2) for _, sex in known])
        if (self.sexes == 2).all() and (self.ages == age_group(None)).all():
            self.say("privdiff: the sources have neither age nor sex; guidance is away from identity only")
        self.module = self.build()
        with torch.no_grad():
            own = self.module.unet.state_dict()  # it has no text tower: it is conditioned on attributes, not on words
            self.module.unet.load_state_dict({k: v for k, v in start.unet.state_dict().items() if k in own})
            self._begin_with_words(start)
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.weight = pack.autoencoder.loss_weight  # type: ignore[attr-defined]

    def build(self) -> Denoiser:
        roles = self.pack.info["roles"]
        space = int(roles["identity"]["config"]["space"])
        generator: Any = self.pack.generator
        made = Denoiser(generator.unet.without_text(), space, FINDINGS, **self.model)
        if self.learn == "attention":
            for name, parameter in made.unet.named_parameters():
                parameter.requires_grad_(".cross_attn." in name or name.startswith("sentence."))
        return made

    def trained(self, module: Denoiser) -> Denoiser:
        return module

    def _begin_with_words(self, start: Generator) -> None:
        """The tokens of a finding start as the generator's states of the words for it."""
        said = phrases()
        texts = [said["findings"][name][0] for name in FINDINGS] + [said["normal"]["film"][0], ""]
        module: Any = self.module
        for place, text in enumerate(texts):
            condition = start.condition([text])
            states = condition.states[0][condition.mask[0]].T[None]
            pooled = nn.functional.adaptive_avg_pool1d(states, module.bank)[0].T
            module.finding[place].copy_(pooled)
        module.null.copy_(start.condition([""]).states.mean(1, keepdim=True))

    def attributes(self, rows: NDArray[np.int64], device: torch.device) -> Attributes:
        labels = self.corpus.labels[rows]
        return Attributes(
            torch.from_numpy(self.identities[rows].astype(np.float32)).to(device),
            torch.from_numpy(self.ages[rows]).to(device),
            torch.from_numpy(self.sexes[rows]).to(device),
            torch.from_numpy(labels == 1).to(device),
            torch.from_numpy(~np.isnan(labels[:, 0])).to(device),
        )

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        bare: Any = getattr(module, "module", module)
        bare.suppress(Suppression(bare.groups) if step % 2 else None)
        rows = rng.choice(self.rows, self.config.batch)
        t = torch.from_numpy(((np.arange(len(rows)) + rng.random()) / len(rows)).astype(np.float32)).to(device)
        clean = torch.from_numpy(self.latents[rows].astype(np.float32)).to(device)
        noise = torch.from_numpy(rng.standard_normal(clean.shape, np.float32)).to(device)
        who = self.attributes(rows, device)
        if self.spg == "literal":
            return self._literal(module, clean, noise, t, who, rng)
        v = module(*_noised(clean, noise, t), who, draw_shown(len(rows), rng).to(device))
        return self._error(v, clean, noise, t)

    def _literal(
        self, module: nn.Module, clean: Tensor, noise: Tensor, t: Tensor, who: Attributes, rng: np.random.Generator
    ) -> Tensor:
        """The printed loss: one sensitive attribute per step, the error of the combination alone."""
        sensitive = ATTRIBUTES[int(rng.integers(3))]
        given: tuple[tuple[str, ...], ...] = ((), ("diagnosis",), (sensitive,))
        shown = torch.tensor([[part in names for part in ATTRIBUTES] for names in given]).repeat_interleave(len(t), 0)
        latents, _ = _noised(clean, noise, t)
        v = module(latents.repeat(3, 1, 1, 1), t.repeat(3), who.repeat(3), shown.to(t.device))
        # The weights sum to one, so combining v is combining noise.
        combined = guided(torch.split(v, len(t)), 2.5, (0.5,), rescale=False)
        return self._error(combined, clean, noise, t)

    def _error(self, v: Tensor, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        a, s = alpha(t)[:, None, None, None], sigma(t)[:, None, None, None]
        loss: Tensor = ((v - (a * noise - s * clean)).square() * self.weight.to(v.device)).mean()
        return loss

    def release(self, module: nn.Module, rows: NDArray[np.int64]) -> tuple[Tensor, dict[str, float]]:
        """Films at full strength."""
        method = PrivDiffNet.of(module.cpu(), steps=6)  # type: ignore[arg-type]
        rng = np.random.default_rng(0)
        parts = []
        for i in range(0, len(rows), 32):
            some = rows[i : i + 32]
            latents = torch.from_numpy(rng.standard_normal((len(some), *self.latents.shape[1:]), np.float32))
            parts.append(self.pack.autoencoder.decode(method.denoise(latents, self.attributes(some, _CPU), 1.0)))
        made = torch.cat(parts)
        write_sheet(made[:16], self.directory / "privdiff-samples.png", columns=8)
        return made, {}


_CPU = torch.device("cpu")


def draw_shown(count: int, rng: np.random.Generator) -> Tensor:
    """Which attributes each film of a batch is conditioned on, N×4."""
    names = [*SHARES, ""]
    shares = [*SHARES.values(), 1 - sum(SHARES.values())]
    rows = []
    for pick in rng.choice(len(names), count, p=shares):
        name = names[pick]
        rows.append([part in BRANCHES[name] for part in ATTRIBUTES] if name else list(rng.random(4) < 0.5))
    return torch.tensor(rows)


def _noised(clean: Tensor, noise: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    return alpha(t)[:, None, None, None] * clean + sigma(t)[:, None, None, None] * noise, t
