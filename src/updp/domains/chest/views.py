"""The projections of a chest film, and how tables and headers write them."""

from __future__ import annotations

from typing import Literal

View = Literal["PA", "AP", "LATERAL"]
VIEWS: tuple[View, ...] = ("PA", "AP", "LATERAL")

_LATERAL = {"LATERAL", "LL", "RL", "LAT", "L", "LEFT LATERAL", "RIGHT LATERAL", "LLD", "RLD", "LLO", "RLO"}
_PA = {"PA", "POSTERO-ANTERIOR", "POSTEROANTERIOR"}
_AP = {"AP", "ANTERO-POSTERIOR", "ANTEROPOSTERIOR"}


def view_of(value: object) -> View | None:
    """PA, AP or LATERAL from a view position; None for anything else."""
    text = str(value or "").strip().upper()
    return "PA" if text in _PA else "AP" if text in _AP else "LATERAL" if text in _LATERAL else None
