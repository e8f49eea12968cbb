"""`updp watch`: releases of studies as they arrive."""

import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from updp.cli.app import WRONG_USE, KeyOption, app
from updp.cli.console import given_options, open_key, print_outcome
from updp.cli.network import MetricsOption, published
from updp.cli.options import (
    AddressOption,
    EngineOption,
    GpusOption,
    MethodOption,
    PinOption,
    PolicyOption,
    SeedOption,
    WorkersOption,
)
from updp.cli.session import add_result, make_console, say


@app.command()
def watch(
    source: Annotated[Path, typer.Argument(help="The folder that DICOM studies arrive in, one folder per study.")],
    out: Annotated[Path, typer.Argument(help="Where the dated releases go.")],
    quiet: Annotated[
        float, typer.Option(min=0, help="Seconds without a change after which a study is complete.")
    ] = 300,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two scans of the folder.")] = 30,
    at_least: Annotated[int, typer.Option(min=1, help="Studies that make a batch; fewer wait for others.")] = 1,
    method: MethodOption = None,
    policy: PolicyOption = None,
    key: KeyOption = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    gpus: GpusOption = None,
    pin: PinOption = None,
    workers: WorkersOption = None,
    once: Annotated[bool, typer.Option("--once", help="End when every study that is there has been taken.")] = False,
    seed: SeedOption = 0,
    metrics: MetricsOption = None,
) -> None:
    """Make dated releases of studies as they arrive, until stopped. May be killed at any moment; start it again."""
    from updp.core.policy import Policy
    from updp.pipeline.watch import Watch

    console = make_console()
    settings = Policy.load(policy) if policy else Policy()
    if method is not None:
        settings = settings.model_copy(update={"method": settings.method.model_copy(update={"name": method})})
    options = given_options(address=address, gpus=gpus, pin=pin)
    further: dict[str, Any] = {"engine": engine, "engine_options": options, "workers": workers, "seed": seed}
    watched = Watch(source, out, quiet, 1 if once else at_least, settings, open_key(key, console), further)
    made: list[str] = []
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    try:
        with watched.owned(), published(watched.metrics, metrics):
            say(f"Watching {source}. Stop with Ctrl-C.")
            while True:
                for outcome in watched.look():
                    made.append(str(outcome.folder))
                    print_outcome(console, outcome)
                if once and watched.failing:
                    say("A batch could not be made; the log says why. The same command tries again.")
                    raise typer.Exit(WRONG_USE)
                if once and watched.idle:
                    break
                time.sleep(every)
    except KeyboardInterrupt:
        say("Stopped. The same command goes on from here.")
    finally:
        signal.signal(signal.SIGTERM, before)
        add_result(batches=made)
