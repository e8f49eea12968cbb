"""`updp demo` and `updp virtual`: demonstrations on invented patients, and the patients themselves."""

from pathlib import Path
from typing import Annotated, Any

import typer

from updp.cli.app import BLOCKED, app, mema_app, virtual_app
from updp.cli.console import Progress, print_checks, print_outcome
from updp.cli.session import add_result, make_console


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to put hospital, release and report.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the invented hospital.")] = 0,
    domain: Annotated[
        str, typer.Option(help="chest: a hospital with films and reports; face: an eye clinic.")
    ] = "chest",
) -> None:
    """Run every step on an invented hospital.

    De-identify, attack, verify, report.
    """
    if domain == "face":
        _faces(out, seed)
        return
    if domain != "chest":
        from updp.core.registry import unknown

        raise typer.BadParameter(unknown("demonstration", domain, ("chest", "face")))
    from updp.core.questions import Outcome
    from updp.virtual.demo import run

    console = make_console()
    with Progress(console) as bar:
        result = run(out, seed=seed, progress=bar)
    print_outcome(console, result.outcome)
    print_checks(console, result.verification.checks)
    add_result(leaks=result.leaks, canaries=result.canaries, report=str(result.report))
    console.print(f"Invented identifiers found in the release: [bold]{result.leaks}[/] of {result.canaries}")
    console.print(f"This release: [bold]{result.outcome.status}[/]")
    console.print(f"The same hospital with its films as they were taken: [bold]{result.untouched.status}[/]")
    console.print(f"Report: [bold]{result.report}[/]")
    failed = any(check.outcome is Outcome.FAILED for check in result.verification.checks)
    if result.leaks or failed or result.outcome.status != "passed" or result.untouched.status != "blocked":
        raise typer.Exit(BLOCKED)


def _faces(out: Path, seed: int) -> None:
    from updp.core.questions import Outcome
    from updp.virtual.face_demo import run

    console = make_console()
    with Progress(console) as bar:
        result = run(out, seed=seed, progress=bar)
    print_outcome(console, result.outcome)
    print_checks(console, result.verification.checks)
    add_result(
        status=result.outcome.status,
        untouched=result.untouched.status,
        recovered=result.recovered,
        wrong=result.wrong,
        report=str(result.report),
    )
    own, wrong, exact = (f"[bold]{count}[/]" for count in (result.recovered, result.wrong, result.exact))
    console.print(f"Originals recovered with their own password: {own} of {result.tried}; with the password of another")
    console.print(f"record: {wrong}; exact files from the vault: {exact}")
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
    disease: Annotated[list[str] | None, typer.Option(help="Only this disease; may be given several times.")] = None,
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
    add_result(folder=str(made.folder), people=made.people, photographs=made.photographs, refused=made.refused)
    console = make_console()
    console.print(f"{made.photographs} photographs of {made.people} people in [bold]{made.folder}[/]")
    if made.refused:
        console.print(f"{made.refused} photographs of the source were left out: not exactly one frontal face")


@mema_app.command("build")
def mema_build(
    clinic: Annotated[Path, typer.Argument(help="The clinic's photographs: a source of faces with diseases.")],
    out: Annotated[Path, typer.Argument(help="Where to put the set.")],
    public: Annotated[Path, typer.Option(help="Public faces, whose features are injected: a source of faces.")],
    pack: Annotated[str | None, typer.Option(help="Model pack with a space of faces: a name or a folder.")] = None,
    masks: Annotated[str, typer.Option(help="Pack of faces that masks tumours; empty: no masks.")] = "face128",
    images: Annotated[
        int, typer.Option(min=1, help="Photographs to draw; those too near to a patient are left out.")
    ] = 200,
    judged: Annotated[int, typer.Option(min=1, help="Samples in which leaked patients are counted.")] = 200,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of the training, instead of the recipe's.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the training and of the samples.")] = 0,
) -> None:
    """Generate a set of photographs of patients who do not exist (MeMa); run again to resume its training."""
    from dataclasses import replace

    from updp.cli.session import say
    from updp.domains.face import SPACE_PACK
    from updp.models import load_pack
    from updp.virtual.mema.build import build
    from updp.virtual.mema.training import CONFIG

    config = replace(CONFIG, seed=seed, steps=steps or CONFIG.steps)
    space = load_pack(pack or SPACE_PACK).role("space")
    segmenter: Any = load_pack(masks).role("segmenter") if masks else None
    figures = build(
        clinic, public, out, space, seed=seed, images=images, judged=judged, config=config, segmenter=segmenter, say=say
    )
    add_result(folder=str(out), **figures)
    say(f"{figures['written']} photographs in {out}, {figures['dropped']} left out as too near to a patient")
