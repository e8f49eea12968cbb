"""`updp bench`: models and methods on real data, beside published figures."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated

import typer

from updp.cli.app import bench_app
from updp.cli.console import apart_of, planned
from updp.cli.options import (
    AddressOption,
    LayoutOption,
    OptionOption,
    PackOption,
    ProbeEngineOption,
    ProbeWorkersOption,
    SeedOption,
    SourceOption,
    SourcesOption,
    StrengthsOption,
    TakenOption,
)
from updp.cli.session import add_result, say

ShareOption = Annotated[
    str | None, typer.Option("--part", help="A share of the settings, as 2/5, without tables: for several processes.")
]


@bench_app.command("pack")
def bench_pack(
    data: SourcesOption,
    pack: PackOption = None,
    part: Annotated[list[str] | None, typer.Option(help="Measure these parts only.")] = None,
    judge: Annotated[
        str | None, typer.Option(help="Another pack, whose classifier judges the part `listening`.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Keep decoded films here.")] = None,
    pictures: Annotated[Path | None, typer.Option(help="Write sample images and histograms here.")] = None,
) -> None:
    """Measure a model pack on patients it was not trained on."""
    from updp.bench.pack import QUICK
    from updp.bench.pack import bench_pack as measure
    from updp.domains.chest import PACK
    from updp.models import load_pack

    network = load_pack(judge).classifier if judge else None
    add_result(pack=pack or PACK)
    measure(pack or PACK, data, part or QUICK, judge=network, cache=cache, pictures=pictures, say=say)


@bench_app.command("methods")
def bench_methods(
    data: SourceOption,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; may be given several times. Default: keep, dp-pix, updp.")
    ] = None,
    option: OptionOption = None,
    strength: StrengthsOption = None,
    plan: Annotated[
        Path | None, typer.Option(help="Methods with options and strengths of their own (TOML), instead of --method.")
    ] = None,
    films: TakenOption = 2000,
    tables: Annotated[
        str, typer.Option(help="evidence, identity, privdiff, skill, reports (needs a source with reports).")
    ] = "evidence",
    out: Annotated[Path, typer.Option(help="Where tables and the picture go; run again to resume.")] = Path("methods"),
    pack: PackOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small attackers, in minutes.")] = False,
    layout: LayoutOption = None,
    domain: Annotated[str | None, typer.Option(help="Kind of image, if the source does not say it.")] = None,
    part: ShareOption = None,
    engine: ProbeEngineOption = "local",
    address: AddressOption = None,
    workers: ProbeWorkersOption = None,
    seed: SeedOption = 0,
) -> None:
    """Every method on the same real patients, beside the published figures."""
    from updp.bench.methods import bench_methods as measure

    share = _share(part)
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
        apart=apart_of(engine, address, workers),
        part=share,
        say=say,
    )
    if share is not None:
        add_result(folder=str(out))
        return
    add_result(folder=str(out), tables=str(out / "methods.md"))
    say(f"tables: {out / 'methods.md'}")


@bench_app.command("faces")
def bench_faces(
    data: SourcesOption,
    method: Annotated[list[str] | None, typer.Option(help="A method; may be given several times. Default: all.")] = (
        None
    ),
    option: OptionOption = None,
    plan: Annotated[
        Path | None, typer.Option(help="Methods with options and strengths of their own (TOML), instead of --method.")
    ] = None,
    people: Annotated[int, typer.Option(min=10, help="Reserved people, at most.")] = 1000,
    visits: Annotated[int, typer.Option(min=1, help="Photographs of each beside the ID photo, at most.")] = 2,
    taught: Annotated[int, typer.Option(min=10, help="Photographs that attackers and judges learn from.")] = 240,
    out: Annotated[Path, typer.Option(help="Where tables go; run again to resume.")] = Path("faces"),
    pack: PackOption = None,
    part: ShareOption = None,
    seed: SeedOption = 0,
) -> None:
    """Every face method by its knob on people nobody trained on, beside MedSem-DeID's tables."""
    from updp.bench.faces import bench_faces as measure

    methods = planned(method, option, plan)
    share = _share(part)
    measure(data, out.absolute(), methods=methods, pack=pack, people=people, visits=visits, taught=taught, seed=seed,
            part=share, say=say)  # fmt: skip
    if share is not None:
        add_result(folder=str(out))
        return
    add_result(folder=str(out), tables=str(out / "faces.md"))
    say(f"tables: {out / 'faces.md'}")


def _share(text: str | None) -> tuple[int, int] | None:
    """``2/5`` as numbers."""
    if text is None:
        return None
    one, _, of = text.partition("/")
    if not (one.isdecimal() and of.isdecimal() and 1 <= int(one) <= int(of)):
        raise typer.BadParameter("--part is a share as 2/5")
    return int(one), int(of)


#: Benches of UPDP's prompts on validation films: what measures, and the words of its help.
_PROMPT_BENCHES = {
    "ablation": ("updp.bench.ablation:bench_ablation", "What each part of UPDP's prompt search adds."),
    "epsilon": (
        "updp.bench.epsilon:bench_epsilon",
        "Similarity to the film by privacy budget, in mode ldp of UPDP, from epsilon 1 to 100.",
    ),
    "generated": (
        "updp.bench.generated:bench_generated",
        "UPDP's Table 3 and Figures 4 and 5 on generated films, as printed and by default; run again to resume.",
    ),
}


def _add_prompt_bench(name: str, place: str, words: str) -> None:
    @bench_app.command(name, help=words)
    def bench(
        data: SourcesOption,
        out: Annotated[Path, typer.Option(help="Where tables and pictures go.")] = Path(name),
        pack: PackOption = None,
        judge: Annotated[
            str | None, typer.Option(help="A second vlm, which is never optimised: a judge file or another pack.")
        ] = None,
        films: Annotated[int, typer.Option(min=2, help="Validation films of each source.")] = 64,
    ) -> None:
        from updp.domains.chest import PACK

        measure = resolve_name(place)
        measure(data, out, pack=pack or PACK, judge=judge, films=films, say=say)
        add_result(folder=str(out))


for _name, (_place, _words) in _PROMPT_BENCHES.items():
    _add_prompt_bench(_name, _place, _words)


@bench_app.command("identity")
def bench_identity(
    data: Annotated[Path, typer.Option(help="A source with several films per patient that the pack learned from.")],
    out: Annotated[Path, typer.Option(help="Where the table goes; run again to resume.")] = Path("identity"),
    pack: PackOption = None,
    strength: Annotated[float, typer.Option(min=0.0, max=1.0, help="Strength of UPDP.")] = 0.0,
    patients: Annotated[int, typer.Option(min=3, help="Patients to name in each group.")] = 50,
    quick: Annotated[bool, typer.Option("--quick", help="Small attackers, in minutes.")] = False,
    layout: LayoutOption = None,
) -> None:
    """UPDP's identity experiment: patients the generator was trained on, and others."""
    from updp.bench.identity import bench_identity as measure

    measure(data, out.absolute(), pack=pack, strength=strength, patients=patients, quick=quick, layout=layout, say=say)
    add_result(folder=str(out))
    say(f"table: {out / 'identity.md'}")


@bench_app.command("reports")
def bench_reports(
    data: Annotated[Path, typer.Option(help="A source with reports.")],
    vlm: Annotated[Path, typer.Option(help="Folder of Qwen2.5-VL, Gemma-3 or Phi-3.5-vision.")],
    out: Annotated[Path, typer.Option(help="Where the table goes; run again to resume.")] = Path("reports"),
    method: Annotated[str, typer.Option(help="The method that de-identifies.")] = "updp",
    option: OptionOption = None,
    strength: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Strength of the method.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of the fine-tuning, as key=value, instead of the paper's.")
    ] = None,
    films: TakenOption = 2000,
    scored: Annotated[int, typer.Option(min=5, help="Films to write reports for.")] = 250,
    pack: PackOption = None,
    device: Annotated[str, typer.Option(help="Where the model runs.")] = "cuda",
    precision: Annotated[str, typer.Option(help="bfloat16, float16 or float32.")] = "bfloat16",
    trust_code: Annotated[bool, typer.Option("--trust-code", help="Run Python that the folder brings.")] = False,
    bertscore: Annotated[Path | None, typer.Option(help="Folder of the encoder of BERTScore.")] = None,
    bertscore_layer: Annotated[int, typer.Option(min=1, help="Layer of that encoder.")] = 5,
    bertscore_baseline: Annotated[
        Path | None, typer.Option(help="Baseline (TSV) that rescales BERTScore; else it is not rescaled.")
    ] = None,
    radgraph: Annotated[Path | None, typer.Option(help="Folder that holds radgraph-xl, for RadGraph-F1.")] = None,
    layout: LayoutOption = None,
) -> None:
    """UPDP's Tables 1 and 2: a large model writes reports after learning in four regimes."""
    from updp.bench.reports import bench_reports as measure
    from updp.bench.reports import lora_settings
    from updp.cli.console import read_options
    from updp.evaluation.probes.utility.text_metrics import Weights

    if bertscore_baseline is not None and bertscore is None:
        raise typer.BadParameter("--bertscore-baseline needs --bertscore")
    measure(
        data,
        vlm,
        out.absolute(),
        method=planned([method], option)[0],
        strength=strength,
        lora=lora_settings(read_options(setting or ())),
        films=films,
        scored=scored,
        pack=pack,
        device=device,
        precision=precision,
        trust_code=trust_code,
        weights=Weights(bertscore, bertscore_layer, bertscore_baseline, radgraph),
        layout=layout,
        say=say,
    )
    add_result(folder=str(out))
    say(f"table: {out / 'reports.md'}")


@bench_app.command("frontier")
def bench_frontier(
    data: SourceOption,
    out: Annotated[Path, typer.Option(help="Where table and picture go; run again to resume.")] = Path("frontier"),
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be given several times.")] = None,
    plan: Annotated[Path | None, typer.Option(help="Methods, options and strengths (TOML) instead of all.")] = None,
    weights: Annotated[str | None, typer.Option(help="Pack of method weights for the learned methods.")] = None,
    films: TakenOption = 2000,
    pack: PackOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small attackers, in minutes per setting.")] = False,
    layout: LayoutOption = None,
    part: ShareOption = None,
    seed: SeedOption = 0,
) -> None:
    """Every method at several strengths on unseen patients: one table, one picture, hypervolumes."""
    from updp.bench.frontier import bench_frontier as measure
    from updp.evaluation.cohort.settings import read_plan

    plans = None if plan is None else read_plan(plan)
    share = _share(part)
    measure(
        data, out.absolute(), plans=plans, names=method, weights=weights, films=films, pack=pack, quick=quick,
        seed=seed, layout=layout, part=share, say=say,
    )  # fmt: skip
    if share is not None:
        add_result(folder=str(out))
        return
    add_result(folder=str(out), table=str(out / "frontier.md"))
    say(f"table: {out / 'frontier.md'}")


@bench_app.command("rate")
def bench_rate(
    data: Annotated[Path, typer.Option(help="A source with labels and several films per patient.")],
    out: Annotated[Path, typer.Option(help="Where the table and the picture go.")] = Path("rate"),
    pack: PackOption = None,
    weights: Annotated[str | None, typer.Option(help="Pack of method weights.")] = None,
    films: TakenOption = 1000,
    layout: LayoutOption = None,
) -> None:
    """How much the code of DCM-DeID reveals of findings and identity, by its length in bits."""
    from updp.bench.rate import bench_rate as measure
    from updp.domains.chest import METHOD_WEIGHTS, PACK

    measure(
        data, out.absolute(), pack=pack or PACK, weights=weights or METHOD_WEIGHTS, films=films, layout=layout, say=say
    )
    add_result(folder=str(out))


@bench_app.command("privdiff")
def bench_privdiff(
    data: Annotated[Path, typer.Option(help="A source with labels and several films per patient.")],
    out: Annotated[Path, typer.Option(help="Where the table goes.")] = Path("privdiff"),
    pack: PackOption = None,
    weights: Annotated[str | None, typer.Option(help="Pack of method weights.")] = None,
    patients: Annotated[int, typer.Option(min=3, help="Patients, a film of each.")] = 64,
    strength: StrengthsOption = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the sampler.")] = 12,
    seed: SeedOption = 0,
    layout: LayoutOption = None,
) -> None:
    """Where identity passes in PrivDiff-Net, and what suppression and guidance can reach."""
    from updp.bench.privdiff import STRENGTHS
    from updp.bench.privdiff import bench_privdiff as measure
    from updp.domains.chest import METHOD_WEIGHTS, PACK

    measure(
        data,
        out.absolute(),
        pack=pack or PACK,
        weights=weights or METHOD_WEIGHTS,
        patients=patients,
        strengths=strength or STRENGTHS,
        steps=steps,
        seed=seed,
        layout=layout,
        say=say,
    )
    add_result(folder=str(out), table=str(out / "privdiff.md"))
