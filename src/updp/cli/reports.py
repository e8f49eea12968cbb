"""`updp scan`: PHI in text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import WRONG_USE, app
from updp.cli.session import add_result, say


@app.command()
def scan(
    source: Annotated[Path, typer.Argument(help='JSON lines {"id", "text"}; - for standard input.')],
    out: Annotated[Path | None, typer.Option(help="Where to write the spans; default: standard output.")] = None,
) -> None:
    """Find PHI in lines of text.

    Lines {"id","text"} in, {"id","spans":[...]} out. A line that cannot be read is named by its number, the others are
    scanned, and the exit code is 2.
    """
    from contextlib import ExitStack

    from updp.reports.corpus import render, scan_lines

    with ExitStack() as stack:
        given = (
            sys.stdin if str(source) == "-" else stack.enter_context(source.open(encoding="utf-8", errors="replace"))
        )
        # What is not UTF-8 is no line that can be read: spans of a text that is not the user's would mislead.
        lines = ("?" if "\ufffd" in line else line for line in given)
        target = stack.enter_context(out.open("w", encoding="utf-8")) if out else sys.stdout
        counts = scan_lines(lines, target)
    add_result(reports=counts.reports, with_phi=counts.with_phi, unreadable=counts.unreadable, spans=dict(counts.spans))
    if out:
        say(render(counts))
    if counts.unreadable:
        raise typer.Exit(WRONG_USE)
