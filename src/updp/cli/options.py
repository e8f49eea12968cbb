"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ExportArgument = Annotated[Path, typer.Argument(help="The export: a folder in a known layout, or a manifest file.")]
ReleaseArgument = Annotated[Path, typer.Argument(help="The output of `updp deidentify`, or the folder of films in it.")]
LayoutOption = Annotated[str | None, typer.Option(help="Source layout, if it is not recognised.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Take the first N films only.")]
MethodOption = Annotated[str | None, typer.Option(help="De-identification method (see `updp methods`).")]
OptionOption = Annotated[
    list[str] | None,
    typer.Option("--option", help="An option of the method, as key=value; may be given several times."),
]
PackOption = Annotated[str | None, typer.Option(help="Name or folder of a pack.")]
PolicyOption = Annotated[
    Path | None, typer.Option(help="Policy file (TOML), or a preset: strict, research, clean-only.")
]
RecipientOption = Annotated[
    str | None, typer.Option(help="Who will receive it: pseudonyms differ from those of other recipients.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of all random numbers.")]
SourceOption = Annotated[Path, typer.Option(help="A source of real films.")]
SourcesOption = Annotated[list[Path], typer.Option(help="A source; may be given several times.")]
StrengthsOption = Annotated[
    list[float] | None,
    typer.Option("--strength", min=0.0, max=1.0, help="A strength to try; may be given several times."),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Exit with 4 if any study was quarantined.")]
TakenOption = Annotated[int, typer.Option(min=20, help="Films to take.")]
VaultOption = Annotated[Path | None, typer.Option(help="The vault, if it is not beside the release.")]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per core.")]

# Where shards run.
EngineOption = Annotated[str, typer.Option(help="Where shards run: local, or ray (a cluster).")]
AddressOption = Annotated[str | None, typer.Option(help="Engine ray: the cluster's address; default: auto.")]
GpusOption = Annotated[float | None, typer.Option(min=0, help="Engine ray: the part of a GPU a worker takes.")]
PinOption = Annotated[str | None, typer.Option(help="Engine ray: the instruction set all workers compute with (avx2).")]

# Where attacks and measures run.
ProbeEngineOption = Annotated[str, typer.Option(help="Where attacks run: local, or ray (a cluster).")]
ProbeWorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Attacks at a time; default: one, on a cluster one per core.")
]
