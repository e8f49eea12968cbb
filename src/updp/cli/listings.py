"""`updp methods`, `sources`, `packs` and `policy`: what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import app
from updp.cli.console import print_table


@app.command()
def methods() -> None:
    """The de-identification methods there are."""
    from updp.methods import METHODS, UnknownMethod, method_info
    from updp.methods.listing import described

    for name in METHODS:
        try:
            info = method_info(name)
        except UnknownMethod as error:  # a plug-in that cannot be imported
            typer.echo(f"{typer.style(name, bold=True)}  {error}")
            continue
        typer.echo(f"{typer.style(info.name, bold=True)}  {info.summary}")
        for line, text in described(info):
            typer.echo(f"    {line:<10}{text}")
    typer.echo("Linkage is verification max(AUC, 1-AUC) on unseen patients (0.5 is chance), with 95 % intervals.")


@app.command()
def sources() -> None:
    """The source layouts there are."""
    from updp.sources import LAYOUTS

    print_table(("layout", "what the folder holds"), [(name, kind.description) for name, kind in LAYOUTS.members()])


@app.command()
def domains() -> None:
    """The domains there are: kinds of image."""
    from updp.domains import DOMAINS

    print_table(("domain", "what it is"), [(name, domain.summary) for name, domain in DOMAINS.members()])


@app.command()
def packs() -> None:
    """The model packs there are."""
    from updp.models import list_packs

    rows = [(pack.name, ", ".join(pack.info["roles"]), str(pack.info.get("licence", ""))) for pack in list_packs()]
    print_table(("pack", "roles", "licence"), rows)


@app.command("policy")
def show_policy(
    schema: Annotated[bool, typer.Option("--schema", help="The JSON schema instead.")] = False,
    check: Annotated[Path | None, typer.Option(help="Check a policy file.")] = None,
    preset: Annotated[str | None, typer.Option(help="A preset instead: strict, research or clean-only.")] = None,
) -> None:
    """Print the default policy, a preset or the JSON schema, or check a policy file."""
    from updp.core.policy import Policy, json_schema, preset_text

    if check:
        Policy.load(check)
        typer.echo(f"{check}: a valid policy")
    elif preset:
        Policy.preset(preset)
        typer.echo(preset_text(preset), nl=False)
    else:
        typer.echo(json_schema() if schema else Policy().to_toml(), nl=False)
