"""`updp key` and `updp vault`: what stays inside the hospital."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import KeyOption, key_app, vault_app
from updp.cli.console import open_key
from updp.cli.session import say, told


@key_app.command("new")
def key_new(path: Annotated[Path, typer.Argument(help="File to create.")]) -> None:
    """Make a new secret key (0600); never overwrites one."""
    from updp.core.keys import Key

    made = Key.create(path)
    told(fingerprint=made.fingerprint)
    say(f"key {made.fingerprint} made; keep it inside the hospital and back it up")


@key_app.command("public")
def key_public(key: KeyOption = None) -> None:
    """Print the public key that receivers give to `updp verify --trust`."""
    from updp.release.signature import public_key

    found = public_key(open_key(key, None))
    told(public_key=found)
    say(found)


@vault_app.command("export")
def vault_export(
    out: Annotated[Path, typer.Argument(help="The output folder of a run.")],
    to: Annotated[Path, typer.Option("--to", help="CSV file to write (0600).")],
    key: KeyOption = None,
) -> None:
    """Write the links between release ids and source studies as CSV, for recall or audit."""
    from updp.core.keys import Key, default_path
    from updp.release.vault import export

    count = export(out, Key.load(key or default_path()), to)
    told(links=count)
    say(f"{count} links written; this file names patients, keep it inside the hospital")
