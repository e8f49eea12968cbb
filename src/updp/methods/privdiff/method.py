"""PrivDiff-Net (Akhter et al., PMLR 317, 2026): diffusion conditioned on the diagnosis, guided away from the patient.

The film's latent is noised part of the way (``strength``) and denoised again by DDIM. In cross-attention the network
can be conditioned on identity, age group and sex of the patient, and on the findings. Two things protect identity:
Selective Attribute Suppression (`updp.methods.privdiff.sas`) and Selective Privacy Guidance,

    e_p = e(none) + w_d [e(diagnosis) - e(none)] - |w_s| [e(s) - e(none)].

The paper trains on the error of e_p itself; a predictor that is given s and trained on the true noise learns to use s,
whatever its sign in the formula. ``guidance`` (default) trains every branch as a denoiser of its own and combines them
only here, the size of e_p held to that of e(diagnosis). Weights trained on the printed loss (``spg = "literal"`` of the
recipe) run with the same formula.

Identity is the continuous embedding of the pack's identity role, so patients outside the training set have one too.
What the noise leaves of the film passes unchanged: at low strength the patient is recognisable. Guidance away from a
patient also depends on the patient: with nothing of them left in the film it adds their negative, and a negative links
too. ``sensitive = "constant"`` (default) is the method as printed, guided at every strength; ``"faded"`` lets |w_s|
fade with what the noise leaves of the film. At strength 1 the network is then conditioned on the findings alone, and
the film is a function of findings and random stream: no longer PrivDiff-Net but findings-conditioned diffusion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.learned import Trained
from updp.methods.options import contradiction
from updp.methods.privdiff.sas import Groups, Suppression, plain_attention
from updp.methods.strength import resolve_strength
from updp.models.generator import Attention, Condition, UNet
from updp.models.samplers import alpha, ddim, sigma, time_grid

if TYPE_CHECKING:
    import numpy as np
from updp.methods.privdiff.spg import branches, guided

#: Upper ends of the age groups.
AGES = (40, 60, 75)
#: Films denoised together; their four branches are one pass of as many latents as a core's cache holds.
_AT_ONCE = 8


class Attributes(NamedTuple):
    """What is known of each film's patient. The last class of each is "not known"."""

    identity: Tensor  # N×space, unit vectors
    age: Tensor  # N, 0 … len(AGES) + 1
    sex: Tensor  # N, 0 F, 1 M, 2
    findings: Tensor  # N×findings, bool
    known: Tensor  # N, bool: whether the findings are known

    def repeat(self, times: int) -> Attributes:
        return Attributes(*(torch.cat([part] * times) for part in self))

    def rows(self, index: slice) -> Attributes:
        return Attributes(*(part[index] for part in self))

    def findings_only(self) -> Attributes:
        """The same findings without identity, age and sex."""
        age, sex = torch.full_like(self.age, len(AGES) + 1), torch.full_like(self.sex, 2)
        return Attributes(torch.zeros_like(self.identity), age, sex, self.findings, self.known)


class Denoiser(nn.Module):
    """Predicts v of noisy latents, conditioned on any of the attributes."""

    def __init__(self, unet: dict[str, Any], identity: int, labels: Sequence[str], bank: int = 4) -> None:
        super().__init__()
        self.config = {"unet": unet, "identity": identity, "labels": list(labels), "bank": bank}
        self.labels = tuple(labels)
        self.unet = UNet(**unet)
        width = int(unet["context"])
        self.bank, self.width = bank, width
        self.null = nn.Parameter(torch.zeros(1, 1, width))
        # Each attribute is a few tokens: with one, attention has nothing to choose and suppression nothing to remove.
        self.identity = nn.Linear(identity, bank * width)
        nn.init.normal_(self.identity.weight)
        self.age = nn.Embedding(len(AGES) + 2, bank * width)
        self.sex = nn.Embedding(3, bank * width)
        self.finding = nn.Parameter(torch.randn(len(self.labels) + 2, bank, width))  # …, none found, not known

    @property
    def groups(self) -> Groups:
        b = self.bank
        spans = tuple(slice(1 + i * b, 1 + (i + 1) * b) for i in range(3))
        return Groups(slice(1 + 3 * b, 1 + 3 * b + self.finding.shape[0] * b), spans)

    def suppress(self, suppression: Suppression | None) -> None:
        """Switch suppression on or off in every cross-attention."""
        for level in self.unet.modules():
            cross_attn = getattr(level, "cross_attn", None)
            if isinstance(cross_attn, Attention):
                cross_attn.attend = suppression or plain_attention

    def condition(self, who: Attributes, shown: Tensor) -> Condition:
        """All tokens of every film and their mask; ``shown`` is N×4 in the order of ``ATTRIBUTES``."""
        n, b, w = len(shown), self.bank, self.width
        states = torch.cat(
            [
                self.null.expand(n, -1, -1),
                self.identity(who.identity).reshape(n, b, w),
                self.age(who.age).reshape(n, b, w),
                self.sex(who.sex).reshape(n, b, w),
                self.finding.reshape(1, -1, w).expand(n, -1, -1),
            ],
            1,
        )
        none = who.known & ~who.findings.any(1)
        stated = torch.cat([who.findings, none[:, None], ~who.known[:, None]], 1) & shown[:, 3:]
        personal = shown[:, :3].repeat_interleave(b, 1)
        mask = torch.cat([~shown.any(1, keepdim=True), personal, stated.repeat_interleave(b, 1)], 1)
        return Condition(states, mask)

    def forward(self, latents: Tensor, t: Tensor, who: Attributes, shown: Tensor) -> Tensor:
        v: Tensor = self.unet(latents, t, self.condition(who, shown))
        return v


class PrivDiffNet(Trained):
    """``sas`` and ``spg`` switch the two parts: both off is the paper's vanilla, and so on through its ablation."""

    info: ClassVar[MethodInfo] = method_info("privdiff")
    #: Guidance outside the middle times costs time and improves nothing.
    middle = (0.1, 0.95)

    class Options(Trained.Options):
        sas: Literal["off", "literal", "feature", "channels"] = Field(
            "feature",
            description="Selective Attribute Suppression: off, as printed, or one of the two corrected forms.",
        )
        spg: bool = Field(True, description="Selective Privacy Guidance.")
        w_diagnosis: float = Field(5.0, description="Guidance weight of the diagnosis.")
        w_sensitive: float = Field(0.5, description="Guidance weight of identity, age and sex, taken negative.")
        sensitive: Literal["constant", "faded"] = Field(
            "constant", description="Whether that weight is the same at every strength, or fades to none at strength 1."
        )
        steps: int = Field(12, ge=1, description="Steps of the sampler.")
        ridge: float = Field(1e-2, gt=0, description="sas 'literal': ridge of the projection.")
        rank: int = Field(4, ge=1, description="sas 'feature' and 'channels': directions removed.")

        @model_validator(mode="after")
        def _check(self) -> Self:
            unused = {
                "w_diagnosis": ("spg", not self.spg),
                "w_sensitive": ("spg", not self.spg),
                "sensitive": ("spg", not self.spg),
                "ridge": ("sas", self.sas != "literal"),
                "rank": ("sas", self.sas in ("off", "literal")),
            }
            for name, (other, clash) in unused.items():
                if clash and name in self.model_fields_set:
                    why = f"{other} = {str(getattr(self, other)).lower()} does not use {name}"
                    raise ValueError(contradiction(other, name, why))
            return self

    options: Options

    @classmethod
    def of(cls, network: Denoiser, **options: Any) -> PrivDiffNet:
        """The method around a network that is in no pack yet; it can ``denoise`` latents."""
        made = cls.__new__(cls)
        made.options = cls.Options.read(options)
        made.__dict__["network"] = network
        return made

    def build(self, config: dict[str, Any]) -> Denoiser:
        return Denoiser(**config)

    def reads_pixels(self, strength: float | None) -> bool:
        """False at strength 1 without guidance away from the patient: the latent starts as pure noise and the network
        is given the findings alone."""
        return resolve_strength(self.info, strength) < 1 or self._guided_at_full_strength

    @property
    def _guided_at_full_strength(self) -> bool:
        return self.options.spg and self.options.sensitive == "constant" and self.options.w_sensitive != 0

    def make(self, studies: list[Study], films: Tensor, strength: float, rngs: list[np.random.Generator]) -> Tensor:
        coder = self.pack.autoencoder
        clean = coder.encode(films)
        if strength == 0:
            return coder.decode(clean)
        seeds = [int(rng.integers(2**62)) for rng in rngs]
        noise = torch.stack(
            [torch.randn(clean.shape[1:], generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        )
        who = attributes(studies, self.pack.identity.embed(films), self.network.labels)
        if strength == 1:  # the schedule stops just short of pure noise; a promise must not
            shown = who if self._guided_at_full_strength else who.findings_only()
            return coder.decode(self.denoise(noise, shown, 1.0))
        start = torch.tensor(strength)
        latents = alpha(start) * clean + sigma(start) * noise
        return coder.decode(self.denoise(latents, who, strength))

    def denoise(self, latents: Tensor, who: Attributes, start: float) -> Tensor:
        """From time ``start`` to a clean latent, by DDIM."""
        parts = [slice(i, i + _AT_ONCE) for i in range(0, len(latents), _AT_ONCE)]
        return torch.cat([self._denoise(latents[part], who.rows(part), start) for part in parts])

    def _denoise(self, latents: Tensor, who: Attributes, start: float) -> Tensor:
        network: Denoiser = self.network
        form = None if self.options.sas == "off" else self.options.sas
        network.suppress(
            None if form is None else Suppression(network.groups, form, self.options.ridge, self.options.rank)
        )
        times = time_grid(max(1, round(self.options.steps * start)), start)
        w_sensitive = self.options.w_sensitive
        if self.options.sensitive == "faded":  # at strength 1 nothing of the patient is left to guide away from
            w_sensitive = 0.0 if start == 1 else w_sensitive * float(alpha(times[0]))
        return ddim(latents, times, lambda x, t: self._noise(network, x, t, who, w_sensitive))

    def _noise(self, network: Denoiser, latents: Tensor, t: Tensor, who: Attributes, w_sensitive: float) -> Tensor:
        n = len(latents)
        is_guided = self.options.spg and self.middle[0] <= float(t) <= self.middle[1]
        sensitive = ["identity", "demographics"] if w_sensitive else []
        names = ["none", "diagnosis", *sensitive] if is_guided else ["diagnosis"]
        many = latents.repeat(len(names), 1, 1, 1)
        v = network(many, t.expand(len(many)), who.repeat(len(names)), branches(n, names))
        noise: Tensor = sigma(t) * many + alpha(t) * v
        if not is_guided:
            return noise
        return guided(torch.split(noise, n), self.options.w_diagnosis, [w_sensitive] * len(sensitive))

    def decided(self, strength: float) -> dict[str, Any]:
        said: dict[str, Any] = {"sas": self.options.sas, "spg": self.options.spg, "steps": self.options.steps}
        return said | ({"sensitive": "faded"} if self.options.spg and self.options.sensitive == "faded" else {})


def attributes(studies: Sequence[Study], identity: Tensor, labels: Sequence[str]) -> Attributes:
    """What studies say of their patients; what they do not say is "not known", never guessed.

    A finding the network has no word for is left out; if a study has no other, its findings are not known, since
    "none found" would be wrong.
    """
    ages = torch.tensor([age_group(study.age) for study in studies])
    sexes = torch.tensor([{"F": 0, "M": 1}.get(study.sex or "", 2) for study in studies])
    found = torch.zeros(len(studies), len(labels), dtype=torch.bool)
    known = torch.ones(len(studies), dtype=torch.bool)
    for i, study in enumerate(studies):
        words = [name for name in study.labels or () if name in labels]
        known[i] = study.labels is not None and bool(words or not study.labels)
        for name in words:
            found[i, list(labels).index(name)] = True
    return Attributes(identity, ages, sexes, found, known)


def age_group(age: int | None) -> int:
    return len(AGES) + 1 if age is None or age < 0 else sum(age >= end for end in AGES)
