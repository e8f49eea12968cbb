"""`updp init`: before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import WRONG_USE, app
from updp.cli.console import print_table
from updp.cli.session import console_of, told


@app.command()
def init(
    source: Annotated[Path, typer.Argument(help="The export: a folder with a table that names films, or the table.")],
    mapping: Annotated[str | None, typer.Option(help="Use this mapping that ships (see `updp sources`).")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the mapping; default: updp.toml beside the table's folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a mapping that is there.")] = False,
) -> None:
    """Find out which column of a table holds what, show it, and write it down for every other command."""
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
    told(mapping=str(place), missing=list(found.missing), shipped=found.shipped or None)
    console = console_of()
    if found.shipped:
        console.print(f"This is {found.shipped}, for which a mapping ships.")
    if found.missing:
        console.print(f"[yellow]Not found: {', '.join(found.missing)}.[/] Add it to {place}.", soft_wrap=True)
        raise typer.Exit(WRONG_USE)
    console.print(f"Written to {place}. Correct it where it is wrong, then: updp plan {source}", soft_wrap=True)
