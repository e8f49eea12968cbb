"""Where the strength of a method is read: the caller's, else the method's own, within [0, 1]."""

from __future__ import annotations

from updp.methods.base import MethodInfo


def resolve_strength(info: MethodInfo, strength: float | None) -> float:
    """The strength to use: the caller's, else the method's default; outside [0, 1] is an error."""
    value = info.default_strength if strength is None else strength
    if value is None:
        return 0.0
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"strength of {info.name} must lie in [0, 1], not {value}")
    return value
