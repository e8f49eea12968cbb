"""`updp review` and `updp study`: the review page, and reader studies from plan to figures."""

from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import KeyOption, app, study_app
from updp.cli.console import Progress
from updp.cli.session import add_result, make_console, say

StudyArgument = Annotated[Path, typer.Argument(help="A study folder made by `updp study design`.")]


@app.command()
def review(
    out: Annotated[Path, typer.Argument(help="The output folder of a run: it holds the release and the vault.")],
    study: Annotated[Path | None, typer.Option(help="A study folder; its readers get links of their own.")] = None,
    source: Annotated[Path | None, typer.Option(help="The source, if it is not where the run found it.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this computer; 0 takes a free one.")] = 0,
    proxy: Annotated[
        Path | None, typer.Option(help="TOML file that names the header of a reverse proxy and who its users are.")
    ] = None,
    key: KeyOption = None,
    layout: Annotated[str | None, typer.Option(help="Source layout, if it is not recognised.")] = None,
) -> None:
    """Open the review page: films beside their originals, quarantine, decisions, reader study."""
    from updp.core.keys import Key, default_path
    from updp.review.serve import prepare
    from updp.review.sessions import Proxy

    console = make_console()
    opened = Key.load(key or default_path())
    ready = prepare(
        out, opened,
        study=study, source=source, layout=layout, port=port, proxy=Proxy.load(proxy) if proxy else None,
    )  # fmt: skip
    add_result(links=[{"name": link.name, "address": link.address} for link in ready.links])
    for link in ready.links:
        console.print(f"{link.name}: [bold]{link.address}[/]", soft_wrap=True)
    if proxy:
        console.print(f"listening on {ready.address}; users come through the proxy. Stop with Ctrl-C.")
    else:
        console.print("Each link opens one session on this computer. Stop with Ctrl-C.")
    ready.run()


@study_app.command("design")
def study_design(
    release: Annotated[Path, typer.Argument(help="The output of `updp deidentify`, or the folder of films in it.")],
    source: Annotated[Path | None, typer.Option(help="The source, if it is not where the run found it.")] = None,
    out: Annotated[Path, typer.Option(help="Where the study goes.")] = Path("study"),
    readers: Annotated[int, typer.Option(min=1, help="Readers.")] = 3,
    films: Annotated[int, typer.Option(min=4, help="Patients; each is read as original and as released film.")] = 120,
    design: Annotated[str, typer.Option(help="Kind of study.")] = "blinded-crossover",
    finding: Annotated[
        list[str] | None, typer.Option(help="A finding to ask; may be given several times. Default: the most frequent.")
    ] = None,
    washout: Annotated[
        int | None, typer.Option(min=0, help="Films between two readings of a patient; default: half the patients.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=0, help="Films shown again; default: a tenth.")] = None,
    days: Annotated[int, typer.Option(min=0, help="Days between two sessions.")] = 14,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Readers are a program, which answers at once. Never evidence.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of choice and order.")] = 0,
    key: KeyOption = None,
    vault: Annotated[Path | None, typer.Option(help="The vault, if it is not beside the release.")] = None,
    layout: Annotated[str | None, typer.Option(help="Source layout, if it is not recognised.")] = None,
) -> None:
    """Plan a reader study: which films, for whom, in which order. Says what the study can show."""
    from updp.core.keys import Key, default_path
    from updp.pipeline.run import noted_settings
    from updp.release.assemble import located
    from updp.review.answers import Answers
    from updp.review.design import design as run
    from updp.review.design import nearest, power
    from updp.review.simulate import simulate

    console = make_console()
    opened = Key.load(key or default_path())
    folder = located(release.absolute())
    place = source or noted_settings(folder.parent, opened).get("source")
    if place is None:
        raise typer.BadParameter("give the source with --source; the run did not note it, or under another key")
    with Progress(console) as bar:
        plan = run(
            folder, Path(place), out,
            key=opened, readers=readers, films=films, design=design, findings=finding or (), washout=washout,
            repeats=repeats, days=days, seed=seed, simulated=simulated, vault=vault, layout=layout, progress=bar,
        )  # fmt: skip
    patients = len(plan.films) // 2
    console.print(
        f"{len(plan.readers)} readers, {patients} patients, {len(plan.readers[0].items)} readings each; "
        f"two films of a patient are at least {nearest(plan)} films apart",
        soft_wrap=True,
    )
    console.print(f"findings: {', '.join(plan.findings)}")
    shown = []
    for n, name in enumerate(plan.findings):
        known = {film.patient: film.truth[n] for film in plan.films.values() if film.truth is not None}
        share = sum(known.values()) / len(known) if known else 0.0
        if not 0 < share < 1:
            console.print(f"[yellow]{name}: every film is alike, so kappa is undefined[/]")
            continue
        found = power(patients, len(plan.readers), share)
        needed = {count: power(patients, count, share).needed for count in sorted({1, len(plan.readers), 5, 8})}
        shown.append({"finding": name, "share": share, "margin": found.margin, "patients_needed": needed})
        takes = ", ".join(f"{films} with {count}" for count, films in needed.items())
        console.print(
            f"{name}: {share:.0%} of patients; a mean kappa of 0.85 gets an interval of ± {found.margin:.2f}; "
            f"± 0.05 needs this many patients, by number of readers: {takes}",
            soft_wrap=True,
        )
    add_result(
        study=str(out), plan=plan.digest, readers=len(plan.readers), patients=patients, findings=list(plan.findings),
        power=shown,
    )  # fmt: skip
    if simulated:
        simulate(plan, Answers(out, plan), opened, seed=seed)
        console.print("[yellow]Simulated readers have answered.[/] Their figures are no evidence and say so.")
    console.print(f"study: [bold]{out}[/]", soft_wrap=True)


@study_app.command("pack")
def study_pack(
    study: StudyArgument,
    out: Annotated[Path, typer.Option(help="Where the folders of the readers go.")] = Path("hand-out"),
    reader: Annotated[str | None, typer.Option(help="One reader; default: every one.")] = None,
    key: KeyOption = None,
) -> None:
    """Write a folder for each reader that opens in a browser, without Python and without a network."""
    from updp.core.keys import Key, default_path
    from updp.review.pack import pack

    made = pack(study, out, Key.load(key or default_path()), reader)
    add_result(folders=[str(folder) for folder in made])
    for folder in made:
        say(f"hand-out: {folder}")


@study_app.command("collect")
def study_collect(
    study: StudyArgument,
    files: Annotated[list[Path], typer.Argument(help="Files of answers that readers sent back.")],
    key: KeyOption = None,
) -> None:
    """Take in answers of readers; files that were altered or are of another plan are refused."""
    from updp.core.keys import Key, default_path
    from updp.review.answers import Answers
    from updp.review.plan import load_plan

    opened = Key.load(key or default_path())
    plan = load_plan(study, opened)
    base = Answers(study, plan)
    taken = []
    for path in files:
        reader, count = base.collect(path, opened)
        taken.append({"reader": reader, "new": count, "read": len(base.of(reader))})
        total = len(plan.reader(reader).items)
        say(f"{reader}: {count} new answers, {len(base.of(reader))} of {total} films read")
    add_result(answers=taken)


@study_app.command("analyse")
def study_analyse(
    study: StudyArgument,
    release: Annotated[
        Path | None, typer.Option(help="Write the figures into the evidence of this release and sign it again.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where study.json and study.html go; default: the study.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0,
    key: KeyOption = None,
) -> None:
    """Kappa, AUC, real-or-generated and image quality with intervals; optionally into a release's evidence."""
    from updp.core.keys import Key, default_path
    from updp.release.assemble import located
    from updp.review import analyse as analysis
    from updp.review.plan import load_plan

    console = make_console()
    opened = Key.load(key or default_path())
    plan = load_plan(study, opened)
    found = analysis.analyse(plan, analysis.load_answers(plan, study), seed=seed)
    add_result(study=found.to_json())
    for m in found.measurements:
        console.print(str(m), soft_wrap=True)
    if plan.simulated:
        console.print("[yellow]Simulated readers:[/] these figures are for planning and are no evidence.")
    page = analysis.into_folder(found, out or study)
    console.print(f"page: [bold]{page}[/]", soft_wrap=True)
    if release is not None:
        folder = analysis.into_release(found, located(release.absolute()), opened)
        console.print(f"written into the evidence of [bold]{folder}[/], signed again", soft_wrap=True)
