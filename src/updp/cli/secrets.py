"""`updp key`, `vault`, `recall`, `recover` and `cache`: what stays inside the hospital."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import KeyOption, app, cache_app, key_app, vault_app
from updp.cli.console import megabytes, open_key
from updp.cli.options import VaultOption
from updp.cli.session import add_result, say

CacheOption = Annotated[Path | None, typer.Option("--cache", help="The cache folder; default: ~/.cache/updp.")]


@key_app.command("new")
def key_new(path: Annotated[Path, typer.Argument(help="File to create.")]) -> None:
    """Make a new secret key (0600); never overwrites one."""
    from updp.core.keys import Key

    made = Key.create(path)
    add_result(fingerprint=made.fingerprint)
    say(f"key {made.fingerprint} made; keep it inside the hospital and back it up")


@key_app.command("public")
def key_public(key: KeyOption = None) -> None:
    """Print the public key that receivers give to `updp verify --trust`."""
    from updp.release.signature import public_key

    found = public_key(open_key(key, None))
    add_result(public_key=found)
    say(found)


@key_app.command("fingerprint")
def key_fingerprint(key: KeyOption = None) -> None:
    """Print the fingerprint of the public key: short enough to read aloud; `updp verify --trust` takes it too."""
    from updp.release.signature import fingerprint, public_key

    found = fingerprint(public_key(open_key(key, None)))
    add_result(fingerprint=found)
    say(found)


@app.command()
def recall(
    patient: Annotated[str, typer.Argument(help="The patient's id in the source; - reads it from standard input.")],
    outs: Annotated[list[Path], typer.Argument(help="Outputs of `updp deidentify` to search.")],
    to: Annotated[Path, typer.Option(help="The signed revocation list; what it holds already stays on it.")] = Path(
        "revocations.json"
    ),
    key: KeyOption = None,
) -> None:
    """Recall a patient's films: list them by release, and write a signed list that `updp verify` checks."""
    import datetime as dt

    from updp.core.keys import Key, default_path
    from updp.release.revocation import recall as run

    named = sys.stdin.readline().strip() if patient == "-" else patient
    opened = Key.load(key or default_path())
    made, found = run(named, outs, to, opened, dt.date.today())
    for one in found:
        for film in one.films:
            say(f"{one.out}\t{one.seal.release}\t{film}")
    films, releases = sum(len(one.films) for one in found), sum(bool(one.films) for one in found)
    add_result(
        list=str(to),
        serial=made.serial,
        releases=[{"output": str(one.out), "release": one.seal.release, "films": list(one.films)} for one in found],
    )
    say(f"{films} films in {releases} releases; {to}, list {made.serial}: send it to their receivers")


@app.command()
def recover(
    release: Annotated[Path, typer.Argument(help="A release, or the output folder of its run.")],
    record: Annotated[str, typer.Option(help="The record's release_id in the manifest.")],
    to: Annotated[Path, typer.Option("--to", help="File to write (0600); never overwritten.")],
    exact: Annotated[
        bool, typer.Option("--exact", help="The exact source file from the vault, not what the released file gives.")
    ] = False,
    by: Annotated[str, typer.Option(help="Who asks; recorded in the log.")] = "",
    why: Annotated[str, typer.Option(help="For what purpose; recorded in the log.")] = "",
    vault: VaultOption = None,
    key: KeyOption = None,
) -> None:
    """Recover the original of one record, if its method is reversible; vault/recovered.jsonl logs it."""
    from updp.core.keys import Key, default_path
    from updp.release.recover import recover as run

    opened = Key.load(key or default_path())
    made = run(release, record, opened, to, how="vault" if exact else "password", by=by, why=why, folder=vault)
    add_result(record=record, how=made.how, bytes=len(made.data))
    say(f"original written to {to}; it shows a patient, keep it inside the hospital")


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
    add_result(links=count)
    say(f"{count} links written; this file names patients, keep it inside the hospital")


@cache_app.command("show")
def cache_show(cache: CacheOption = None) -> None:
    """Print where the cache is and how large it is."""
    from updp.core.cache import size_of

    _say_size(cache, size_of, "bytes")


@cache_app.command("clear")
def cache_clear(cache: CacheOption = None) -> None:
    """Remove the films and attackers that `updp evaluate` kept; nothing else in the folder is touched."""
    from updp.core.cache import clear

    _say_size(cache, clear, "bytes_removed", " removed")


def _say_size(cache: Path | None, count: Callable[[Path], int], fact: str, done: str = "") -> None:
    from updp.core.cache import default_folder

    folder = cache or default_folder()
    size = count(folder)
    add_result(cache=str(folder), **{fact: size})
    say(f"{folder}: {megabytes(size)}{done}")
