"""PriCheXy-Net: a learned deformation of the film."""

from __future__ import annotations

from updp.methods.base import MethodInfo

INFO = MethodInfo(
    name="prichexy",
    summary="a learned deformation of the film, by at most a few pixels",
    knob="mu, the size of the deformation, from 0 to max_mu (0.03: 3.8 pixels of 256)",
    default_strength=1 / 3,
    guarantee="none; pixels move by at most mu (n - 1) / 2",
    paper="Packhäuser et al., Deep Learning-Based Anonymization of Chest Radiographs, MICCAI 2023",
    domains=("chest",),
    needs=frozenset({"identity"}),
)
