"""`updp train method`: the learned methods, trained on films with a pack's models, resumable, into a pack of weights.

A pack of method weights is a folder like any pack, with a table `methods` instead of roles; one folder gathers any
number of methods. Each entry names the digests of the models it learned with, and is refused with others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.registry import unknown
from updp.domains.chest import FIRST_PACK, PACK
from updp.methods import LEARNED, pack_of

if TYPE_CHECKING:
    from torch import nn

    from updp.models.pack import Pack
    from updp.training.corpus import Corpus

#: film id of the corpus -> age and sex, where the source says them
People = dict[str, tuple[int | None, str | None]]


class UnknownRecipe(ValueError):
    """No method of that name learns, or its settings are wrong."""


def train_method(
    name: str,
    data: Sequence[str | Path],
    out: Path | str,
    *,
    pack: str | Path | None = None,
    run: Path | str | None = None,
    corpus: Corpus | None = None,
    settings: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    accelerator: Any = None,
    stop_after: float | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Train method ``name`` on ``data`` and add its weights to the pack of method weights ``out``.

    ``pack`` is that of the method unless it is given. Checkpoints are in ``run`` (default: ``out`` + ".run"); calling
    again goes on where it stopped. ``settings`` changes keys of the recipe's schedule (`steps`, `batch`, `rate`, …),
    ``model`` the sizes of the network. ``corpus`` takes films decoded before instead of decoding ``data``, of which
    then only ages and sexes are read.
    """
    if name not in LEARNED:
        raise UnknownRecipe(unknown("method that learns", name, LEARNED))
    from updp.core.global_state import seeded
    from updp.models.pack import load_pack
    from updp.training.corpus import prepare_corpus, rule_of
    from updp.training.loop import read_checkpoint, run_stage
    from updp.training.recipe import read_films

    out = Path(out)
    run = Path(run) if run is not None else out.with_name(out.name + ".run")
    own = pack_of(name, {}, PACK)
    opened = load_pack(pack or (PACK if own == FIRST_PACK else own) or PACK)
    place, cls = LEARNED[name].split(":")
    recipe = import_module(place)
    try:
        config = replace(recipe.CONFIG, **(settings or {}))
    except TypeError as error:
        raise UnknownRecipe(f"recipe of {name}: {error}") from None
    if corpus is None and hasattr(recipe, "prepare"):  # of another domain than films
        corpus = recipe.prepare(data, run, opened, say)
    if corpus is None:
        size, rule = int(opened.info.get("size", 256)), rule_of(opened)
        corpus = prepare_corpus(read_films(data), run / "corpus", size, rule=rule)
    with seeded(config.seed):
        stage = getattr(recipe, cls)(
            corpus, config, opened, dict(model or {}), directory=run / "stages", people=people_of(data), say=say
        )
        averaged = run_stage(
            stage,
            config,
            run / "stages",
            build=stage.build,
            accelerator=accelerator,
            say=say,
            stop_after=stop_after,
        ).cpu()
    state = read_checkpoint(run / "stages" / f"{name}.checkpoint")
    steps = int(state["step"]) if state else 0
    export_method(name, stage.trained(averaged), opened, out, stage.uses, corpus.record_of_splits(), steps)
    return out


def people_of(data: Sequence[str | Path]) -> People:
    """Ages and sexes by the film ids of a corpus made from the same sources in the same order."""
    from updp.sources import Refusal, open_sources

    people: People = {}
    for name, source in open_sources(data):
        for study in source:
            if not isinstance(study, Refusal):
                people[f"{name}/{study.film_id}"] = (study.age, study.sex)
    return people


def export_method(
    name: str,
    module: nn.Module,
    pack: Pack,
    out: Path,
    uses: Sequence[str],
    splits: Mapping[str, Any] | None = None,
    steps: int = 0,
) -> None:
    """Add a network to the pack of method weights ``out``, or replace the one of that name. What a method that is bound
    to the pack's generator did not change in it is not written a second time."""
    from updp.methods.card import card
    from updp.methods.learned import borrowed, digests
    from updp.models.pack import load_pack, restate_pack, write_pack_toml
    from updp.models.weights import save_weights

    out.mkdir(parents=True, exist_ok=True)
    if not (out / "pack.toml").exists():
        write_pack_toml(out, {"name": out.name, "licence": pack.info.get("licence", "see the card"), "roles": {}})
    file = f"{name}.safetensors"
    same = borrowed(pack) if "generator" in uses and hasattr(module, "unet") else {}
    own = {name: value.half() for name, value in module.state_dict().items() if name in same}
    left_out = {name for name, value in own.items() if value.equal(same[name].half())}
    save_weights(module, out / file, left_out)
    bound = digests(pack)
    entry = {
        "file": file,
        "config": module.config,
        "trained_with": {role: bound[role] for role in bound if role in uses},
        "steps": steps,
    }
    if left_out:
        entry["borrows"] = "generator"
    if splits is not None:  # of each method: they may have learned from different sources
        entry["splits"] = dict(splits)
    methods = {**load_pack(out, verify=False).info.get("methods", {}), name: entry}
    restate_pack(out, card, name=out.name, size=pack.info.get("size", 256), roles={}, methods=methods)
