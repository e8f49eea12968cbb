"""A whole corpus at a time: JSON lines in, spans out, and what was found by category.

``{"id": ..., "text": ...}`` becomes ``{"id": ..., "spans": [{"start", "end", "category", "score"}]}``, one line at a
time, so that a corpus of any size needs the memory of one report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TextIO

from updp.reports.categories import GROUPS, HOLE, categories
from updp.reports.detect import Detector, shared_detector
from updp.reports.language import ENGLISH, language


@dataclass(slots=True)
class CorpusCounts:
    """What a scan found."""

    reports: int = 0
    with_phi: int = 0
    foreign: Counter[str] = field(default_factory=Counter)  # language -> reports the detector cannot read
    unreadable: int = 0  # lines that are no JSON object with an id and a text
    spans: Counter[str] = field(default_factory=Counter)  # category -> spans
    in_reports: Counter[str] = field(default_factory=Counter)  # category -> reports that hold one


def scan_lines(
    lines: Iterable[str], out: TextIO, *, detector: Detector | None = None, why: bool = False
) -> CorpusCounts:
    """Scan JSON lines and write spans to ``out``; a line that cannot be read is reported by number and passed over."""
    detector = detector or shared_detector()
    counts = CorpusCounts()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            key, text = row["id"], row["text"]
            if not isinstance(text, str) or not isinstance(key, str | int):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            counts.unreadable += 1
            out.write(json.dumps({"line": number, "error": "not a JSON object with an id and a text"}) + "\n")
            continue
        spans = detector.spans(text)
        counts.reports += 1
        spoken = language(text)
        if spoken != ENGLISH:
            counts.foreign[spoken] += 1
        found = Counter(s.category for s in spans)
        counts.spans.update(found)
        counts.in_reports.update(found.keys())
        counts.with_phi += any(c != HOLE for c in found)
        rows = [
            {
                "start": s.start,
                "end": s.end,
                "category": s.category,
                "score": s.score,
                **({"why": s.why} if why else {}),
            }
            for s in spans
        ]
        row = {"id": key, "spans": rows}
        if spoken != ENGLISH:
            row["language"] = spoken
        out.write(json.dumps(row) + "\n")
    return counts


def render(counts: CorpusCounts) -> str:
    """The corpus report as Markdown: every category by group, with how many spans and in how many reports."""
    table = categories()
    lines = [
        f"{counts.reports} reports, {counts.with_phi} with identifiers"
        + (f", {counts.unreadable} lines unreadable" if counts.unreadable else "")
        + (f", {counts.foreign.total()} in another language than English, which is not read" if counts.foreign else ""),
        "",
        "| group | category | Safe Harbor class | spans | reports |",
        "|---|---|---|---:|---:|",
    ]
    for group in (*GROUPS, ""):
        for category in table.values():
            if category.group == group and counts.spans[category.name]:
                name = group.replace("_", " ") or "already removed"
                letter = f"({category.safe_harbor})" if category.safe_harbor else ""
                n, m = counts.spans[category.name], counts.in_reports[category.name]
                lines.append(f"| {name} | {category.name} | {letter} | {n} | {m} |")
    return "\n".join(lines) + "\n"
