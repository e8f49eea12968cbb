"""The command `updp` and its groups; the modules beside this one add the commands."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

DONE, WRONG_USE, BLOCKED, QUARANTINED = 0, 2, 3, 4
app = typer.Typer(
    name="updp",
    help="Make releases of chest X-rays and reports that another hospital can train on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, and those hold patients
    context_settings={"help_option_names": ["-h", "--help"]},
)
vault_app = typer.Typer(help="Links between release ids and source ids; stays in the hospital.", no_args_is_help=True)
key_app = typer.Typer(help="The hospital's secret key.", no_args_is_help=True)
train_app = typer.Typer(help="Train models from a source.", no_args_is_help=True)
bench_app = typer.Typer(help="Measure models and methods on real data.", no_args_is_help=True)
app.add_typer(vault_app, name="vault")
app.add_typer(train_app, name="train")
app.add_typer(bench_app, name="bench")
app.add_typer(key_app, name="key")

KeyOption = Annotated[
    Path | None, typer.Option("--key", help="Key file; created if it does not exist. Default: ~/.config/updp/key.")
]


@app.callback()
def _settings(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where in the code an error happened (never patient data).")
    ] = False,
) -> None:
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, format="%(name)s: %(message)s")
    if debug:  # other libraries' debug lines may quote the data
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("updp").setLevel(logging.DEBUG)
