"""`updp deidentify`, `clean` and `verify`: making a release, and checking one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from updp.cli.app import BLOCKED, QUARANTINED, STOPPED, KeyOption, app
from updp.cli.console import (
    Progress,
    given_options,
    open_key,
    print_checks,
    print_outcome,
    read_options,
)
from updp.cli.options import (
    AddressOption,
    EngineOption,
    ExportArgument,
    GpusOption,
    LayoutOption,
    LimitOption,
    MethodOption,
    OptionOption,
    PinOption,
    PolicyOption,
    RecipientOption,
    SeedOption,
    StrictOption,
    WorkersOption,
)
from updp.cli.session import add_result, make_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from updp.core.policy import Policy


@app.command()
def deidentify(
    source: ExportArgument,
    out: Annotated[Path, typer.Argument(help="Where to put the release; run again to resume.")],
    method: MethodOption = None,
    strength: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="0 is closest to the original, 1 is most private.")
    ] = None,
    option: OptionOption = None,
    policy: PolicyOption = None,
    pack: Annotated[str | None, typer.Option(help="Model pack of the method: a name or a folder.")] = None,
    key: KeyOption = None,
    layout: LayoutOption = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    gpus: GpusOption = None,
    pin: PinOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = 0,
    limit: LimitOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen, as `updp plan`; write nothing.")
    ] = False,
    recipient: RecipientOption = None,
    check_content: Annotated[
        bool, typer.Option("--check-content", help="On resume compare the bytes of files, not their size and time.")
    ] = False,
    strict: StrictOption = False,
) -> None:
    """Make a release of a hospital export. Running the same command again resumes."""
    from updp.core.policy import Policy

    settings = Policy.load(policy) if policy else Policy()
    options = settings.method.options | read_options(option or ()) | ({"pack": pack} if pack else {})
    given = {"name": method, "strength": strength, "options": options}
    changes = {name: value for name, value in given.items() if value is not None}
    settings = settings.model_copy(update={"method": settings.method.model_copy(update=changes)})
    if dry_run:
        from updp.cli.start import print_plan
        from updp.pipeline.plan import plan

        print_plan(plan(source, settings, layout=layout, seed=seed, limit=limit, workers=workers))
        return
    where = {"engine": engine, "engine_options": given_options(address=address, gpus=gpus, pin=pin), "workers": workers}
    more = {"layout": layout, "seed": seed, "limit": limit, "recipient": recipient, "check_content": check_content}
    _release(source, out, settings, key, strict, **where, **more)


@app.command()
def clean(
    source: Annotated[Path, typer.Argument(help="A folder of DICOM files, or an export in another known layout.")],
    out: Annotated[Path, typer.Argument(help="Where to put the cleaned films; run again to resume.")],
    syntax: Annotated[
        str, typer.Option(help="How DICOM films are stored: explicit-le, jpeg-ls or jpeg-2000 (all lossless).")
    ] = "explicit-le",
    policy: Annotated[
        Path | None, typer.Option(help="Policy file with further settings; default: the preset clean-only.")
    ] = None,
    key: KeyOption = None,
    layout: LayoutOption = None,
    workers: WorkersOption = None,
    limit: LimitOption = None,
    recipient: RecipientOption = None,
    strict: StrictOption = False,
) -> None:
    """Clean headers, burned-in text and reports; films keep their size and depth.

    Films stay as they were taken: a person who has another film of the patient can recognise the patient.
    """
    from updp.core.policy import BadPolicy, Policy

    settings = Policy.load(policy) if policy else Policy.preset("clean-only")
    if not settings.image.native:
        raise BadPolicy('`updp clean` keeps films native: set [image] size = "native", or use `updp deidentify`')
    settings = settings.with_image(transfer_syntax=syntax)
    _release(source, out, settings, key, strict, layout=layout, workers=workers, limit=limit, recipient=recipient)


def _release(source: Path, out: Path, policy: "Policy", key: Path | None, strict: bool, **more: Any) -> None:
    """Make a release, show how far it is, and end with the exit code of its outcome."""
    from updp.pipeline.run import deidentify as run

    console = make_console()
    opened = open_key(key, console)
    with Progress(console, out) as bar, kept_when_stopped(console, out, bar):
        outcome = run(source, out, policy=policy, key=opened, progress=bar, **more)
    print_outcome(console, outcome)
    if outcome.status == "blocked":
        raise typer.Exit(BLOCKED)
    if strict and outcome.quarantined:
        raise typer.Exit(QUARANTINED)


@contextmanager
def kept_when_stopped(console: "Console", out: Path, bar: Progress) -> Iterator[None]:
    """On Ctrl-C, say what is kept, and end with the exit code of a stopped program."""
    try:
        yield
    except KeyboardInterrupt:
        from updp.pipeline.run import landed_films

        bar.__exit__()
        landed = sum(landed_films(out).values())
        add_result(landed=landed, films=bar.total)
        console.print(f"Stopped. {landed} of {bar.total or 'the'} films are done and kept; nothing was released.")
        console.print("The same command goes on from there.")
        raise typer.Exit(STOPPED) from None


@app.command()
def verify(
    release: Annotated[Path, typer.Argument(help="A release folder.")],
    trust: Annotated[
        str | None, typer.Option(help="The sending hospital's public key, or its fingerprint; not from the release.")
    ] = None,
    accept_unknown_signer: Annotated[
        bool, typer.Option("--accept-unknown-signer", help="Accept any signer: anybody can sign.")
    ] = False,
    revocations: Annotated[
        Path | None, typer.Option(help="The hospital's list of recalled films; default: revocations.json beside it.")
    ] = None,
    remember: Annotated[
        Path | None,
        typer.Option(help="File of checksums found, outside the release: the next check reads changed files only."),
    ] = None,
) -> None:
    """Check a release as its receiver.

    Signature, signer, checksums, schema, residual PHI, gate, revocations.
    """
    from updp.core.questions import Outcome
    from updp.release.verify import verify as check

    console = make_console()
    result = check(
        release,
        trusted=trust,
        accept_unknown_signer=accept_unknown_signer,
        revocations=revocations,
        remember=remember,
    )
    print_checks(console, result.checks)
    add_result(intact=result.intact, status=result.status)
    if result.seal is not None:
        seal = result.seal
        add_result(release=seal.release, serial=seal.serial, date=seal.date.isoformat(), signed_by=seal.signed_by)
    if any(found.outcome is Outcome.FAILED for found in result.checks):
        console.print("[bold red]Do not use this release.")
    elif not result.intact:
        console.print(
            "[bold yellow]Its files agree with each other, but nobody knows who signed them. Do not use it yet."
        )
    if not result.intact:
        raise typer.Exit(BLOCKED)
    if result.status != "passed":
        console.print("Intact, but [bold]its privacy and usefulness were not measured[/]; treat it as identifiable.")
    elif trust is None:
        console.print("[yellow]Its files agree with each other; who signed them was not checked.")
    else:
        console.print("[green]Intact and passed the gate.")


@app.command()
def shards(
    release: Annotated[Path, typer.Argument(help="A release folder; check it first with `updp verify`.")],
    out: Annotated[Path, typer.Argument(help="Folder for the tar files.")],
    size: Annotated[int, typer.Option(min=1, help="Films per tar file.")] = 1000,
) -> None:
    """Pack a received release into tar shards for WebDataset: film, row and report side by side, a file per split."""
    from updp.release.webdataset import write_shards

    films = write_shards(release, out, size)
    add_result(films=films, folder=str(out))
    say(", ".join(f"{count} films of {split}" for split, count in films.items()) + f" packed into {out}")
