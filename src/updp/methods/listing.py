"""What a method is and what was measured of it, as `updp methods` prints it."""

from __future__ import annotations

from updp.methods.base import MethodInfo


def describe_method(info: MethodInfo) -> list[tuple[str, str]]:
    """What a method is and what was measured of it, line by line, for `updp methods`."""
    from updp.methods.measured import measured

    default = "" if info.default_strength is None else f" (default {info.default_strength:.2g})"
    lines = [("strength", info.knob + default), ("guarantee", info.guarantee)]
    lines += [("measured", str(one)) for one in measured(info.name)] or [("measured", "not measured")]
    lines.append(("paper", info.paper))
    return [(name, text) for name, text in lines if text]
