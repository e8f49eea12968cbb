"""`updp init` and `updp plan`: before a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from updp.cli.app import WRONG_USE, app
from updp.cli.console import print_table
from updp.cli.options import (
    ExportArgument,
    LayoutOption,
    LimitOption,
    MethodOption,
    PolicyOption,
    SeedOption,
    WorkersOption,
)
from updp.cli.session import add_result, make_console, printable

if TYPE_CHECKING:
    from updp.pipeline.plan import Plan


@app.command()
def init(
    source: Annotated[Path, typer.Argument(help="The export: a folder with a table that names films, or the table.")],
    mapping: Annotated[str | None, typer.Option(help="Use this mapping that ships (see `updp sources`).")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the mapping; default: updp.toml beside the table's folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a mapping that is there.")] = False,
) -> None:
    """Guess what each column of a table holds, show it, and write a mapping that every other command reads."""
    from updp.core.storage import write_bytes
    from updp.sources import BadSource
    from updp.sources.guess import as_toml, guess
    from updp.sources.mapping import BESIDE

    if not source.exists():
        raise BadSource(f"{source}: no such folder")
    found = guess(source, mapping)
    place = out or (source if source.is_dir() else source.parent) / BESIDE
    if place.exists() and not force:
        raise BadSource(f"{place} is there already; correct it by hand, or overwrite it with --force")
    rows = [(one.name, f"{one.filled:.0%}", one.kind, one.taken_as or "–") for one in found.columns]
    print_table(("column", "filled", "looks like", "taken as"), rows, "columns")
    write_bytes(place, as_toml(found).encode())
    add_result(mapping=str(place), missing=list(found.missing), shipped=found.shipped or None)
    console = make_console()
    if found.shipped:
        console.print(f"This is {found.shipped}, for which a mapping ships.")
    if found.missing:
        console.print(f"[yellow]Not found: {', '.join(found.missing)}.[/] Add it to {place}.", soft_wrap=True)
        raise typer.Exit(WRONG_USE)
    console.print(f"Written to {place}. Correct it where it is wrong, then: updp plan {source}", soft_wrap=True)


@app.command("plan")
def show_plan(
    source: ExportArgument,
    method: MethodOption = None,
    policy: PolicyOption = None,
    layout: LayoutOption = None,
    workers: WorkersOption = None,
    limit: LimitOption = None,
    seed: SeedOption = 0,
) -> None:
    """Say what a run would do: films, patients, labels, reports, time, disk, and what the gate could answer."""
    from updp.core.policy import Policy
    from updp.pipeline.plan import plan

    settings = Policy.load(policy) if policy else Policy()
    if method is not None:
        settings = settings.model_copy(update={"method": settings.method.model_copy(update={"name": method})})
    print_plan(plan(source, settings, layout=layout, seed=seed, limit=limit, workers=workers))


def print_plan(made: "Plan") -> None:
    """Print a plan, and add it to the result."""
    from updp.core.reasons import REPAIR, Reason
    from updp.pipeline.plan import as_json

    console = make_console()

    def listed(counts: Mapping[str, int]) -> str:
        return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"

    add_result(**as_json(made))
    rows = [
        ("source", f"{made.layout}, domain {made.domain}"),
        ("films", f"{made.films}" + (f"; {made.skipped} lateral ones passed over" if made.skipped else "")),
        ("patients", f"{made.patients} ({listed(made.splits)})"),
        ("views", listed(made.views)),
        ("labels", f"{made.labelled} films labelled: {listed(made.labels)}"),
    ]
    if made.unknown_labels or made.unknown_rare:
        rare = f"; {made.unknown_rare} rare ones" if made.unknown_rare else ""
        rows.append(("unknown labels", f"{listed(made.unknown_labels)}{rare} (policy [release] labels lets them out)"))
    rows.append(("reports", f"{made.reports}; languages of {made.looked} that were read: {listed(made.languages)}"))
    if made.seconds_per_film is not None and made.seconds is not None:
        total = f"{made.seconds_per_film:.2g} s per film ({made.timed} films timed), "
        rows.append(("time", total + f"{_duration(made.seconds)} with {made.workers} workers"))
    if made.bytes is not None:
        rows.append(("disk", f"about {made.bytes / 1e6:.1f} MB"))
    from rich.markup import escape

    for name, text in rows:  # labels are the source's own words
        console.print(f"[bold]{name:<15}[/]{escape(printable(text))}", soft_wrap=True)
    for code, count in made.refused.items():
        console.print(f"[yellow]{count}[/] will be kept back: {code} ({REPAIR[Reason(code)]})", soft_wrap=True)
    for code, count in made.refused_looked.items():
        repair = REPAIR[Reason(code.partition("/")[2])]
        console.print(f"[yellow]{count}[/] of those read: {code} ({repair})", soft_wrap=True)
    for answer in made.answers:
        mark = "[green]✓[/]" if answer.can else "[yellow]?[/]"
        console.print(f"{mark} {answer.question}: {answer.why}", soft_wrap=True)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
