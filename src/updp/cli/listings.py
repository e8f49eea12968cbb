"""`updp methods`, `sources`, `packs` and `policy`: what there is."""

import json
from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import app
from updp.cli.console import print_table
from updp.cli.session import add_result, say


@app.command()
def methods() -> None:
    """The de-identification methods there are."""
    from updp.methods import METHODS, UnknownMethod, method_info
    from updp.methods.listing import describe_method

    listed: dict[str, dict[str, list[str]]] = {}
    add_result(methods=listed)
    for name in METHODS:
        listed[name] = {}
        try:
            info = method_info(name)
        except UnknownMethod as error:  # a plug-in that cannot be imported
            say(f"{typer.style(name, bold=True)}  {error}")
            continue
        say(f"{typer.style(info.name, bold=True)}  {info.summary}")
        for line, text in describe_method(info):
            listed[name].setdefault(line, []).append(text)
            say(f"    {line:<10}{text}")
    say("Linkage is verification max(AUC, 1-AUC) on unseen patients (0.5 is chance), with 95 % intervals.")


@app.command()
def sources() -> None:
    """The source layouts there are, and the mappings of public sets that are read as tables."""
    from updp.sources import LAYOUTS
    from updp.sources.mapping import shipped

    held = [(name, (kind.__doc__ or "").partition("\n")[0]) for name, kind in LAYOUTS.members()]
    print_table(("layout", "what the folder holds"), held, "layouts")
    print_table(
        ("mapping", "table of the set"), [(name, own.table or "") for name, own in shipped().items()], "mappings"
    )


@app.command()
def domains() -> None:
    """The domains there are: kinds of image."""
    from updp.domains import DOMAINS

    known = [(name, one.summary + (" and their reports" if one.reports else "")) for name, one in DOMAINS.members()]
    print_table(("domain", "what it is"), known, "domains")


@app.command()
def packs() -> None:
    """The model packs there are."""
    from updp.models import list_packs

    rows = [(pack.name, ", ".join(pack.info["roles"]), str(pack.info.get("licence", ""))) for pack in list_packs()]
    print_table(("pack", "roles", "licence"), rows, "packs")


@app.command("policy")
def show_policy(
    schema: Annotated[bool, typer.Option("--schema", help="The JSON schema instead.")] = False,
    check: Annotated[Path | None, typer.Option(help="Check a policy file.")] = None,
    preset: Annotated[str | None, typer.Option(help="A preset instead: strict, research or clean-only.")] = None,
) -> None:
    """Print the default policy, a preset or the schema, or check a file."""
    from updp.core.policy import Policy, json_schema, preset_text
    from updp.domains import DOMAINS
    from updp.methods import check_method

    if check:
        found = Policy.load(check)
        domain = found.source.domain  # without one, the layout of the source decides
        if domain is not None:
            DOMAINS[domain].check(found)
        check_method(found.method.name, found.method.options, domain, found.image.native)
        add_result(valid=True, policy=found.model_dump(mode="json"))
        say(f"{check}: a valid policy")
    elif preset:
        add_result(preset=preset, policy=Policy.preset(preset).model_dump(mode="json"))
        say(preset_text(preset), nl=False)
    else:
        add_result(
            **({"schema": json.loads(json_schema())} if schema else {"policy": Policy().model_dump(mode="json")})
        )
        say(json_schema() if schema else Policy().to_toml(), nl=False)
