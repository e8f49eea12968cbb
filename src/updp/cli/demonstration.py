"""`updp demo`: the demonstration on a virtual hospital."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import BLOCKED, app
from updp.cli.console import Progress, print_checks, print_outcome
from updp.cli.session import console_of, told


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to put hospital, release and report.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the invented hospital.")] = 0,
) -> None:
    """Show everything on an invented hospital.

    De-identify, attack, verify, report.
    """
    from updp.core.questions import Outcome
    from updp.virtual.demo import run

    console = console_of()
    with Progress(console) as bar:
        result = run(out, seed=seed, progress=bar)
    print_outcome(console, result.outcome)
    print_checks(console, result.verification.checks)
    told(leaks=result.leaks, canaries=result.canaries, report=str(result.report))
    console.print(f"Invented identifiers found in the release: [bold]{result.leaks}[/] of {result.canaries}")
    console.print(
        f"This release: [bold]{result.outcome.status}[/] (usefulness: the demonstration asks less than default)"
    )
    console.print(f"The same hospital with its films as they were taken: [bold]{result.untouched.status}[/]")
    console.print(f"Report: [bold]{result.report}[/]")
    failed = any(check.outcome is Outcome.FAILED for check in result.verification.checks)
    if result.leaks or failed or result.outcome.status != "passed" or result.untouched.status != "blocked":
        raise typer.Exit(BLOCKED)
