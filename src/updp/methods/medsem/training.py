"""Training of MedSem-DeID: identity away, medical features kept, the original back with the right password only.

The paper's identity loss is a cosine without a lower bound, which rewards a face that is *unlike* the patient, and that
can be found by what it is not. Here the cosine counts above the mean of two different people only; ``literal`` is the
paper's own. ``hide`` lets the recovery's losses reach the encryptor, as in the paper: it then hides the patient in what
leaves. Without it the decryptor learns from what leaves anyhow, and says how much that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from updp.methods.invented_face.passwords import LENGTH, faces_of, token_of
from updp.methods.medsem.network import MedSemNet
from updp.models.face_blend import blend, kept_region
from updp.models.faces import strip
from updp.models.pack import Pack
from updp.training.face_stages import as_tensor, jittered
from updp.training.faces import FaceCorpus, prepare_faces
from updp.training.figures import mean_auc
from updp.training.loop import StageConfig

CONFIG = StageConfig(steps=6000, batch=8, rate=3e-4, warmup=50, schedule="stable", average=0.995, momentum=0.5)
#: Weights of the losses: medical features and absolute error of recovery as in the paper, the others ours.
MEDICAL, RECOVERED, ADVERSARY, NEAR = 5.0, 10.0, 0.05, 1.0
LITERAL_RECOVERED = 0.1
_R1_EVERY, _R1 = 8, 1.0
_WATCHED = 96


class Critic(nn.Module):
    """Real or made, for each patch of a face (Isola et al. 2017)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        w = width
        self.layers = nn.Sequential(
            nn.Conv2d(12, w, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(w, 2 * w, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * w, 4 * w, 4, 2, 1),
            nn.GroupNorm(8, 4 * w),
            nn.LeakyReLU(0.2),
            nn.Conv2d(4 * w, 1, 3, padding=1),
        )

    def forward(self, photos: Tensor) -> Tensor:
        scores: Tensor = self.layers(functional.pixel_unshuffle(2 * photos - 1, 2))
        return scores


class WithCritic(nn.Module):
    def __init__(self, net: MedSemNet, width: int) -> None:
        super().__init__()
        self.net, self.critic = net, Critic(width)


class MedSemStage:
    name = "medsem"
    uses = ("autoencoder", "identity", "medical")

    def __init__(
        self,
        corpus: FaceCorpus,
        config: StageConfig,
        pack: Pack,
        model: dict[str, Any],
        *,
        directory: Path,
        people: Mapping[str, Any],
        say: Callable[[str], None] = print,
    ) -> None:
        self.corpus, self.config, self.pack = corpus, config, pack
        settings = dict(model)
        self.literal, self.hide = bool(settings.pop("literal", False)), bool(settings.pop("hide", False))
        self.use_medical_loss = bool(settings.pop("medical_loss", True))
        self.critic = int(settings.pop("critic", 32))
        if self.literal:
            settings = {"base": "own", **settings}
            self.hide = True
        medical: Any = pack.role("medical")
        code: Any = pack.autoencoder
        self.model = {
            "side": int(pack.info["size"]), "channels": code.channels, "medical": list(medical.widths), **settings
        }  # fmt: skip
        self.medical, self.identity = medical, pack.identity
        self.rows = corpus.rows("train")
        self.watched = np.sort(np.random.default_rng(0).permutation(corpus.rows("val"))[:_WATCHED])
        self.impostors = self._impostors()
        say(f"medsem: mean cosine of two different people {self.impostors:.3f}")
        self.module: nn.Module = self.build()

    def build(self) -> WithCritic:
        return WithCritic(MedSemNet(**self.model), self.critic)

    def parts(self, module: WithCritic) -> list[nn.Module]:
        return [module.net, module.critic]

    def trained(self, module: WithCritic) -> MedSemNet:
        return module.net

    @torch.no_grad()
    def _impostors(self) -> float:
        """The mean cosine of photographs of different people."""
        first = np.unique(self.corpus.patients[self.rows], return_index=True)[1][:200]
        found = self.identity.embed(as_tensor(self.corpus.films[self.rows[first]]))
        if len(found) < 2:
            return 0.0
        alike = found @ found.T
        return float((alike.sum() - alike.diagonal().sum()) / (len(found) * (len(found) - 1)))

    def passwords(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        words = [rng.bytes(LENGTH) for _ in range(count)]
        faces = as_tensor(faces_of(words, self.model["side"]))
        return faces, torch.from_numpy(np.stack([token_of(word) for word in words]))

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        bare: Any = getattr(module, "module", module)
        net: MedSemNet = bare.net
        rows = rng.choice(self.rows, self.config.batch)
        photos, _ = jittered(as_tensor(self.corpus.films[rows]), rng)
        photos = photos.to(device)
        n = len(photos)
        faces, tokens = (x.to(device) for x in self.passwords(n, rng))
        strength = torch.from_numpy(rng.uniform(0.5, 1, n).astype(np.float32)).to(device)
        with torch.no_grad():
            seen, who = self.medical.features(photos), self._who(photos)
        made = net.encrypt(self.pack, photos, faces, tokens, strength)
        loss = self._apart(who, made)
        if self.use_medical_loss:
            loss = loss + MEDICAL * self._medical(seen, made, strength)
        if not self.literal:  # no further from the joined faces than the other losses ask
            loss = loss + NEAR * (made - blend(photos, faces, strength)).abs().mean()
        loss = loss + self._opposed(bare.critic, made, photos, step)
        # As it is stored: eight bits, and now and then what a JPEG adds.
        spread = 0.29 if rng.random() < 0.75 else 2.0
        noise = torch.from_numpy(rng.standard_normal(tuple(made.shape), np.float32)).to(device)
        stored = ((made if self.hide else made.detach()) + spread / 255 * noise).clamp(0, 1)
        back = net.decrypt(self.pack, stored, faces, tokens)
        weight = LITERAL_RECOVERED if self.literal else RECOVERED
        loss = loss + weight * (back - photos).abs().mean() + 1 - self._alike(who, back).mean()
        half = slice(0, max(1, n // 2))
        others, keys = (x.to(device) for x in self.passwords(len(photos[half]), rng))
        wrong = net.decrypt(self.pack, stored[half], others, keys)
        return loss + self._apart(who[half], wrong)

    def _who(self, photos: Tensor) -> Tensor:
        net: Any = self.identity
        found: Tensor = net(photos)
        return found

    def _alike(self, who: Tensor, made: Tensor) -> Tensor:
        return (who * self._who(made)).sum(1)

    def _apart(self, who: Tensor, made: Tensor) -> Tensor:
        alike = self._alike(who, made)
        return (alike if self.literal else (alike - self.impostors).clamp_min(0)).mean()

    def _medical(self, seen: list[Tensor], made: Tensor, strength: Tensor) -> Tensor:
        """Medical features of what leaves against those of the original; with a public face, around the eyes."""
        where = torch.ones_like(made[:, :1]) if self.literal else kept_region(strength, made.shape[-1])
        each = []
        for a, b in zip(seen, self.medical.features(made), strict=True):
            weight = functional.adaptive_avg_pool2d(strip(where), (a.shape[-2], a.shape[-1]))
            each.append((weight * (a - b).square()).mean() / (weight * a.square()).mean().clamp_min(1e-6))
        return torch.stack(each).mean()

    def _opposed(self, critic: nn.Module, made: Tensor, real: Tensor, step: int) -> Tensor:
        real = real.detach().requires_grad_(step % _R1_EVERY == 0)
        on_real, on_made = critic(real), critic(made.detach())
        loss = functional.softplus(-on_real).mean() + functional.softplus(on_made).mean()
        if real.requires_grad:
            (gradient,) = torch.autograd.grad(on_real.mean((1, 2, 3)).sum(), real, create_graph=True)
            loss = loss + _R1_EVERY * _R1 / 2 * gradient.square().sum((1, 2, 3)).mean()
        fixed = {name: value.detach() for name, value in critic.named_parameters()}
        return loss + ADVERSARY * functional.softplus(-functional_call(critic, fixed, (made,))).mean()

    @torch.no_grad()
    def validate(self, module: nn.Module) -> dict[str, float]:
        """At strength 1, from eight bits: identity before, after and recovered, diseases, recovery."""
        if not len(self.watched):
            return {}
        bare: Any = module
        rng = np.random.default_rng(0)
        films, made, back, wrong = [], [], [], []
        for part in np.array_split(self.watched, -(-len(self.watched) // 16)):
            photos = as_tensor(self.corpus.films[part])
            faces, tokens = self.passwords(len(photos), rng)
            out = bare.net.encrypt(self.pack, photos, faces, tokens, torch.ones(len(photos)))
            out = (out * 255).round() / 255
            others, keys = self.passwords(len(photos), rng)
            films.append(photos)
            made.append(out)
            back.append(bare.net.decrypt(self.pack, out, faces, tokens))
            wrong.append(bare.net.decrypt(self.pack, out, others, keys))
        real, new, again, other = (torch.cat(x) for x in (films, made, back, wrong))
        who: Tensor = self.identity.embed(real)
        truth = self.corpus.labels[self.watched]
        figures = {
            "ID distance": _distance(who, self.identity.embed(new)),
            "ID distance recovered": _distance(who, self.identity.embed(again)),
            "ID distance, wrong password": _distance(who, self.identity.embed(other)),
            "ID distance of impostors": _distance(who, who.roll(len(who) // 2, 0)),
            "recovery PSNR": float(-10 * (again - real).square().mean((1, 2, 3)).clamp_min(1e-9).log10().mean()),
            "change": float((new - real).abs().mean()),
            "diseases real": mean_auc(truth, self.pack.classifier.probabilities(real).numpy()),
            "diseases": mean_auc(truth, self.pack.classifier.probabilities(new).numpy()),
        }
        return {name: value for name, value in figures.items() if value == value}


def _distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm(dim=1).mean())


def prepare(data: Any, run: Path, pack: Pack, say: Callable[[str], None]) -> FaceCorpus:
    """The corpus that `updp train method` learns from."""
    recipe = pack.info.get("recipe", {})
    return prepare_faces(
        data, run / "corpus", int(pack.info["size"]), looks=int(recipe.get("looks", 3)),
        seed=int(recipe.get("seed", 0)), limit=int(recipe.get("limit", 0)) or None, say=say,
    )  # fmt: skip
