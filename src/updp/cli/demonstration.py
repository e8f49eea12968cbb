"""`updp demo` and `updp virtual`: demonstrations on invented patients, and the patients themselves."""

from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import BLOCKED, app, virtual_app
from updp.cli.console import Progress, print_checks, print_outcome
from updp.cli.session import console_of, told


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to put hospital, release and report.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the invented hospital.")] = 0,
    domain: Annotated[
        str, typer.Option(help="chest: a hospital with films and reports; face: an eye clinic.")
    ] = "chest",
) -> None:
    """Show everything on an invented hospital.

    De-identify, attack, verify, report.
    """
    if domain == "face":
        _faces(out, seed)
        return
    if domain != "chest":
        raise typer.BadParameter(f"there are demonstrations of chest and face, not of {domain!r}")
    from updp.core.questions import Outcome
    from updp.virtual.demo import run

    console = console_of()
    with Progress(console) as bar:
        result = run(out, seed=seed, progress=bar)
    print_outcome(console, result.outcome)
    print_checks(console, result.verification.checks)
    told(leaks=result.leaks, canaries=result.canaries, report=str(result.report))
    console.print(f"Invented identifiers found in the release: [bold]{result.leaks}[/] of {result.canaries}")
    console.print(
        f"This release: [bold]{result.outcome.status}[/] (usefulness: the demonstration asks less than default)"
    )
    console.print(f"The same hospital with its films as they were taken: [bold]{result.untouched.status}[/]")
    console.print(f"Report: [bold]{result.report}[/]")
    failed = any(check.outcome is Outcome.FAILED for check in result.verification.checks)
    if result.leaks or failed or result.outcome.status != "passed" or result.untouched.status != "blocked":
        raise typer.Exit(BLOCKED)


def _faces(out: Path, seed: int) -> None:
    from updp.core.questions import Outcome
    from updp.virtual.face_demo import run

    console = console_of()
    with Progress(console) as bar:
        result = run(out, seed=seed, progress=bar)
    print_outcome(console, result.outcome)
    print_checks(console, result.verification.checks)
    told(
        status=result.outcome.status,
        untouched=result.untouched.status,
        recovered=result.recovered,
        wrong=result.wrong,
        report=str(result.report),
    )
    console.print(f"Originals back with their password: [bold]{result.recovered}[/] of {result.tried}; with that of ")
    console.print(f"another record: [bold]{result.wrong}[/]; exact files from the vault: [bold]{result.exact}[/]")
    console.print(f"This release: [bold]{result.outcome.status}[/]")
    console.print(f"The same clinic with its photographs as they were taken: [bold]{result.untouched.status}[/]")
    console.print(f"Report: [bold]{result.report}[/]")
    failed = any(check.outcome is Outcome.FAILED for check in result.verification.checks)
    if failed or result.wrong or min(result.recovered, result.exact) < result.tried:
        raise typer.Exit(BLOCKED)


@virtual_app.command("clinic")
def clinic(
    out: Annotated[Path, typer.Argument(help="Where to put photographs, masks and manifest.")],
    source: Annotated[
        Path | None, typer.Option(help="Photographs to render on; default: the invented faces of the package.")
    ] = None,
    people: Annotated[int | None, typer.Option(min=1, help="People; default: all there are.")] = None,
    photographs: Annotated[int, typer.Option(min=1, help="Photographs per person, at most.")] = 3,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="Also entropion and eyelid nevus, which no model learns.")
    ] = False,
    disease: Annotated[list[str] | None, typer.Option(help="Take this disease alone; may be given again.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of diseases, textures and photographs.")] = 0,
) -> None:
    """Make a virtual eye clinic.

    Photographs of people with rendered eye diseases, a mask for each, and a manifest.
    """
    from updp.virtual.clinic import make_clinic

    made = make_clinic(
        out,
        seed=seed,
        people=people,
        photographs=photographs,
        source=source,
        unseen=unseen,
        only=tuple(disease) if disease else None,
    )
    told(folder=str(made.folder), people=made.people, photographs=made.photographs, refused=made.refused)
    console = console_of()
    console.print(f"{made.photographs} photographs of {made.people} people in [bold]{made.folder}[/]")
    if made.refused:
        console.print(f"{made.refused} photographs of the source were left out: not exactly one frontal face")
