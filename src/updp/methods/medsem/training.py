"""Training of MedSem-DeID: identity away, medical features kept, the original back with the right password only.

The paper's identity loss is a cosine without a lower bound, which rewards a face that is *unlike* the patient, and that
can be found by what it is not. Here the cosine counts above the mean of two different people only; ``literal`` is the
paper's own, in which the recovery's losses reach the encryptor, so that it hides the patient in what leaves. Here the
patient lies under a veil in it (``veil``), and the decryptor learns from the file as it is stored.

Whose face it is says one recogniser, ``recogniser`` among the settings of the model; "" is the pack's own network that
learned from it, which is faster and knows fewer people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from updp.domains.face.frame import GOAL
from updp.methods.invented_face.passwords import LENGTH, faces_of, token_of
from updp.methods.medsem import veil
from updp.methods.medsem.network import MedSemNet
from updp.models import recognisers
from updp.models.face_blend import blend, kept_region
from updp.models.faces import BLOCK, strip
from updp.models.pack import Pack
from updp.training.face_stages import as_tensor, jittered
from updp.training.faces import FaceCorpus, prepare_faces
from updp.training.figures import mean_auc
from updp.training.loop import StageConfig

CONFIG = StageConfig(steps=6000, batch=8, rate=3e-4, warmup=50, schedule="stable", average=0.995, momentum=0.5)
#: Weights of the losses: medical features and absolute error of recovery as in the paper, the others chosen here.
MEDICAL, RECOVERED, ADVERSARY, NEAR, APART = 5.0, 10.0, 0.05, 1.0, 4.0
LITERAL_RECOVERED = 0.1
_R1_EVERY, _R1 = 8, 1.0
_WATCHED = 48
_SPREAD_OF = 400  # photographs that the spread of the code is taken from


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
    uses = ("autoencoder", "medical")  # what its networks compute with; a recogniser only judges them

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
        self.literal = bool(settings.pop("literal", False))
        recogniser = str(settings.pop("recogniser", "arcface"))
        self.use_medical_loss = bool(settings.pop("medical_loss", True))
        self.critic = int(settings.pop("critic", 32))
        if self.literal:
            settings = {"base": "own", "veiled": False, **settings}
        medical: Any = pack.role("medical")
        code: Any = pack.autoencoder
        self.model = {
            "side": int(pack.info["size"]), "channels": code.channels, "medical": list(medical.widths), **settings
        }  # fmt: skip
        self.medical = medical
        self.recogniser = recogniser
        self.identity: Any = recognisers.differentiable(recogniser) if recogniser else pack.identity
        self.rows = corpus.rows("train")
        self.watched = np.sort(np.random.default_rng(0).permutation(corpus.rows("val"))[:_WATCHED])
        with torch.no_grad():
            some = as_tensor(corpus.films[np.random.default_rng(0).permutation(self.rows)[:_SPREAD_OF]])
            self.spread = code.encode(some).std((0, 2, 3)).clamp_min(1e-4)
        self.impostors = self._impostors()
        say(f"medsem: mean cosine of two different people {self.impostors:.3f}")
        self.module: nn.Module = self.build()

    def build(self) -> WithCritic:
        net = MedSemNet(**self.model)
        net.spread.copy_(self.spread)
        return WithCritic(net, self.critic)

    def parts(self, module: WithCritic) -> list[nn.Module]:
        return [module.net, module.critic]

    def trained(self, module: WithCritic) -> MedSemNet:
        return module.net

    @torch.no_grad()
    def _impostors(self) -> float:
        """The mean cosine of photographs of different people."""
        first = np.unique(self.corpus.patients[self.rows], return_index=True)[1][:200]
        found = self._embedded(as_tensor(self.corpus.films[self.rows[first]]))
        if len(found) < 2:
            return 0.0
        alike = found @ found.T
        return float((alike.sum() - alike.diagonal().sum()) / (len(found) * (len(found) - 1)))

    def passwords(
        self, count: int, rng: np.random.Generator, device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Public faces, tokens and secret numbers of passwords that are drawn."""
        words, side = [rng.bytes(LENGTH) for _ in range(count)], self.model["side"]
        secret = veil.secret_numbers(words, side // BLOCK) if self.model.get("veiled", True) else None
        faces, tokens = as_tensor(faces_of(words, side)), np.stack([token_of(word) for word in words])
        hidden = None if secret is None else secret.to(device)
        return faces.to(device), torch.from_numpy(tokens).to(device), hidden

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Rows of a batch, as many with a disease as without."""
        n = self.config.batch
        ill = self.rows[self.corpus.labels[self.rows].any(1)]
        drawn = rng.choice(self.rows, n)
        return np.where(rng.random(n) < 0.5, rng.choice(ill, n), drawn) if len(ill) else drawn

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor:
        bare: Any = getattr(module, "module", module)
        net: MedSemNet = bare.net
        photos, _ = jittered(as_tensor(self.corpus.films[self.draw(rng)]), rng)
        photos = photos.to(device)
        n = len(photos)
        faces, tokens, secret = self.passwords(n, rng, device)
        weak = np.where(rng.random(n) < 0.5, rng.uniform(0.5, 1, n), 1.0)
        strength = torch.from_numpy(weak.astype(np.float32)).to(device)
        with torch.no_grad():
            seen, who = self.medical.features(photos), self._who(photos)
        made = net.encrypt(self.pack, photos, faces, tokens, strength)
        loss = (1.0 if self.literal else APART) * self._apart(who, made, rng)
        if self.use_medical_loss:
            loss = loss + MEDICAL * self._medical(seen, made, strength)
        if not self.literal:  # no further from the joined faces than the other losses ask
            loss = loss + NEAR * (made - blend(photos, faces, strength)).abs().mean()
        loss = loss + self._opposed(bare.critic, made, photos, step)
        # As it is stored: eight bits, and now and then what a JPEG adds.
        stored = made
        if secret is not None:
            with torch.no_grad():
                stored = net.veil(self.pack, made, photos, secret)
        spread = 0.29 if rng.random() < 0.75 else 2.0
        noise = torch.from_numpy(rng.standard_normal(tuple(made.shape), np.float32)).to(device)
        stored = (stored + spread / 255 * noise).clamp(0, 1)
        back = net.decrypt(self.pack, stored, faces, tokens, secret)
        weight = LITERAL_RECOVERED if self.literal else RECOVERED
        loss = loss + weight * (back - photos).abs().mean()
        half = slice(0, max(1, n // 2))
        others, keys, numbers = self.passwords(len(photos[half]), rng, device)
        wrong = net.decrypt(self.pack, stored[half], others, keys, numbers)
        if secret is not None:  # a wrong password gives what left
            return loss + RECOVERED * (wrong - made[half].detach()).abs().mean()
        return loss + 1 - self._alike(who, back).mean() + self._apart(who[half], wrong)

    def _who(self, photos: Tensor) -> Tensor:
        found: Tensor = self.identity(photos)
        return found

    @torch.no_grad()
    def _embedded(self, photos: Tensor) -> Tensor:
        return torch.cat([self._who(part) for part in torch.split(photos, 16)])

    def _alike(self, who: Tensor, made: Tensor) -> Tensor:
        return (who * self._who(made)).sum(1)

    def _apart(self, who: Tensor, made: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        """How much nearer than another person; with a stream the face is looked at from a little aside and through a
        little noise, so that a pattern which this one recogniser gets wrong is of no use."""
        if rng is not None and not self.literal:
            reach = max(1, made.shape[-1] // 40)
            dx, dy = (int(v) for v in rng.integers(-reach, reach + 1, 2))
            made = torch.roll(made, (dy, dx), (-2, -1))
            if rng.random() < 0.5:
                made = functional.avg_pool2d(functional.pad(made, (1, 1, 1, 1), mode="replicate"), 3, 1)
            made = made + 0.02 * torch.from_numpy(rng.standard_normal(tuple(made.shape), np.float32)).to(made.device)
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
        """At strength 1, from eight bits: identity before, after and recovered, diseases, recovery; and what the joined
        faces are that the networks begin with. Recognisers that took no part say how far apart faces are, too."""
        if not len(self.watched):
            return {}
        bare: Any = module
        rng = np.random.default_rng(0)
        films, made, back, wrong, begun = [], [], [], [], []
        for part in np.array_split(self.watched, -(-len(self.watched) // 16)):
            photos = as_tensor(self.corpus.films[part])
            faces, tokens, secret = self.passwords(len(photos), rng, torch.device("cpu"))
            out = bare.net.encrypt(self.pack, photos, faces, tokens, torch.ones(len(photos)))
            if secret is not None:
                out = bare.net.veil(self.pack, out, photos, secret)
            out = (out * 255).round() / 255
            others, keys, numbers = self.passwords(len(photos), rng, torch.device("cpu"))
            films.append(photos)
            begun.append(blend(photos, faces, torch.ones(len(photos))))
            made.append(out)
            back.append(bare.net.decrypt(self.pack, out, faces, tokens, secret))
            wrong.append(bare.net.decrypt(self.pack, out, others, keys, numbers))
        real, new, again, other, joined = (torch.cat(x) for x in (films, made, back, wrong, begun))
        who = self._embedded(real)
        truth = self.corpus.labels[self.watched]
        figures = {
            "ID distance": _distance(who, self._embedded(new)),
            "ID distance, joined": _distance(who, self._embedded(joined)),
            "ID distance recovered": _distance(who, self._embedded(again)),
            "ID distance, wrong password": _distance(who, self._embedded(other)),
            "ID distance of impostors": _distance(who, who.roll(len(who) // 2, 0)),
            "recovery PSNR": float(-10 * (again - real).square().mean((1, 2, 3)).clamp_min(1e-9).log10().mean()),
            "change": float((new - real).abs().mean()),
            "diseases real": mean_auc(truth, self.pack.classifier.probabilities(real).numpy()),
            "diseases": mean_auc(truth, self.pack.classifier.probabilities(new).numpy()),
            "diseases, joined": mean_auc(truth, self.pack.classifier.probabilities(joined).numpy()),
        }
        for name in recognisers.available():
            if name != self.recogniser:
                seen = [_embedded_by(name, photos) for photos in (real, new, joined, again)]
                named = ("", ", joined", " recovered")
                figures |= {
                    f"ID distance{how} ({name})": _distance(seen[0], one)
                    for how, one in zip(named, seen[1:], strict=True)
                }
                figures[f"ID distance of impostors ({name})"] = _distance(seen[0], seen[0].roll(len(real) // 2, 0))
        return {name: value for name, value in figures.items() if value == value}


def _embedded_by(name: str, photos: Tensor) -> Tensor:
    films = (photos * 255).round().byte().permute(0, 2, 3, 1).numpy()
    return torch.from_numpy(recognisers.embed(name, films, np.repeat(GOAL[None] * films.shape[1], len(films), 0)))


def _distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm(dim=1).mean())


def prepare(data: Any, run: Path, pack: Pack, say: Callable[[str], None]) -> FaceCorpus:
    """The corpus that `updp train method` learns from."""
    recipe = pack.info.get("recipe", {})
    return prepare_faces(
        data, run / "corpus", int(pack.info["size"]), looks=int(recipe.get("looks", 3)),
        seed=int(recipe.get("seed", 0)), limit=int(recipe.get("limit", 0)) or None,
        ill=int(recipe.get("ill", 0)) or None, say=say,
    )  # fmt: skip
