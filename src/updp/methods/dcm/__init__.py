"""DCM-DeID: cells that show the patient blocked and drawn anew."""

from __future__ import annotations

from updp.methods.base import MethodInfo

INFO = MethodInfo(
    name="dcm",
    summary="cells that identify the patient blocked and generated anew from a short code of the findings",
    knob="rho, the share of cells that are blocked, from none (the film itself) to all (the code alone)",
    default_strength=1.0,
    guarantee="none; at rho = 1 the film depends on the patient through a short code alone (length: the weights' card)",
    paper="Tian et al., Semantics versus Identity, arXiv 2507.21703 (design after its abstract)",
    domains=("chest",),
    needs=frozenset({"generator", "autoencoder", "vlm", "identity"}),
)
