"""A diffusion model of a clinic's patients in the space of faces, with the features of a public face injected.

It denoises the components of a face and of the detail around its eyes (``models.face_space``), given disease and grade.
A public face enters as in IP-Adapter (Ye et al. 2023): tokens of its components have keys and values of their own, and
what is found there is added with a weight to what the disease says (decoupled cross-attention).
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.models.faces import angles
from updp.models.layers import zeroed

TOKENS = 4  # of a public face


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.self_attn = nn.Linear(width, 3 * width)
        self.cross_attn_context = nn.Linear(width, 2 * width)
        self.cross_attn_face = nn.Linear(width, 2 * width)
        self.cross_attn_query = nn.Linear(width, width)
        self.self_attn_out = zeroed(nn.Linear(width, width))
        self.cross_attn_out = zeroed(nn.Linear(width, width))
        self.wide, self.narrow = nn.Linear(width, 4 * width), zeroed(nn.Linear(4 * width, width))

    def _parts(self, x: Tensor, count: int) -> tuple[Tensor, ...]:
        n, length, _ = x.shape
        return tuple(x.reshape(n, length, count, self.heads, -1).permute(2, 0, 3, 1, 4))

    def forward(self, x: Tensor, context: Tensor, face: Tensor, weight: Tensor) -> Tensor:
        n, length, width = x.shape

        def joined(found: Tensor) -> Tensor:
            return found.transpose(1, 2).reshape(n, length, width)

        query, key, value = self._parts(self.self_attn(self.norms[0](x)), 3)
        x = x + self.self_attn_out(joined(functional.scaled_dot_product_attention(query, key, value)))
        (query,) = self._parts(self.cross_attn_query(self.norms[1](x)), 1)
        key, value = self._parts(self.cross_attn_context(context), 2)
        from_context = joined(functional.scaled_dot_product_attention(query, key, value))
        key, value = self._parts(self.cross_attn_face(face), 2)
        from_face = joined(functional.scaled_dot_product_attention(query, key, value))
        x = x + self.cross_attn_out(from_context + weight[:, None, None] * from_face)
        out: Tensor = x + self.narrow(functional.gelu(self.wide(self.norms[2](x))))
        return out


class PatientDenoiser(nn.Module):
    """Components N×C of patients mixed with noise, to the components without it."""

    def __init__(
        self, components: int, face: int, labels: int, grades: int = 3, width: int = 128, layers: int = 4,
        heads: int = 4, token: int = 32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.config = {
            "components": components, "face": face, "labels": labels, "grades": grades, "width": width,
            "layers": layers, "heads": heads, "token": token,
        }  # fmt: skip
        self.components, self.token, self.width, self.labels, self.grades = components, token, width, labels, grades
        count = -(-components // token)
        self.enter, self.place = nn.Linear(token, width), nn.Parameter(0.02 * torch.randn(1, count, width))
        self.disease, self.grade = nn.Linear(labels, width), nn.Linear(grades, width)
        self.time = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.public = nn.Linear(face, TOKENS * width)
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, token)

    def forward(
        self, noisy: Tensor, times: Tensor, disease: Tensor, grade: Tensor, face: Tensor | None, weight: Tensor
    ) -> Tensor:
        n = len(noisy)
        padded = functional.pad(noisy, (0, self.place.shape[1] * self.token - self.components))
        x = self.enter(padded.reshape(n, -1, self.token)) + self.place + self.time(angles(times, 64))[:, None]
        context = torch.stack([self.disease(disease), self.grade(grade)], 1)
        shown = noisy.new_zeros(n, self.public.in_features) if face is None else face
        tokens = self.public(shown).reshape(n, TOKENS, self.width)
        weight = torch.zeros_like(weight) if face is None else weight
        for layer in self.layers:
            x = layer(x, context, tokens, weight)
        out: Tensor = self.out(self.norm(x)).flatten(1)[:, : self.components]
        return out

    @torch.no_grad()
    def sample(
        self, disease: Tensor, grade: Tensor, noise: Tensor, face: Tensor | None, weight: Tensor, steps: int = 25
    ) -> Tensor:
        """Components of patients who do not exist (DDIM, Song et al. 2021)."""
        x = noise
        times = torch.linspace(0.99, 0.0, steps + 1)
        for now, then in pairwise(times):
            clean = self(x, now.expand(len(x)), disease, grade, face, weight)
            kept, added = mixture(now)
            rest = (x - kept * clean) / added
            kept, added = mixture(then)
            x = kept * clean + added * rest
        return x


def mixture(time: Tensor) -> tuple[Tensor, Tensor]:
    """Shares of face and noise at a time."""
    return torch.cos(time * math.pi / 2), torch.sin(time * math.pi / 2)
