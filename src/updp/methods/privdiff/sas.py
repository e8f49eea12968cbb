"""Selective Attribute Suppression of PrivDiff-Net: what sensitive tokens attend to is projected out of the diagnosis.

In a cross-attention with N places and tokens for identity, age, sex and diagnosis, A_c is the softmax map N×L_c of each
group and F the maps of the sensitive groups side by side.

``literal``: A' = P A with P = I - F (F'F + e I)^-1 F', as printed. Every map's rows sum to one, so the constant lies in
the span of F and the rows of A' sum to zero; and with as many sensitive tokens as places, P is zero. The ridge e
decides between erasing everything and doing nothing.

``feature`` repairs both: maps are centred over places before their span is taken, the span is cut to a few directions,
and the mean of A, which says nothing of places, is put back: rows of A' sum to one. ``channels`` takes directions of
the attended values instead of the maps: what the sensitive tokens would have written is not written by the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

Form = Literal["literal", "feature", "channels"]


@dataclass(frozen=True)
class Groups:
    """Which tokens of the condition say what."""

    diagnosis: slice
    sensitive: tuple[slice, ...]


# -- algebra ---------------------------------------------------------------------------------------------------------


def projection(maps: Tensor, ridge: float) -> Tensor:
    """P = I - F (F'F + ridge I)^-1 F' of maps F, …×N×L, through whichever of N and L is smaller. P is N×N."""
    f = maps.double()  # single precision loses the small eigenvalues that decide
    n, length = f.shape[-2:]
    one = torch.eye(n, dtype=f.dtype, device=f.device)
    if length < n:
        gram = f.mT @ f + ridge * torch.eye(length, dtype=f.dtype, device=f.device)
        p: Tensor = one - f @ torch.linalg.solve(gram, f.mT)
    else:
        p = ridge * torch.linalg.solve(f @ f.mT + ridge * one, one.expand(*f.shape[:-2], n, n))
    return p


def directions(centred: Tensor, rank: int, least: float = 1e-6) -> Tensor:
    """The strongest ``rank`` orthonormal directions in the column space of …×N×L, as …×N×rank.

    Directions with less than ``least`` of the strongest's energy are noise and come back as zero columns.
    """
    x = centred.detach().double()  # taken as given: gradients through an eigenbasis blow up where two values meet
    values, vectors = torch.linalg.eigh(x.mT @ x)
    rank = min(rank, x.shape[-1])
    values, vectors = values[..., -rank:], vectors[..., -rank:]
    real = values > least * values[..., -1:].clamp_min(1e-30)
    scale = torch.where(real, values.clamp_min(1e-30).rsqrt(), torch.zeros_like(values))
    basis: Tensor = (x @ vectors) * scale[..., None, :]
    return basis


def clean_maps(diagnosis: Tensor, sensitive: Tensor, rank: int) -> Tensor:
    """``feature``: diagnosis maps …×N×D less the strongest directions of the sensitive ones …×N×L; row sums stay."""
    mean = diagnosis.mean(-2, keepdim=True)
    basis = directions(sensitive - sensitive.mean(-2, keepdim=True), rank).to(diagnosis)
    centred = diagnosis - mean
    return centred - basis @ (basis.mT @ centred) + mean


def clean_channels(diagnosis: Tensor, sensitive: Tensor, rank: int) -> Tensor:
    """``channels``: attended values …×N×V less the strongest directions over V of the sensitive ones, …×(cN)×V."""
    mean = diagnosis.mean(-2, keepdim=True)
    basis = directions((sensitive - sensitive.mean(-2, keepdim=True)).mT, rank).to(diagnosis)
    centred = diagnosis - mean
    return centred - (centred @ basis) @ basis.mT + mean


# -- attention -------------------------------------------------------------------------------------------------------


def plain_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention without suppression."""
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@dataclass
class Suppression:
    """An attention function for `updp.models.generator.Attention.attend` and, through `DiffusersProcessor`, diffusers.

    Rows with diagnosis tokens in their mask get the cleaned diagnosis alone; other rows attend as usual.
    """

    groups: Groups
    form: Form = "feature"
    ridge: float = 1e-2
    rank: int = 4
    kept: list[float] = field(default_factory=list)  # share of the centred energy left, one per call while `watch`
    watch: bool = False

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        plain = plain_attention(q, k, v, mask)
        visible = self._mask_of(q, k, mask)
        rows = visible.any(1)
        if not bool(rows.any()):
            return plain
        cleaned = self._clean(q[rows], k[rows], v[rows], visible[rows])
        if bool(rows.all()):
            return cleaned
        return plain.index_put((rows.nonzero()[:, 0],), cleaned)

    def _mask_of(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        """Which diagnosis tokens are in the mask of each row, N×D."""
        last = max(part.stop for part in (self.groups.diagnosis, *self.groups.sensitive))
        if k.shape[2] < last:
            raise ValueError(f"suppression expects {last} tokens in the condition, not {k.shape[2]}")
        if mask is None:
            return torch.ones(len(q), len(range(k.shape[2])[self.groups.diagnosis]), dtype=torch.bool, device=q.device)
        if mask.dtype != torch.bool:  # added to the logits: masked tokens are very negative
            mask = mask > -1.0
        return mask[:, 0, 0, self.groups.diagnosis]

    def _clean(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        logits = q @ k.mT * q.shape[-1] ** -0.5
        own = logits[..., self.groups.diagnosis].masked_fill(~visible[:, None, None, :], float("-inf")).softmax(-1)
        others = [logits[..., part].softmax(-1) for part in self.groups.sensitive]
        values = v[..., self.groups.diagnosis, :]
        if self.form == "channels":
            written = [m @ v[..., part, :] for m, part in zip(others, self.groups.sensitive, strict=True)]
            out = clean_channels(own @ values, torch.cat(written, -2), self.rank)
            self._note(own @ values, out)
            return out
        maps = torch.cat(others, -1)
        if self.form == "feature":
            cleaned = clean_maps(own, maps, self.rank)
            self._note(own, cleaned)
            return cleaned @ values
        cleaned = projection(maps.detach(), self.ridge).to(own) @ own
        self._note(own, cleaned)
        # "Further normalised": to the size the unsuppressed output would have had, which later layers expect.
        size = (own @ values).square().mean((-2, -1), keepdim=True).sqrt()
        out = cleaned @ values
        normed: Tensor = out * size / out.square().mean((-2, -1), keepdim=True).sqrt().clamp_min(1e-6)
        return normed

    def _note(self, before: Tensor, after: Tensor) -> None:
        if self.watch:
            energy = (before - before.mean(-2, keepdim=True)).square().sum()
            left = (after - after.mean(-2, keepdim=True)).square().sum()
            self.kept.append(float(left / energy.clamp_min(1e-12)))


class DiffusersProcessor:
    """The same suppression in a cross-attention of diffusers; `unet.set_attn_processor(suppressed(unet, …))` sets it.

    Written against the processor protocol of diffusers, so that nothing of it has to be imported here.
    """

    def __init__(self, suppression: Suppression) -> None:
        self.suppression = suppression

    def __call__(
        self, attn: Any, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None, temb: Tensor | None = None, **_: Any,
    ) -> Tensor:  # fmt: skip
        residual, shape = hidden_states, hidden_states.shape
        if attn.spatial_norm is not None:
            hidden_states = attn.spatial_norm(hidden_states, temb)
        if len(shape) == 4:
            hidden_states = hidden_states.flatten(2).transpose(1, 2)
        if attn.group_norm is not None:
            hidden_states = attn.group_norm(hidden_states.transpose(1, 2)).transpose(1, 2)
        if encoder_hidden_states is None:
            raise ValueError("suppression belongs in cross-attention; this layer attends to itself")
        if attn.norm_cross:
            encoder_hidden_states = attn.norm_encoder_hidden_states(encoder_hidden_states)
        assert encoder_hidden_states is not None
        n, tokens = encoder_hidden_states.shape[:2]
        if attention_mask is not None:
            attention_mask = attn.prepare_attention_mask(attention_mask, tokens, n)
            attention_mask = attention_mask.view(n, attn.heads, -1, attention_mask.shape[-1])

        def split(x: Tensor) -> Tensor:
            return x.view(n, -1, attn.heads, x.shape[-1] // attn.heads).transpose(1, 2)

        q, k, v = (
            split(attn.to_q(hidden_states)),
            split(attn.to_k(encoder_hidden_states)),
            split(attn.to_v(encoder_hidden_states)),
        )
        attended = self.suppression(q, k, v, attention_mask).transpose(1, 2).flatten(2)
        out: Tensor = attn.to_out[1](attn.to_out[0](attended.to(q.dtype)))
        if len(shape) == 4:
            out = out.transpose(-1, -2).reshape(shape)
        if attn.residual_connection:
            out = out + residual
        scaled: Tensor = out / attn.rescale_output_factor
        return scaled


def suppressed(unet: Any, suppression: Suppression) -> dict[str, Any]:
    """The attention processors of a diffusers U-Net, those of its cross-attentions (`attn2`) replaced."""
    kept: dict[str, Any] = unet.attn_processors
    return {name: DiffusersProcessor(suppression) if ".attn2." in name else own for name, own in kept.items()}
