"""The card of a pack of method weights, written from its `pack.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def card(info: Mapping[str, Any]) -> str:
    """Markdown of the `pack.toml` of a pack of method weights."""
    out = [f"# Method weights {info['name']}", "", str(info.get("summary", "")), "", f"Licence: {info['licence']}", ""]
    out += [
        "| method | steps | training films | of patients | learned with (SHA-256, first 12) |",
        "|---|---|---|---|---|",
    ]
    rules = set()
    for name, entry in info["methods"].items():
        bound = ", ".join(f"{role} {digest[:12]}" for role, digest in entry["trained_with"].items())
        learned: Mapping[str, Any] = entry.get("splits", {})
        train = learned.get("train", {})
        rules |= {str(learned["rule"])} if learned else set()
        seen = (entry.get("steps", ""), train.get("films", ""), train.get("patients", ""))
        out.append(f"| {name} | {' | '.join(map(str, seen))} | {bound} |")
    if rules:
        out += ["", f"Patients are split by: {'; '.join(sorted(rules))}."]
    if limits := info.get("limits"):
        out += ["", "## Limits", *(f"- {line}" for line in limits)]
    return "\n".join(out) + "\n"
