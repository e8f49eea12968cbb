"""The command `updp` and its groups; the modules beside this one add the commands."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from updp.cli.session import current, open_log

DONE, WRONG_USE, BLOCKED, QUARANTINED, STOPPED = 0, 2, 3, 4, 130
app = typer.Typer(
    name="updp",
    help="Make releases of chest X-rays and reports that another hospital can train on.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: loading and drawing the other takes half of the time of `updp --help`
    pretty_exceptions_enable=False,  # its tracebacks show local variables, and those hold patients
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
vault_app = typer.Typer(help="Links from release ids to source ids; stays in the hospital.", no_args_is_help=True)
key_app = typer.Typer(help="The hospital's secret key.", no_args_is_help=True)
train_app = typer.Typer(help="Train models from a source.", no_args_is_help=True)
bench_app = typer.Typer(help="Measure models and methods on real data.", no_args_is_help=True)
cache_app = typer.Typer(help="Real films and trained attackers that `updp evaluate` keeps.", no_args_is_help=True)
study_app = typer.Typer(help="Reader studies: plan, hand out, collect, analyse.", no_args_is_help=True)
virtual_app = typer.Typer(help="Invented patients, for tests.", no_args_is_help=True)
mema_app = typer.Typer(help="Generated photographs of patients who do not exist.", no_args_is_help=True)
app.add_typer(virtual_app, name="virtual")
app.add_typer(mema_app, name="mema")
app.add_typer(study_app, name="study")
app.add_typer(vault_app, name="vault")
app.add_typer(cache_app, name="cache")
app.add_typer(train_app, name="train")
app.add_typer(bench_app, name="bench")
app.add_typer(key_app, name="key")

KeyOption = Annotated[
    Path | None, typer.Option("--key", help="Key file; created if it does not exist. Default: ~/.config/updp/key.")
]


def _version(asked: bool) -> None:
    if asked:
        from updp.core.version import __version__

        typer.echo(f"updp {__version__}")
        raise typer.Exit


@app.callback(epilog="--json, --log and --debug may stand anywhere in a command.")
def _settings(
    context: typer.Context,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object; messages go to standard error.")
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(help="Write events, counts and reason codes here, as JSON lines (0600); - is standard error."),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where in the code an error happened (never patient data).")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    shown = logging.StreamHandler()
    shown.setLevel(logging.DEBUG if debug else logging.WARNING)
    shown.addFilter(logging.Filter("updp"))  # lines of other libraries quote values of the files they read
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", handlers=[shown])
    if debug:
        logging.getLogger("updp").setLevel(logging.DEBUG)
    session = current()
    session.as_json = as_json
    session.command = session.command or context.invoked_subcommand or ""
    if log is not None:
        from updp.core.version import __version__

        open_log(log)
        logging.getLogger("updp.cli").info("start", extra={"facts": {"command": session.command, "updp": __version__}})
