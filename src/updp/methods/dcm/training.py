"""Training of DCM-DeID: a short code of the findings.

The decoder is the pack's generator and learns nothing here, so only the code and its reader are trained, on features
that are computed once. Loss: the reader's distance to the outputs of the findings network + bits - what an adversary
reads of the identity from the code (gradient reversal). The targets are outputs and not labels: a network this small
would overfit to the labels of its training films.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.core.cache import FolderCache, kept_once, key_of
from updp.methods.dcm.method import Compensator, compensate, sentences
from updp.methods.stage import MethodStage, cached_identities
from updp.training.autoencoder import as_tensor
from updp.training.figures import mean_auc
from updp.training.loop import StageConfig
from updp.training.sheet import write_sheet

CONFIG = StageConfig(steps=500, batch=128, rate=2e-3, warmup=20, average=0.98)
#: Weights of a bit and of the adversary against the error of an output, whose variance over films is one.
BIT, ADVERSARY = 0.01, 0.05
#: A finding is stated for so many times as many films as have it: at one, most films that have it would not state it.
OFTEN, MOST = 3.0, 0.4


class _Reverse(torch.autograd.Function):
    """The identity, whose gradient changes sign (Ganin et al. 2016, arXiv 1505.07818)."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0]


class Trainer(nn.Module):
    """The code and its reader with the adversary that reads identities."""

    def __init__(self, network: Compensator, space: int) -> None:
        super().__init__()
        self.network = network
        channels = network.config["channels"]
        self.adversary = nn.Sequential(nn.Linear(channels, 256), nn.ReLU(), nn.Linear(256, space))

    def train(self, mode: bool = True) -> Trainer:
        super().train(mode)
        self.network.medical.eval()
        return self


class DCMStage(MethodStage):
    name = "dcm"

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        films = int(self.model.pop("films", 4000))
        self.own_generator()  # it fills the cells
        rows = self.labelled_rows("there are no findings to code")
        self.rows = np.sort(np.random.default_rng(self.config.seed).permutation(rows)[:films])
        self.identities = cached_identities(self.corpus, self.pack, self.rows, self.directory, self.say)
        self.module = self.build()
        self.features = self._cached_features()
        module: Any = self.module
        with torch.no_grad():
            outputs = module.network.medical.head(torch.from_numpy(self.features.astype(np.float32)))
        self.targets = (outputs - outputs.mean(0)) / outputs.std(0).clamp_min(1e-6)

    def build(self) -> Trainer:
        roles = self.pack.info["roles"]
        classifier: Any = self.pack.classifier
        made = Trainer(
            Compensator(roles["classifier"]["config"], **self.model), int(roles["identity"]["config"]["space"])
        )
        made.network.medical.load_state_dict(classifier.state_dict())
        made.network.medical.requires_grad_(False).eval()
        return made

    @torch.no_grad()
    def trained(self, module: Trainer) -> Compensator:
        """The network, with the threshold from which it states each finding."""
        network = module.network
        said = network.reader(network.code(torch.from_numpy(self.features.astype(np.float32))))
        shares = torch.from_numpy((self.corpus.labels[self.rows] == 1).mean(0) * OFTEN).clamp(max=MOST)
        least = [float(torch.quantile(column, 1 - float(share))) for column, share in zip(said.T, shares, strict=True)]
        # A finding that no training film has is never stated.
        network.least.copy_(torch.tensor([v if p > 0 else 1e4 for v, p in zip(least, shares, strict=True)]))
        return network

    @torch.no_grad()
    def _cached_features(self) -> NDArray[np.float16]:
        """Features of the training films, computed once for this findings network."""
        network: Any = self.module.network

        def compute() -> dict[str, NDArray[np.float16]]:
            self.say(f"dcm: features of {len(self.rows)} films")
            parts = [
                network.features(as_tensor(self.corpus.films[self.rows[i : i + 32]])).half().numpy()
                for i in range(0, len(self.rows), 32)
            ]
            return {"features": np.concatenate(parts)}

        weights = [value.numpy() for value in network.medical.state_dict().values()]
        return kept_once(FolderCache(self.directory), key_of("features", self.rows, *weights), compute)["features"]

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        bare: Any = getattr(module, "module", module)
        network: Compensator = bare.network
        places = rng.choice(len(self.rows), min(self.config.batch, len(self.rows)), replace=False)
        rows = self.rows[places]
        features = torch.from_numpy(self.features[places].astype(np.float32)).to(device)
        rounding = torch.from_numpy((rng.random((len(rows), network.config["channels"])) - 0.5).astype(np.float32))
        code = network.code(features, rounding.to(device))
        error = functional.mse_loss(network.reader(code), self.targets[places].to(device))
        who = torch.from_numpy(self.identities[rows].astype(np.float32)).to(device)
        reversed_ = _Reverse.apply(code)  # type: ignore[no-untyped-call]
        guess = functional.normalize(bare.adversary(reversed_), dim=1)
        named = functional.cross_entropy(guess @ who.T / 0.1, torch.arange(len(rows), device=device))
        bits = network.code.bits(code).mean()
        total: Tensor = error + BIT * bits + ADVERSARY * named
        return total

    def release(self, module: nn.Module, rows: NDArray[np.int64]) -> tuple[Tensor, dict[str, float]]:
        """Films of which every cell is blocked."""
        generator: Any = self.pack.generator
        network = self.trained(module)  # type: ignore[arg-type]
        films = as_tensor(self.corpus.films[rows])
        code = network.code(network.features(films))
        figures = {
            "bits": float(network.code.bits(code).mean()),
            "findings in the code": mean_auc(self.corpus.labels[rows], network.reader(code).numpy()),
        }
        words = [sentences(found) for found in network.findings(code)]
        noise = generator.seeded_noise(range(len(rows)))
        blocked = torch.ones(len(rows), 1, *noise.shape[-2:])
        made = compensate(generator, films, blocked, words, noise, steps=8).clamp(0, 1)
        write_sheet(torch.cat([films[:8], made[:8]]), self.directory / "dcm-samples.png", columns=8)
        return made, figures
