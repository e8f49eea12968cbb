"""Privacy-Net: an encoded film for a classifier that was trained along."""

from __future__ import annotations

from updp.methods.base import MethodInfo

INFO = MethodInfo(
    name="privacy-net",
    summary="an encoded picture, for a classifier trained together with the encoder",
    knob="weight of the discriminator's uncertainty against the findings, from 0 (the film) to its largest",
    default_strength=0.5,
    guarantee="none",
    paper="Kim et al., Privacy-Net, IEEE TMI 2021",
    domains=("chest",),
    needs=frozenset({"identity", "classifier"}),
)
