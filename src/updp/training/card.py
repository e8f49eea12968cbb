"""The card of a pack: what it was made from and how, what it can do, and what it cannot. Written from `pack.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from updp.core.markdown import table_lines
from updp.models.pack import restate_pack


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() and abs(value) >= 2 else f"{value:.4g}"


def card(info: Mapping[str, Any]) -> str:
    """Markdown of a pack's `pack.toml`."""
    out = [f"# Model pack {info['name']}", "", str(info.get("summary", "")), "", f"Licence: {info['licence']}", ""]
    rows: list[tuple[str, ...]]
    if data := info.get("data"):
        rows = [(name, str(d.get("films", "")), d.get("licence", ""), d.get("credit", "")) for name, d in data.items()]
        out += ["## Data", *table_lines(("source", "films", "terms", "credit"), rows)]
    splits = info["splits"]
    rows = [
        (s, str(splits[s]["patients"]), str(splits[s]["films"]), splits[s]["sha256"][:16])
        for s in splits
        if isinstance(splits[s], Mapping)
    ]
    out += ["## Splits", f"Patient-disjoint: {splits['rule']}.", ""]
    out += table_lines(("split", "patients", "films", "SHA-256 of the film ids"), rows)
    out += ["## Recipe"]
    if commit := info.get("commit"):
        out += [f"`updp train pack` at commit {commit}, seed {info['recipe']['seed']}.", ""]
    stages = [(k, v) for k, v in info["recipe"].items() if isinstance(v, Mapping) and "rate" in v]
    trained = info.get("trained", {})
    rows = [(k, str(trained.get(k, v["steps"])), str(v["batch"]), f"{v['rate']:g}", v["schedule"]) for k, v in stages]
    out += table_lines(("stage", "steps", "batch", "rate", "schedule"), rows)
    if figures := info.get("figures"):
        how = "Measured by the functions of `updp bench pack` on patients the models were not trained on."
        out += ["## Figures", how, ""]
        rows = [(part, name, _number(value)) for part, each in figures.items() for name, value in each.items()]
        out += table_lines(("part", "figure", "value"), rows)
    if limits := info.get("limits"):
        out += ["## Limits", *(f"- {line}" for line in limits), ""]
    return "\n".join(out)


def describe_pack(directory: Path, **changes: Any) -> None:
    """Write what is now known of a pack (figures, thresholds, limits, …) into its `pack.toml` and its card."""
    restate_pack(directory, card, **changes)
