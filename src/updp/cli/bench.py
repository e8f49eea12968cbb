"""`updp bench`: models and methods on real data, beside published figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from updp.cli.app import bench_app
from updp.cli.console import OptionOption, StrengthOption, planned
from updp.cli.session import say, told


@bench_app.command("pack")
def bench_pack(
    data: Annotated[list[Path], typer.Option(help="A source; may be given several times.")],
    pack: Annotated[str | None, typer.Option(help="Name or folder of a pack.")] = None,
    part: Annotated[list[str] | None, typer.Option(help="Measure these parts only.")] = None,
    judge: Annotated[
        str | None, typer.Option(help="Another pack, whose classifier judges the part `listening`.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Keep decoded films here.")] = None,
    pictures: Annotated[Path | None, typer.Option(help="Write sample sheets and histograms here.")] = None,
) -> None:
    """Measure a model pack on patients it was not trained on."""
    from updp.bench.pack import QUICK
    from updp.bench.pack import bench_pack as measure
    from updp.domains.chest import PACK
    from updp.models import load_pack

    network = load_pack(judge).classifier if judge else None
    told(pack=pack or PACK)
    measure(pack or PACK, data, part or QUICK, judge=network, cache=cache, pictures=pictures, say=say)


@bench_app.command("ablation")
def bench_ablation(
    data: Annotated[list[Path], typer.Option(help="A source; may be given several times.")],
    out: Annotated[Path, typer.Option(help="Where tables and pictures go.")] = Path("ablation"),
    pack: Annotated[str | None, typer.Option(help="Name or folder of a pack.")] = None,
    judge: Annotated[
        str | None, typer.Option(help="A second vlm that scores the prompts: a judge file or another pack.")
    ] = None,
    films: Annotated[int, typer.Option(min=2, help="Validation films of each source.")] = 64,
) -> None:
    """What each part of UPDP's prompt search adds."""
    from updp.bench.ablation import bench_ablation as measure
    from updp.domains.chest import PACK

    measure(data, out, pack=pack or PACK, judge=judge, films=films, say=say)
    told(folder=str(out))


@bench_app.command("methods")
def bench_methods(
    data: Annotated[Path, typer.Option(help="A source of real films.")],
    method: Annotated[
        list[str] | None, typer.Option(help="A method; may be given several times. Default: keep, dp-pix, updp.")
    ] = None,
    option: OptionOption = None,
    strength: StrengthOption = None,
    plan: Annotated[
        Path | None, typer.Option(help="Methods with options and strengths of their own (TOML), instead of --method.")
    ] = None,
    films: Annotated[int, typer.Option(min=20, help="Films to take.")] = 2000,
    tables: Annotated[str, typer.Option(help="identity, privdiff, reports (needs a source with reports).")] = (
        "identity,privdiff"
    ),
    out: Annotated[Path, typer.Option(help="Where tables and the picture go; run again to resume.")] = Path("methods"),
    pack: Annotated[str | None, typer.Option(help="Name or folder of a pack.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small attackers, in minutes.")] = False,
    layout: Annotated[str | None, typer.Option(help="Source layout, if it is not recognised.")] = None,
    domain: Annotated[str | None, typer.Option(help="Kind of image, if the source does not say it.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
) -> None:
    """Every method on the same real patients, beside the published figures."""
    from updp.bench.methods import bench_methods as measure

    measure(
        data,
        out.absolute(),
        methods=planned(method, option, plan, ("keep", "dp-pix", "updp")),
        strengths=strength,
        films=films,
        tables=tables.split(","),
        pack=pack,
        quick=quick,
        seed=seed,
        layout=layout,
        domain=domain,
        say=say,
    )
    told(folder=str(out), tables=str(out / "methods.md"))
    say(f"tables: {out / 'methods.md'}")
