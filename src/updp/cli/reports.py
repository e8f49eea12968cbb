"""`updp scan`: PHI in text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import app


@app.command()
def scan(
    source: Annotated[Path, typer.Argument(help='JSON lines {"id", "text"}; - for standard input.')],
    out: Annotated[Path | None, typer.Option(help="Where to write the spans; default: standard output.")] = None,
) -> None:
    """Find PHI in text: lines {"id","text"} in, {"id","spans":[...]} out."""
    from contextlib import ExitStack

    from updp.reports.corpus import render, scan_lines

    with ExitStack() as stack:
        lines = sys.stdin if str(source) == "-" else stack.enter_context(source.open(encoding="utf-8"))
        target = stack.enter_context(out.open("w", encoding="utf-8")) if out else sys.stdout
        counts = scan_lines(lines, target)
    if out:
        typer.echo(render(counts))
