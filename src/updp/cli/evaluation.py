"""`updp evaluate` and `tune`: how private and how useful a release is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from updp.cli.app import BLOCKED, WRONG_USE, KeyOption, app
from updp.cli.console import apart_of, megabytes, planned, print_checks
from updp.cli.options import (
    AddressOption,
    ExportArgument,
    LayoutOption,
    OptionOption,
    ProbeEngineOption,
    ProbeWorkersOption,
    ReleaseArgument,
    SeedOption,
    StrengthsOption,
    VaultOption,
)
from updp.cli.session import add_result, make_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from updp.evaluation.evaluate import Evaluation


@app.command()
def evaluate(
    release: ReleaseArgument,
    source: Annotated[Path | None, typer.Option(help="The source it was made from.")] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Judge the figures in the release by the [gate] of this policy; measure nothing again."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a report with real films here, for the hospital only, and do not change the release."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer films, smaller attackers; the report lists what is left out.")
    ] = False,
    pack: Annotated[
        str | None, typer.Option(help="Model pack of attackers and judges, a name or a folder; default: the release's.")
    ] = None,
    frontier: Annotated[
        list[Path] | None, typer.Option(help="frontier.json of `updp tune` or `updp bench methods` to show beside it.")
    ] = None,
    key: KeyOption = None,
    vault: VaultOption = None,
    layout: LayoutOption = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Keeps films and trained attackers for the next release; default: ~/.cache/updp."),
    ] = None,
    engine: ProbeEngineOption = "local",
    address: AddressOption = None,
    workers: ProbeWorkersOption = None,
    seed: SeedOption = 0,
) -> None:
    """Run attacks on a release and measure its usefulness.

    The verdict and its evidence are written to evaluation.json and report.html.
    """
    from updp.core.cache import size_of
    from updp.core.policy import Policy
    from updp.evaluation.evaluate import evaluate as run
    from updp.evaluation.rejudge import rejudge
    from updp.evaluation.report import read_frontier

    console = make_console()
    if (policy is None) == (source is None):
        raise typer.BadParameter("give --source to measure, or --policy to judge what was measured")
    if policy is not None:
        _report(console, rejudge(release, Policy.load(policy), key=key))
        return
    assert source is not None
    result = run(
        release,
        source,
        key=key,
        out=out,
        pack=pack,
        quick=quick,
        seed=seed,
        cache=cache,
        vault=vault,
        layout=layout,
        frontier=[point for path in frontier or () for point in read_frontier(path)],
        progress=lambda name, done, total: console.print(f"{done + 1}/{total} {name}") if name else None,
        apart=apart_of(engine, address, workers),
    )
    held, option = megabytes(size_of(result.cache)), f" --cache {cache}" if cache else ""
    words = f"Real films are kept in {result.cache} ({held}); `updp cache clear{option}` removes them."
    console.print(words, soft_wrap=True)
    _report(console, result)


def _report(console: "Console", result: "Evaluation") -> None:
    print_checks(console, result.verdict.checks)
    add_result(
        status=result.status,
        folder=str(result.folder),
        report=str(result.report),
        measurements=[m.to_json() for m in result.measurements],
    )
    console.print(f"{len(result.measurements) - len(result.missing)} figures, {len(result.missing)} not measured")
    console.print(f"[bold]{result.status}[/]; report: [bold]{result.report}[/]", soft_wrap=True)
    if result.status == "blocked":
        raise typer.Exit(BLOCKED)


@app.command()
def tune(
    source: ExportArgument,
    method: Annotated[str, typer.Option(help="De-identification method.")] = "updp",
    option: OptionOption = None,
    max_linkage: Annotated[
        float | None, typer.Option(min=0.5, max=1.0, help="Bound of film linkage; default: the policy's.")
    ] = None,
    min_utility: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Bound of the skill kept; default: the policy's.")
    ] = None,
    strength: StrengthsOption = None,
    films: Annotated[int, typer.Option(min=20, help="Films to try them on.")] = 600,
    out: Annotated[Path, typer.Option(help="Where frontier.json and the picture go.")] = Path("frontier"),
    pack: Annotated[str | None, typer.Option(help="Model pack: a name or a folder.")] = None,
    layout: LayoutOption = None,
    domain: Annotated[str | None, typer.Option(help="Kind of image, if the source does not say it.")] = None,
    engine: ProbeEngineOption = "local",
    address: AddressOption = None,
    workers: ProbeWorkersOption = None,
    seed: SeedOption = 0,
) -> None:
    """Measure a method at several strengths on a source, and print the strength to use."""
    from updp.evaluation.tune import tune as run

    found = run(
        source,
        out=out,
        method=planned([method], option)[0],
        strengths=strength,
        max_linkage=max_linkage,
        min_utility=min_utility,
        films=films,
        pack=pack,
        seed=seed,
        layout=layout,
        domain=domain,
        say=say,
        apart=apart_of(engine, address, workers),
    )
    add_result(strength=found.strength, advice=found.advice, points=list(found.points), folder=str(found.folder))
    say(found.advice)
    say(f"frontier: {found.folder / 'frontier.json'}")
    if not found.points:  # no strength could be measured: there is no frontier
        raise typer.Exit(WRONG_USE)
    if found.strength is None and all(point["strength"] is not None for point in found.points):
        raise typer.Exit(BLOCKED)


@app.command()
def certify(
    data: Annotated[list[Path], typer.Option(help="A source whose patients trained neither method nor pack.")],
    method: Annotated[str, typer.Option(help="De-identification method.")] = "updp",
    policy: Annotated[Path | None, typer.Option(help="Policy whose [method] is certified, not --method.")] = None,
    strength: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Strength; default: the method's.")] = None,
    films: Annotated[int, typer.Option(min=20, help="Films per source.")] = 2000,
    out: Annotated[Path, typer.Option(help="Where the signed certificate goes.")] = Path("certificate.json"),
    work: Annotated[Path | None, typer.Option(help="Keeps films and attackers, so that a run can be resumed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer films and attackers.")] = False,
    domain: Annotated[str | None, typer.Option(help="Kind of image, if it is not chest films.")] = None,
    key: KeyOption = None,
    engine: ProbeEngineOption = "local",
    address: AddressOption = None,
    workers: ProbeWorkersOption = None,
    seed: SeedOption = 0,
) -> None:
    """Measure a method on a large cohort and sign the result.

    The certificate is for releases too small to be measured.
    """
    from updp.core.keys import Key, default_path
    from updp.core.policy import MethodPolicy, Policy
    from updp.evaluation.certify import certify as run

    console = make_console()
    chosen = Policy.load(policy).method if policy else MethodPolicy(name=method, strength=strength)
    opened, _ = Key.load_or_create(key or default_path())
    made = run(
        data,
        chosen,
        out,
        key=opened,
        films=films,
        quick=quick,
        domain=domain,
        seed=seed,
        work=work,
        apart=apart_of(engine, address, workers),
        say=console.print,
    )
    add_result(certificate=str(out), measurements=[m.to_json() for m in made.measurements])
    for m in made.measurements:
        console.print(str(m))
    console.print(f"certificate: [bold]{out}[/]", soft_wrap=True)
