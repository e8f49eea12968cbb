"""PrivDiff-Net: a film noised and denoised, guided towards its findings and away from its patient."""

from __future__ import annotations

from updp.methods.base import MethodInfo

INFO = MethodInfo(
    name="privdiff",
    summary="the film noised and denoised, conditioned on the findings and guided away from the patient",
    knob="how far towards noise, from the autoencoder alone (0) to pure noise (1)",
    default_strength=1.0,
    guarantee="none below strength 1; at 1 the film depends on its patient through the labels of the findings alone",
    paper="Akhter et al., Hide Identity, Preserve Pathology, PMLR 317, 2026",
    domains=("chest",),
    needs=frozenset({"autoencoder", "identity", "labels"}),
)
