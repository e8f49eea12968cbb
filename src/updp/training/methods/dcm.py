"""Training of DCM-DeID: a short code of the findings, and a decoder that fills any blocked cells from it.

Blocked cells are drawn at random in training, at every share: whichever the saliency picks later, the decoder has seen
their like. Loss: the blocked latents + what a head reads from the code (labels, and the findings network's own opinion)
+ bits - what an adversary reads of the identity (gradient reversal), and now and then the finished film as the findings
network and the pack's identity see it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.methods.dcm import CELL, Compensator, block, cell_saliency, compensate, similarity
from updp.models.pack import Pack
from updp.training.autoencoder import as_tensor
from updp.training.corpus import Corpus
from updp.training.generator import cached_latents
from updp.training.loop import StageConfig, TrainingError
from updp.training.methods.adversaries import judged, judged_rows
from updp.training.methods.privdiff import cached_identities, sheet
from updp.training.vlm import masked_bce

CONFIG = StageConfig(steps=800, batch=32, rate=1e-3, warmup=20, average=0.99)
#: Weights of the parts of the loss; a bit costs little, or the code falls silent before it has learned to speak.
FINDINGS_WEIGHT, BIT, ADVERSARY, SEEN, HINGE = 1.0, 0.002, 0.1, 0.3, 1.0
#: Likeness to the patient below which the film is as unlike as a stranger's.
STRANGER = 0.1
#: Every so many steps, so many finished films are looked at.
LOOK_EVERY, LOOK_AT = 8, 4


class _Reverse(torch.autograd.Function):
    """Passes forward as it is, and its gradient with the other sign (Ganin et al. 2016, arXiv 1505.07818)."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0]


class Trainer(nn.Module):
    """The compensator with the reader of findings and the adversary that reads identities."""

    def __init__(self, network: Compensator, space: int) -> None:
        super().__init__()
        self.network = network
        channels, labels = network.config["channels"], len(network.medical.labels)
        self.reader = nn.Linear(2 * channels, 2 * labels)
        self.adversary = nn.Sequential(nn.Flatten(), nn.LazyLinear(256), nn.ReLU(), nn.Linear(256, space))

    def read(self, code: Tensor) -> tuple[Tensor, Tensor]:
        """Logits for the labels and for the findings network's opinion."""
        pooled = torch.cat([code.mean((2, 3)), code.amax((2, 3))], 1)
        first, second = self.reader(pooled).chunk(2, 1)
        return first, second

    def train(self, mode: bool = True) -> Trainer:
        super().train(mode)
        self.network.medical.eval()
        return self


class DCMStage:
    name = "dcm"
    uses = ("autoencoder", "identity")

    def __init__(
        self,
        corpus: Corpus,
        config: StageConfig,
        pack: Pack,
        model: dict[str, Any],
        *,
        directory: Path,
        say: Callable[[str], None] = print,
        **_: Any,
    ) -> None:
        self.corpus, self.config, self.pack, self.directory = corpus, config, pack, directory
        films = int(model.pop("films", 2000))
        self.model = model
        rows = np.flatnonzero((corpus.splits == "train") & corpus.labelled())
        if len(rows) == 0:
            raise TrainingError("no film of the training patients is labelled: there are no findings to code")
        self.rows = np.sort(np.random.default_rng(config.seed).permutation(rows)[:films])
        self.latents = cached_latents(corpus, pack.autoencoder, directory)  # type: ignore[arg-type]
        self.identities = cached_identities(corpus, pack, self.rows, directory, say)
        self.module: nn.Module = self.build()
        self.maps = self._cached_maps(say)
        weight = pack.autoencoder.scale.sqrt()  # type: ignore[attr-defined]
        self.weight = (weight / weight.mean())[:, None, None]

    def build(self) -> Trainer:
        roles = self.pack.info["roles"]
        classifier: Any = self.pack.classifier
        channels = int(roles["autoencoder"]["config"]["channels"])
        made = Trainer(
            Compensator(roles["classifier"]["config"], channels, **self.model),
            int(roles["identity"]["config"]["space"]),
        )
        made.network.medical.load_state_dict(classifier.state_dict())
        made.network.medical.requires_grad_(False).eval()
        with torch.no_grad():  # the lazy layer learns its size
            size = roles["classifier"]["config"]["size"] // 32
            made.adversary(torch.zeros(1, made.network.config["channels"], size, size))
        return made

    def trained(self, module: Trainer) -> Compensator:
        return module.network

    @torch.no_grad()
    def _cached_maps(self, say: Callable[[str], None]) -> NDArray[np.float16]:
        """Feature maps of the training films, computed once for this findings network."""
        module: Any = self.module
        digest = hashlib.sha256(self.rows.tobytes())
        for value in module.network.medical.state_dict().values():
            digest.update(value.numpy().tobytes())
        path = self.directory / f"findings-{digest.hexdigest()[:12]}.npy"
        if not path.exists():
            say(f"dcm: feature maps of {len(self.rows)} films")
            parts = [
                module.network.features(as_tensor(self.corpus.films[self.rows[i : i + 32]])).half().numpy()
                for i in range(0, len(self.rows), 32)
            ]
            np.save(path, np.concatenate(parts))
        kept: NDArray[np.float16] = np.load(path, mmap_mode="r")
        return kept

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        bare: Any = getattr(module, "module", module)
        places = rng.choice(len(self.rows), min(self.config.batch, len(self.rows)), replace=False)
        rows = self.rows[places]
        maps = torch.from_numpy(self.maps[np.sort(places)][np.argsort(np.argsort(places))].astype(np.float32))
        clean = torch.from_numpy(self.latents[rows].astype(np.float32)).to(device)
        maps = maps.to(device)
        rounding = torch.from_numpy((rng.random((len(rows), *self._code_shape(maps))) - 0.5).astype(np.float32))
        code = bare.network.code(maps, rounding.to(device))
        blocked = random_blocks(len(rows), clean.shape[-1], rng).to(device)
        # Latents of the whole film stand in for those of the open cells; they differ at the border only.
        filled = bare.network.fill(clean, blocked, code)
        error = ((filled - clean).abs() * self.weight.to(device) * blocked).sum() / blocked.sum() / clean.shape[1]
        labels = torch.from_numpy(self.corpus.labels[rows]).to(device)
        said, opinion = bare.read(code)
        with torch.no_grad():
            thought = torch.sigmoid(bare.network.medical.head(maps.mean((2, 3))))
        findings = masked_bce(said, labels) + functional.binary_cross_entropy_with_logits(opinion, thought)
        who = torch.from_numpy(self.identities[rows].astype(np.float32)).to(device)
        reversed_ = _Reverse.apply(code)  # type: ignore[no-untyped-call]
        guess = functional.normalize(bare.adversary(reversed_), dim=1)
        named = functional.cross_entropy(guess @ who.T / 0.1, torch.arange(len(rows), device=device))
        bits = bare.network.code.bits(code).mean()
        total: Tensor = error + FINDINGS_WEIGHT * findings + BIT * bits + ADVERSARY * named
        if step % LOOK_EVERY == 0:
            some = slice(0, LOOK_AT)
            total = total + self._look(bare, rows[some], filled[some], blocked[some], who[some])
        return total

    def _code_shape(self, maps: Tensor) -> tuple[int, ...]:
        module: Any = self.module
        return (module.network.config["channels"], *maps.shape[-2:])

    def _look(self, bare: Any, rows: NDArray[np.int64], filled: Tensor, blocked: Tensor, who: Tensor) -> Tensor:
        """The finished film: what the findings network makes of it, and whether it is still the patient."""
        coder: Any = self.pack.autoencoder
        identity: Any = self.pack.identity
        films = as_tensor(self.corpus.films[rows]).to(filled.device)
        mask = blocked.repeat_interleave(CELL, 2).repeat_interleave(CELL, 3)
        made = films * (1 - mask) + coder.decode(filled, clamp=False) * mask
        with torch.no_grad():
            real = bare.network.medical(films)
        seen = functional.mse_loss(bare.network.medical(made), real)
        alike = (identity(made) * who).sum(1)
        share = blocked.mean((1, 2, 3))  # open cells show the patient whatever the decoder does
        return SEEN * seen + HINGE * (share * functional.relu(alike - STRANGER)).mean()

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        rows = judged_rows(self.corpus, 32)
        if len(rows) == 0:
            return {}
        network: Any = module.network
        films = as_tensor(self.corpus.films[rows])
        code = network.code(network.features(films))
        figures = {"bits": float(network.code.bits(code).mean())}
        blocked = torch.ones(len(rows), 1, *self.latents.shape[-2:])
        made = compensate(network, self.pack.autoencoder, films, blocked, code).clamp(0, 1)
        some = films[:8]
        partly = block(cell_saliency(some, self.pack.identity.embed, similarity), 0.7)
        half = compensate(network, self.pack.autoencoder, some, partly, code[:8]).clamp(0, 1)
        sheet(torch.cat([some, half, made[:8]]), self.directory / "dcm-samples.png")
        return figures | judged(self.pack, self.corpus, rows, made)


def random_blocks(count: int, side: int, rng: np.random.Generator) -> Tensor:
    """Masks of blobs, each blocking its own share of the cells; one in five blocks all."""
    noise = torch.from_numpy(rng.standard_normal((count, 1, side, side)).astype(np.float32))
    smooth = functional.avg_pool2d(noise, 3, 1, 1, count_include_pad=False)
    shares = np.where(rng.random(count) < 0.2, 1.0, rng.uniform(0.1, 1.0, count))
    return torch.cat([block(smooth[i : i + 1], float(share)) for i, share in enumerate(shares)])
