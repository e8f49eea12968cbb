"""What the methods with networks are, apart from the networks: listing methods must not load torch."""

from __future__ import annotations

from updp.methods.base import MethodInfo

PRIVACY_NET = MethodInfo(
    name="privacy-net",
    summary="an encoded picture, for a classifier that was trained along",
    knob="weight of undecidedness about the patient against the findings, from 0 (the film) to its largest",
    default_strength=0.5,
    guarantee="none",
    paper="Kim et al., Privacy-Net, IEEE TMI 2021",
    domain="cxr",
    needs=frozenset({"identity", "classifier"}),
)
PRICHEXY = MethodInfo(
    name="prichexy",
    summary="a learned deformation of the film, by at most a few pixels",
    knob="mu, the size of the deformation, from 0 to max_mu (0.03: 3.8 pixels of 256)",
    default_strength=1 / 3,
    guarantee="none; pixels move by at most mu (n - 1) / 2",
    paper="Packhäuser et al., Deep Learning-Based Anonymization of Chest Radiographs, MICCAI 2023",
    domain="cxr",
    needs=frozenset({"identity"}),
)
PRIVDIFF = MethodInfo(
    name="privdiff",
    summary="the film noised and denoised, told the findings and steered off the patient",
    knob="how far towards noise, from the autoencoder alone (0) to pure noise (1)",
    default_strength=1.0,
    guarantee="none below strength 1; at 1 the film tells of its patient what the findings' labels tell, no more",
    paper="Akhter et al., Hide Identity, Preserve Pathology, PMLR 317, 2026",
    domain="cxr",
    needs=frozenset({"autoencoder", "identity", "labels"}),
)
DCM = MethodInfo(
    name="dcm",
    summary="cells that show the patient blocked and drawn anew, told a short code of the findings",
    knob="rho, the share of cells that are blocked, from none (the film itself) to all (the code alone)",
    default_strength=1.0,
    guarantee="none; at rho = 1 the film tells what a short code tells, whose length the weights' card states",
    paper="Tian et al., Semantics versus Identity, arXiv 2507.21703 (design after its abstract)",
    domain="cxr",
    needs=frozenset({"generator", "autoencoder", "vlm", "identity"}),
)

#: The methods whose modules load torch, by name.
LISTED: dict[str, MethodInfo] = {info.name: info for info in (PRIVACY_NET, PRICHEXY, PRIVDIFF, DCM)}


def described(info: MethodInfo) -> list[tuple[str, str]]:
    """What a method is and what was measured of it, line by line, for `updp methods`."""
    from updp.methods.measured import measured

    default = "" if info.default_strength is None else f" (default {info.default_strength:.2g})"
    lines = [("strength", info.knob + default), ("guarantee", info.guarantee)]
    lines += [("measured", str(one)) for one in measured(info.name)] or [("measured", "not measured")]
    lines.append(("paper", info.paper))
    return [(name, text) for name, text in lines if text]
