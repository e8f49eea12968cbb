"""`generator`: films from sentences, or from a film and sentences, by latent diffusion.

A U-Net on the autoencoder's latents (Rombach et al. 2022, arXiv 2112.10752), trained to predict v (Salimans & Ho 2022,
arXiv 2202.00512), sampled by `updp.models.samplers`. Prompts are cut into tokens by the vlm's tokenizer; their states
come from the U-Net's own text tower, or from the vlm's where it has none. Guidance leads away from the estimate without
a prompt (classifier-free guidance, Ho & Salimans 2022, arXiv 2207.12598). A U-Net with a `finisher` leaves diffusion
half way: the finisher, low-rank changes of the same weights trained against a critic, goes from there to clean latents
in one call. Few steps of diffusion end near the mean of what a film could be, which is blurred; the finisher draws one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.models.low_rank import empty_paths, merged
from updp.models.prior import Prior
from updp.models.samplers import Sampling, alpha, dpm_solver, sigma, time_grid
from updp.models.vlm import TextTower, sentence

if TYPE_CHECKING:
    from updp.models.autoencoder import Autoencoder
    from updp.models.lapped import LappedAutoencoder
    from updp.models.vlm import VisionLanguage

# (query, key, value, mask) to attended values; N × heads × tokens × width, mask True where a key is attended to.
Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]

_OTHER = 0x5EED  # what tells the stream of representations from that of latents


class Condition(NamedTuple):
    """The condition of the generator: token states N×L×W, which of them are real, N×L, and what the film shows in
    numbers, if that is settled: N×R, a row of zeros where it is left open."""

    states: Tensor
    mask: Tensor
    representation: Tensor | None = None

    def __len__(self) -> int:
        return len(self.states)

    def rows(self, index: slice | Tensor) -> Condition:
        shown = None if self.representation is None else self.representation[index]
        return Condition(self.states[index], self.mask[index], shown)


def join(first: Condition, second: Condition) -> Condition:
    """Both conditions as one batch, padded to one length."""
    length = max(first.states.shape[1], second.states.shape[1])

    def widen(c: Condition) -> Condition:
        extra = length - c.states.shape[1]
        return Condition(functional.pad(c.states, (0, 0, 0, extra)), functional.pad(c.mask, (0, extra)))

    a, b = widen(first), widen(second)
    given = [c.representation for c in (first, second) if c.representation is not None]
    shown = None
    if given:
        left_open = [c.states.new_zeros(len(c), given[0].shape[1]) for c in (first, second)]
        both = zip((first, second), left_open, strict=True)
        shown = torch.cat([nothing if c.representation is None else c.representation for c, nothing in both])
    return Condition(torch.cat([a.states, b.states]), torch.cat([a.mask, b.mask]), shown)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(channels // 8, channels)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Attention(nn.Module):
    """Multi-head attention over positions (self) or token states (cross); `attend` may be replaced by a method."""

    def __init__(self, channels: int, head: int = 32, context: int | None = None) -> None:
        super().__init__()
        self.heads = channels // head
        self.norm = _norm(channels)
        self.query = nn.Linear(channels, channels)
        self.key_value = nn.Linear(context or channels, 2 * channels)
        self.out = nn.Linear(channels, channels)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.attend: Attend = _attend

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        n, channels, height, width = x.shape
        tokens = self.norm(x).permute(0, 2, 3, 1).reshape(n, height * width, channels)
        source = tokens if context is None else context
        q = self.query(tokens).reshape(n, -1, self.heads, channels // self.heads).transpose(1, 2)
        kv = self.key_value(source).reshape(n, -1, 2, self.heads, channels // self.heads)
        k, v = kv.permute(2, 0, 3, 1, 4)
        attended = self.attend(q, k, v, None if mask is None else mask[:, None, None, :])
        y = self.out(attended.transpose(1, 2).reshape(n, height * width, channels))
        out: Tensor = x + y.reshape(n, height, width, channels).permute(0, 3, 1, 2)
        return out


class _Block(nn.Module):
    """Residual block whose second norm is scaled and shifted by the time and sentence embedding."""

    def __init__(self, inputs: int, outputs: int, embedding: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = _norm(inputs), _norm(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.modulate = nn.Linear(embedding, 2 * outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        nn.init.zeros_(self.conv2.weight)
        nn.init.zeros_(self.conv2.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        h = self.conv1(functional.silu(self.norm1(x)))
        scale, shift = self.modulate(embedding)[:, :, None, None].chunk(2, 1)
        h = self.conv2(functional.silu(self.norm2(h) * (1 + scale) + shift))
        y: Tensor = self.skip(x) + h
        return y


def _current_names(_: nn.Module, state: dict[str, Tensor], prefix: str, *rest: Any) -> None:
    """Weights written when self- and cross-attention were called `among` and `across` load under today's names."""
    for old, new in (("among", "self_attn"), ("across", "cross_attn")):
        for name in [name for name in state if name.startswith(f"{prefix}{old}.")]:
            state[f"{prefix}{new}.{name.removeprefix(f'{prefix}{old}.')}"] = state.pop(name)


class _Level(nn.Module):
    """A block and, at the smaller maps, self- and cross-attention after it."""

    def __init__(self, inputs: int, outputs: int, embedding: int, context: int | None) -> None:
        super().__init__()
        self.block = _Block(inputs, outputs, embedding)
        self.self_attn = Attention(outputs) if context is not None else None
        self.cross_attn = Attention(outputs, context=context) if context is not None else None
        self.register_load_state_dict_pre_hook(_current_names)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor, embedding: Tensor, condition: Condition | None) -> Tensor:
        x = self.block(x, embedding)
        if self.self_attn is not None:
            x = self.self_attn(x)
        if self.cross_attn is not None and condition is not None:
            x = self.cross_attn(x, condition.states, condition.mask)
        return x


def _flat(name: str) -> str:
    return name.replace(".", "/")


def _dotted(name: str) -> str:
    return name.replace("/", ".")


class UNet(nn.Module):
    """Predicts v of noisy latents N×C×16×16 at times in [0, 1].

    `vocabulary` gives it a text tower of its own, for prompts of up to `length` tokens. `sentence_layers` is the depth
    of the map from the pooled sentence to the embedding. `augmentation` numbers say how a training film was changed;
    zero is unchanged, and they are left out at sampling. `attributes` is the size of a head that names what a sentence
    says; only training uses it. `representation` is how many numbers say what a film shows; a prior draws them from the
    text. `finisher` is the rank of the low-rank changes that make this network the finisher, 0
    where there is none.
    """

    #: Parts that the finisher takes as they are.
    SHARED = ("text", "attributes", "augmentation", "prior")

    def __init__(
        self,
        channels: int = 32,
        widths: Sequence[int] = (128, 192, 256),
        blocks: int = 1,
        context: int = 256,
        embedding: int | None = None,
        vocabulary: int = 0,
        layers: int = 2,
        heads: int = 4,
        length: int = 48,
        sentence_layers: int = 1,
        augmentation: int = 0,
        attributes: int = 0,
        representation: int = 0,
        finisher: int = 0,
    ) -> None:
        super().__init__()
        embedding = embedding or 2 * widths[-1]
        self.config: dict[str, Any] = {
            "channels": channels, "widths": list(widths), "blocks": blocks, "context": context, "embedding": embedding,
            "vocabulary": vocabulary, "layers": layers, "heads": heads, "length": length,
            "sentence_layers": sentence_layers, "augmentation": augmentation, "attributes": attributes,
        }  # fmt: skip
        if representation:
            self.config["representation"] = representation
        self.frequencies = widths[0]
        self.text = TextTower(vocabulary, context, layers, heads, length) if vocabulary else None
        self.attributes = nn.Linear(context, attributes) if attributes else None
        self.augmentation = nn.Linear(augmentation, embedding, bias=False) if augmentation else None
        self.time = nn.Sequential(nn.Linear(widths[0], embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        first = nn.Linear(context, embedding)
        deeper = [m for _ in range(sentence_layers - 1) for m in (nn.SiLU(), nn.Linear(embedding, embedding))]
        self.sentence = nn.Sequential(first, *deeper) if deeper else first
        self.prior = Prior(representation, context) if representation else None
        # Without biases and with a number that says it is there, a row of zeros is nothing.
        self.shown: nn.Module | None = None
        if representation:
            deep = nn.Linear(embedding, embedding, bias=False)
            nn.init.zeros_(deep.weight)
            self.shown = nn.Sequential(nn.Linear(representation + 1, embedding, bias=False), nn.SiLU(), deep)
        self.first = nn.Conv2d(channels, widths[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        self.shrink, self.grow = nn.ModuleList(), nn.ModuleList()
        skips, width = [], widths[0]
        for i, w in enumerate(widths):
            attended = context if i > 0 else None
            for _ in range(blocks):
                self.down.append(_Level(width, w, embedding, attended))
                width = w
                skips.append(w)
            if i + 1 < len(widths):
                self.shrink.append(nn.Conv2d(w, w, 3, 2, 1))
        self.middle = _Level(width, width, embedding, context)
        for i, w in reversed(list(enumerate(widths))):
            attended = context if i > 0 else None
            for _ in range(blocks):
                self.up.append(_Level(width + skips.pop(), w, embedding, attended))
                width = w
            if i > 0:
                self.grow.append(nn.Conv2d(w, widths[i - 1], 1))
                width = widths[i - 1]
        self.blocks = blocks
        self.norm = _norm(width)
        self.last = nn.Conv2d(width, channels, 3, padding=1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]
        self.finisher: nn.ParameterDict | None = None
        if finisher:
            self.config["finisher"] = finisher
            changes = empty_paths(self, finisher, self.SHARED)
            # Names of parameters hold no dots.
            self.finisher = nn.ParameterDict({_flat(name): nn.Parameter(value) for name, value in changes.items()})

    def bare(self) -> dict[str, Any]:
        """The configuration of this U-Net without its finisher."""
        return {name: value for name, value in self.config.items() if name != "finisher"}

    def without_text(self) -> dict[str, Any]:
        """The configuration of this U-Net without its text tower and training aids."""
        bare = {name: value for name, value in self.bare().items() if name != "representation"}
        return {**bare, "vocabulary": 0, "augmentation": 0, "attributes": 0}

    def bare_state(self) -> dict[str, Tensor]:
        """The weights of a U-Net of the `bare` configuration."""
        return {k: v for k, v in self.state_dict().items() if not k.startswith("finisher.")}

    def finished(self) -> UNet | None:
        """The finisher as a network: the same with its changes added to the weights."""
        if self.finisher is None:
            return None
        plain = UNet(**self.bare()).to(self.first.weight)
        plain.load_state_dict(self.bare_state())
        plain.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return merged(plain, self.changes()).eval().requires_grad_(False)

    def changes(self) -> dict[str, Tensor]:
        """The low-rank changes that make this network the finisher, by layer; empty where there is none."""
        return {_dotted(name): value.detach() for name, value in (self.finisher or {}).items()}

    def with_finisher(self, changes: Mapping[str, Tensor], rank: int) -> UNet:
        """This U-Net with the changes, told by `updp.models.low_rank.paths`, that make it the finisher."""
        out = UNet(**{**self.config, "finisher": rank})
        kept = {k: v for k, v in self.state_dict().items() if not k.startswith("finisher.")}
        out.load_state_dict(kept | {f"finisher.{_flat(name)}": value for name, value in changes.items()})
        return out

    def condition(self, ids: Tensor, mask: Tensor) -> Condition:
        """The states of token ids N×L by the text tower of its own."""
        if self.text is None:
            raise RuntimeError("this U-Net has no text tower of its own")
        return Condition(self.text(self.text.tokens(ids), mask), mask)

    def load_prior(self, prior: nn.Module) -> None:
        """Take the weights of a prior that was trained apart."""
        if self.prior is None:
            raise RuntimeError("this U-Net takes no representation")
        self.prior.load_state_dict(prior.state_dict())

    def represented(self, condition: Condition, noise: Tensor, guidance: float = 1.0) -> Condition:
        """The condition with what its films show, drawn by the prior from noise N×R."""
        if self.prior is None:
            return condition
        return settled(condition, self.prior.sample(noise, sentence(condition.states, condition.mask), guidance))

    def forward(
        self,
        latents: Tensor,
        times: Tensor,
        condition: Condition | None = None,
        augmentation: Tensor | None = None,
    ) -> Tensor:
        half = self.frequencies // 2
        waves = torch.exp(-math.log(10_000) * torch.arange(half, device=latents.device) / half)
        angles = 1000 * times.to(latents.device)[:, None] * waves
        embedding = self.time(torch.cat([angles.sin(), angles.cos()], 1).to(latents.dtype))
        if condition is not None:
            embedding = embedding + self.sentence(sentence(condition.states, condition.mask))
            if condition.representation is not None and self.shown is not None:
                embedding = embedding + self.shown(condition.representation)
        if augmentation is not None and self.augmentation is not None:
            embedding = embedding + self.augmentation(augmentation)
        embedding = functional.silu(embedding)
        x = self.first(latents.contiguous(memory_format=torch.channels_last))
        skips = []
        levels = len(self.shrink) + 1
        for i in range(levels):
            for level in self.down[i * self.blocks : (i + 1) * self.blocks]:
                x = level(x, embedding, condition)
                skips.append(x)
            if i + 1 < levels:
                x = self.shrink[i](x)
        x = self.middle(x, embedding, condition)
        for i in range(levels):
            for level in self.up[i * self.blocks : (i + 1) * self.blocks]:
                x = level(torch.cat([x, skips.pop()], 1), embedding, condition)
            if i + 1 < levels:
                x = functional.interpolate(self.grow[i](x), scale_factor=2.0, mode="nearest")
        v: Tensor = self.last(functional.silu(self.norm(x)))
        return v


def settled(condition: Condition, representation: Tensor) -> Condition:
    """The condition with what its films show."""
    here = representation.new_ones(len(representation), 1)
    return Condition(condition.states, condition.mask, torch.cat([representation, here], 1))


def _factor(values: Tensor, latents: Tensor) -> Tensor:
    """One number per film, ready to multiply its latents. Times stay on the CPU until they meet latents."""
    return values.to(latents)[:, None, None, None]


class Generator:
    """Text→film and film+text→film, bound to the autoencoder and vlm of its pack."""

    def __init__(
        self,
        unet: UNet,
        autoencoder: Autoencoder | LappedAutoencoder,
        vlm: VisionLanguage,
        size: int = 256,
        sampling: Sampling | None = None,
    ) -> None:
        self.unet, self.autoencoder, self.vlm, self.size = unet, autoencoder, vlm, size
        self.sampling = sampling or Sampling()
        side = size // autoencoder.patch
        self.latent_shape = (autoencoder.channels, side, side)

    @cached_property
    def finisher(self) -> UNet | None:
        """The network that goes from half-way latents to clean ones in one call, if the pack has one."""
        return self.unet.finished()

    @torch.no_grad()
    def condition(self, prompts: Sequence[str]) -> Condition:
        """The token states of prompts; "" is the unconditional one."""
        if self.unet.text is None:
            return Condition(*self.vlm.text_states(prompts))
        ids, mask = self.vlm.tokenize(prompts, self.unet.text.context)
        device = self.unet.first.weight.device
        return self.unet.condition(ids.to(device), mask.to(device))

    def noise(self, latents: Tensor, t: Tensor, condition: Condition) -> Tensor:
        """Predicted noise in latents at times t in [0, 1] (0 a film, 1 noise); differentiable."""
        v: Tensor = self.unet(latents, t, condition)
        return _factor(sigma(t), latents) * latents + _factor(alpha(t), latents) * v

    def add_noise(self, latents: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Latents as they stand at time t of the forward process."""
        return _factor(alpha(t), latents) * latents + _factor(sigma(t), latents) * noise

    def seeded_noise(self, seeds: Sequence[int], shape: Sequence[int] | None = None) -> Tensor:
        """One draw per seed, of latents unless another shape is given; independent of the batch it is in."""
        size = tuple(self.latent_shape if shape is None else shape)
        return torch.stack([torch.randn(size, generator=torch.Generator().manual_seed(int(s))) for s in seeds])

    def represented(self, condition: Condition, seeds: Sequence[int]) -> Condition:
        """The condition with what its films show, if the U-Net has a prior: one draw per seed."""
        if self.unet.prior is None:
            return condition
        # Another stream than that of the latents, or both would begin alike.
        noise = self.seeded_noise([(int(s) ^ _OTHER) % 2**62 for s in seeds], (self.unet.prior.size,))
        return self.unet.represented(condition, noise.to(condition.states), self.sampling.prior)

    @property
    def has_prior(self) -> bool:
        return self.unet.prior is not None

    @torch.no_grad()
    def settled_by(self, condition: Condition, films: Tensor) -> Condition:
        """The condition with what these films show: for attackers and measurements, which hold real films. No film is
        generated from it."""
        if self.unet.prior is None:
            return condition
        features = self.vlm.image(films.to(condition.states))
        return settled(condition, self.unet.prior.of_features(features))

    @torch.no_grad()
    def prior_errors(self, condition: Condition, t: Tensor, noise: Tensor) -> Tensor:
        """Mean squared error of the prior for each settled condition, at times t and with noise N×R."""
        assert self.unet.prior is not None
        assert condition.representation is not None
        clean = condition.representation[:, :-1]
        a, s = alpha(t).to(clean)[:, None], sigma(t).to(clean)[:, None]
        v = self.unet.prior(a * clean + s * noise, t, sentence(condition.states, condition.mask))
        errors: Tensor = (v - (a * noise - s * clean)).square().mean(1)
        return errors

    def guided(self, latents: Tensor, t: Tensor, cond: Condition, guidance: float) -> Tensor:
        """v of the prompt, led away from that without a prompt."""
        empty = self.condition([""])
        uncond = Condition(empty.states.expand(len(latents), -1, -1), empty.mask.expand(len(latents), -1))
        both = self.unet(torch.cat([latents, latents]), torch.cat([t, t]), join(cond, uncond))
        v, weaker = both.chunk(2)
        led: Tensor = weaker + guidance * (v - weaker)
        return led

    def sample(
        self,
        latents: Tensor,
        condition: Condition,
        steps: int,
        guidance: float,
        start: float = 1.0,
        predict: Callable[[Tensor, Tensor, Condition], Tensor] | None = None,
    ) -> Tensor:
        """Denoise latents from time `start` to clean ones; `predict` may replace the guided estimate of diffusion."""
        clean = predict or self._estimate(guidance)
        if self.finisher is not None and (last := [t for t in self.sampling.finish if t <= start]):
            # `steps` would lead from `start` to 0; all that a film gets from noise lead to the first of these times.
            count = max(1, round(steps / start * (start - last[0]) / (1 - last[0]))) if start > last[0] else 0
            half = self.half_way(latents, condition, count, guidance, start, last[0], predict)
            return self.finish(half, condition, last)
        times = time_grid(steps, start, self.sampling.grid)
        return dpm_solver(latents, times, lambda x, t: clean(x, t, condition))

    def half_way(
        self,
        latents: Tensor,
        condition: Condition,
        steps: int,
        guidance: float,
        start: float,
        end: float,
        predict: Callable[[Tensor, Tensor, Condition], Tensor] | None = None,
    ) -> Tensor:
        """Latents at time `end`, by `steps` of diffusion from `start`."""
        clean = predict or self._estimate(guidance)
        times = end + (start - end) * time_grid(steps, 1.0, self.sampling.grid) if steps else torch.tensor([end])
        return dpm_solver(latents, times, lambda x, t: clean(x, t, condition), to_end=False)

    def _estimate(self, guidance: float) -> Callable[[Tensor, Tensor, Condition], Tensor]:
        """The clean latents that noisy ones at a time show, with guidance."""
        low, high = self.sampling.guided

        def estimate(x: Tensor, t: Tensor, cond: Condition) -> Tensor:
            guided = guidance != 1 and low <= float(t[0]) <= high
            v = self.guided(x, t, cond, guidance) if guided else self.unet(x, t, cond)
            return _factor(alpha(t), x) * x - _factor(sigma(t), x) * v

        return estimate

    def finish(self, latents: Tensor, condition: Condition, times: Sequence[float]) -> Tensor:
        """Clean latents by the finisher, from latents at the first of the times; each further time is a second look."""
        assert self.finisher is not None
        clean = latents
        for i, time in enumerate(times):
            t = torch.full((len(latents),), time)
            a, s = _factor(alpha(t), latents), _factor(sigma(t), latents)
            v = self.finisher(latents, t, condition)
            clean = a * latents - s * v
            if i + 1 < len(times):
                latents = self.add_noise(clean, s * latents + a * v, torch.full((len(latents),), times[i + 1]))
        return clean

    @torch.no_grad()
    def generate(
        self,
        prompts: Sequence[str],
        seeds: Sequence[int],
        steps: int | None = None,
        guidance: float | None = None,
        init_images: Tensor | None = None,
        strength: float | None = None,
        batch: int = 16,  # with guidance 32 latents: what a core's cache still holds, and a larger batch is slower
    ) -> Tensor:
        """Films N×1×256×256 in [0, 1], one per prompt and seed.

        With `init_images`, `strength` in (0, 1] says how far back towards noise each goes first: near 0 keeps the film,
        1 ignores it. `steps` and `guidance` are those of the pack where they are not given.
        """
        steps = self.sampling.steps if steps is None else steps
        guidance = self.sampling.guidance if guidance is None else guidance
        if len(prompts) != len(seeds):
            raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds: give one seed per film")
        if (init_images is None) != (strength is None):
            raise ValueError("init_images and strength belong together: give both or neither")
        if strength is not None and not 0 < strength <= 1:
            raise ValueError(f"strength {strength} is outside (0, 1]")
        out = []
        for i in range(0, len(prompts), batch):
            part = slice(i, i + batch)
            latents = self.seeded_noise(seeds[part]).to(self.unet.first.weight)
            start = 1.0
            if init_images is not None and strength is not None:
                start = strength
                clean = self.autoencoder.encode(init_images[part].to(latents))
                latents = self.add_noise(clean, latents, torch.full((len(clean),), start))
            count = max(1, round(steps * start))
            condition = self.represented(self.condition(prompts[part]), seeds[part])
            latents = self.sample(latents, condition, count, guidance, start)
            out.append(self.autoencoder.decode(latents))
        return torch.cat(out) if out else torch.zeros(0, 1, self.size, self.size)
