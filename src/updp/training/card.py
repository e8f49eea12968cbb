"""The card of a pack: what it was made from and how, what it can do, and what it cannot. Written from `pack.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from updp.models.pack import restate_pack


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() and abs(value) >= 2 else f"{value:.4g}"


def _table(rows: Sequence[tuple[str, ...]], head: tuple[str, ...]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def card(info: Mapping[str, Any]) -> str:
    """Markdown of a pack's `pack.toml`."""
    out = [f"# Model pack {info['name']}", "", str(info.get("summary", "")), "", f"Licence: {info['licence']}", ""]
    rows: list[tuple[str, ...]]
    if data := info.get("data"):
        rows = [(name, str(d.get("films", "")), d.get("licence", ""), d.get("credit", "")) for name, d in data.items()]
        out += ["## Data", _table(rows, ("source", "films", "terms", "credit")), ""]
    splits = info["splits"]
    rows = [
        (s, str(splits[s]["patients"]), str(splits[s]["films"]), splits[s]["sha256"][:16])
        for s in splits
        if isinstance(splits[s], Mapping)
    ]
    out += ["## Splits", f"Patient-disjoint: {splits['rule']}.", ""]
    out += [_table(rows, ("split", "patients", "films", "SHA-256 of the film ids")), ""]
    out += ["## Recipe"]
    if commit := info.get("commit"):
        out += [f"`updp train pack` at commit {commit}, seed {info['recipe']['seed']}.", ""]
    stages = [(k, v) for k, v in info["recipe"].items() if isinstance(v, Mapping) and "rate" in v]
    trained = info.get("trained", {})
    rows = [(k, str(trained.get(k, v["steps"])), str(v["batch"]), f"{v['rate']:g}", v["schedule"]) for k, v in stages]
    out += [_table(rows, ("stage", "steps", "batch", "rate", "schedule")), ""]
    if figures := info.get("figures"):
        how = "Measured by the functions of `updp bench pack` on patients the models were not trained on."
        out += ["## Figures", how, ""]
        rows = [(part, name, _number(value)) for part, each in figures.items() for name, value in each.items()]
        out += [_table(rows, ("part", "figure", "value")), ""]
    if limits := info.get("limits"):
        out += ["## Limits", *(f"- {line}" for line in limits), ""]
    return "\n".join(out)


def describe_pack(directory: Path, **changes: Any) -> None:
    """Write what is now known of a pack (figures, thresholds, limits, …) into its `pack.toml` and its card."""
    restate_pack(directory, card, **changes)
