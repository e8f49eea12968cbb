"""Training of DCM-DeID: a short code of features that the generator can draw from.

The decoder is the pack's generator and stays as it is; the code, its tokens and its readers learn. Loss: the distance
of what is read from the code to the outputs of the findings network and to the vlm's embedding + the error of the
generator conditioned on the code's tokens + bits - what an adversary reads of the identity from the code (gradient
reversal). The code is cut after a random channel in every step, so that one network serves every rate. Targets are
outputs and not labels: a network this small would overfit to the labels of its training films.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.core.cache import FolderCache, kept_once, key_of
from updp.methods.dcm.compensation import FeatureCompensator
from updp.methods.dcm.method import compensate
from updp.methods.stage import MethodStage, cached_identities
from updp.models.samplers import alpha, sigma
from updp.training.autoencoder import as_tensor
from updp.training.figures import mean_auc
from updp.training.generator import cached_latents
from updp.training.loop import StageConfig
from updp.training.sheet import write_sheet

CONFIG = StageConfig(steps=6000, batch=128, rate=1e-3, warmup=50, average=0.995)
#: Weights of a bit, the adversary and the generator's error against the error of an output, whose variance is one.
BIT, ADVERSARY, DRAWN = 0.01, 0.05, 1.0
#: Films of a step that the generator is asked about: it is the costly part.
_DRAWN_FILMS = 8


class _Reverse(torch.autograd.Function):
    """The identity, whose gradient changes sign (Ganin et al. 2016, arXiv 1505.07818)."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0]


class Trainer(nn.Module):
    """The code and its readers with the adversary that reads identities."""

    def __init__(self, network: FeatureCompensator, space: int) -> None:
        super().__init__()
        self.network = network
        self.adversary = nn.Sequential(nn.Linear(network.channels, 256), nn.ReLU(), nn.Linear(256, space))

    def train(self, mode: bool = True) -> Trainer:
        super().train(mode)
        self.network.medical.eval()
        return self


class DCMStage(MethodStage):
    name = "dcm"
    uses = ("autoencoder", "identity", "vlm", "generator")

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        films = int(self.model.pop("films", 4000))
        self.bit = float(self.model.pop("bit", BIT))
        self.generator = self.own_generator()  # it fills the cells
        rows = self.labelled_rows("there are no findings to code")
        self.rows = np.sort(np.random.default_rng(self.config.seed).permutation(rows)[:films])
        self.identities = cached_identities(self.corpus, self.pack, self.rows, self.directory, self.say)
        self.latents = cached_latents(self.corpus, self.pack.autoencoder, self.directory)  # type: ignore[arg-type]
        self.module = self.build()
        self.features = self._cached_features()
        module: Any = self.module
        features = torch.from_numpy(self.features.astype(np.float32))
        with torch.no_grad():
            outputs = module.network.medical.head(features[:, : -module.network.config["space"]])
        self.targets = (outputs - outputs.mean(0)) / outputs.std(0).clamp_min(1e-6)
        self.weight = self.pack.autoencoder.loss_weight  # type: ignore[attr-defined]

    def build(self) -> Trainer:
        roles = self.pack.info["roles"]
        classifier: Any = self.pack.classifier
        context = self.generator.condition([""]).states.shape[2]
        space = int(roles["vlm"]["config"]["space"])
        made = Trainer(
            FeatureCompensator(roles["classifier"]["config"], space, context, **self.model),
            int(roles["identity"]["config"]["space"]),
        )
        made.network.medical.load_state_dict(classifier.state_dict())
        made.network.medical.requires_grad_(False).eval()
        return made

    def trained(self, module: Trainer) -> FeatureCompensator:
        return module.network

    @torch.no_grad()
    def _cached_features(self) -> NDArray[np.float16]:
        """Features of the training films, computed once for these networks."""
        network: Any = self.module.network

        def compute() -> dict[str, NDArray[np.float16]]:
            self.say(f"dcm: features of {len(self.rows)} films")
            parts = [
                network.features(as_tensor(self.corpus.films[self.rows[i : i + 32]]), self.pack.vlm).half().numpy()
                for i in range(0, len(self.rows), 32)
            ]
            return {"features": np.concatenate(parts)}

        weights = [value.numpy() for value in network.medical.state_dict().values()]
        seen = str(self.pack.info.get("sha256", {}))
        return kept_once(FolderCache(self.directory), key_of("both features", self.rows, seen, *weights), compute)[
            "features"
        ]

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        bare: Any = getattr(module, "module", module)
        network: FeatureCompensator = bare.network
        places = rng.choice(len(self.rows), min(self.config.batch, len(self.rows)), replace=False)
        rows = self.rows[places]
        features = torch.from_numpy(self.features[places].astype(np.float32)).to(device)
        kept = int(rng.integers(1, network.channels + 1))
        rounding = torch.from_numpy((rng.random((len(rows), network.channels)) - 0.5).astype(np.float32))
        code = network.code(features, kept, rounding.to(device))
        error = functional.mse_loss(network.reader(code), self.targets[places].to(device))
        seen = features[:, -network.config["space"] :]
        unlike = (1 - functional.cosine_similarity(network.semantics(code), seen, dim=1)).mean()
        who = torch.from_numpy(self.identities[rows].astype(np.float32)).to(device)
        reversed_ = _Reverse.apply(code)  # type: ignore[no-untyped-call]
        guess = functional.normalize(bare.adversary(reversed_), dim=1)
        named = functional.cross_entropy(guess @ who.T / 0.1, torch.arange(len(rows), device=device))
        bits = network.code.bits(code, kept).mean()
        drawn = self._drawn(network, rows[:_DRAWN_FILMS], code[:_DRAWN_FILMS], rng)
        total: Tensor = error + unlike + DRAWN * drawn + self.bit * bits + ADVERSARY * named
        return total

    def _drawn(
        self, network: FeatureCompensator, rows: NDArray[np.int64], code: Tensor, rng: np.random.Generator
    ) -> Tensor:
        """The error of the pack's generator that is conditioned on the code's tokens."""
        clean = torch.from_numpy(self.latents[rows].astype(np.float32)).to(code.device)
        noise = torch.from_numpy(rng.standard_normal(clean.shape, np.float32)).to(code.device)
        t = torch.from_numpy(rng.random(len(rows)).astype(np.float32)).to(code.device)
        a, s = alpha(t)[:, None, None, None], sigma(t)[:, None, None, None]
        v = self.generator.unet(a * clean + s * noise, t, network.condition(code))
        error: Tensor = ((v - (a * noise - s * clean)).square() * self.weight.to(v.device)).mean()
        return error

    def release(self, module: nn.Module, rows: NDArray[np.int64]) -> tuple[Tensor, dict[str, float]]:
        """Films of which every cell is blocked."""
        network: Any = module.network
        films = as_tensor(self.corpus.films[rows])
        code = network.code(network.features(films, self.pack.vlm))
        figures = {
            "bits": float(network.code.bits(code).mean()),
            "findings in the code": mean_auc(self.corpus.labels[rows], network.reader(code).numpy()),
        }
        noise = self.generator.seeded_noise(range(len(rows)))
        blocked = torch.ones(len(rows), 1, *noise.shape[-2:])
        made = compensate(self.generator, films, blocked, network.condition(code), noise, steps=8).clamp(0, 1)
        write_sheet(torch.cat([films[:8], made[:8]]), self.directory / "dcm-samples.png", columns=8)
        return made, figures
