"""`updp bench pack`: what a pack can do, measured on patients it was not trained on.

Figures are on validation patients; the identity gallery of 400 needs the test patients as well, which no stage and no
choice used. A metric has a name of its own where the published one needs weights that are not installed: FD-classifier
is a Fréchet distance in the classifier's features, not FID.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from updp.core.registry import unknown
from updp.domains.chest.labels import FINDINGS
from updp.domains.chest.words import compose
from updp.evaluation.probes.attacks.features import IMAGENET
from updp.evaluation.probes.utility.image_metrics import (
    frechet,
    frechet_without_bias,
    precision_recall_density_coverage,
)
from updp.models.backbone import has_imagenet, imagenet_encoder
from updp.models.lpips import has_trunk, installed_weights, read_trunk, trunk_features
from updp.models.pack import Pack, load_pack
from updp.training.classifier import ClassifierStage
from updp.training.codes import Codes, codes_of, films_of, in_parts, nearest, pixel_codes
from updp.training.config import BadConfig, PackConfig
from updp.training.corpus import Corpus, prepare_corpus, rule_of
from updp.training.figures import auc, aucs, mean_auc, psnr, relative_power, ssim
from updp.training.identity import IdentityStage, identity_figures
from updp.training.listening import listening_figures
from updp.training.loop import run_stage
from updp.training.phantoms import phantom_figures
from updp.training.prompts import findings_first
from updp.training.recipe import read_films
from updp.training.sheet import write_sheet
from updp.training.vlm import film_features, vlm_figures

if TYPE_CHECKING:
    from updp.models.roles import ClassifierRole

PARTS = (
    *("autoencoder", "phantoms", "classifier", "identity", "vlm", "generator", "copies", "membership", "speed"),
    *("listening", "useful", "curves"),
)
QUICK = PARTS[:-3]  # of the others one needs a judge and two train models
VGG16 = "vgg16"  # features of a network that takes no part in any training here
Figures = dict[str, float]
Say = Callable[[str], None]


@torch.no_grad()
def bench_autoencoder(pack: Pack, corpus: Corpus, rng: np.random.Generator) -> Figures:
    """Fidelity, and what a classifier and an identity net lose through it."""
    rows = corpus.rows("val")
    films = films_of(corpus, rows)
    model: Any = pack.autoencoder
    again = torch.cat([model.decode(model.encode(films[i : i + 32])) for i in range(0, len(films), 32)])
    figures = {"psnr": float(psnr(films, again).mean()), "ssim": float(ssim(films, again).mean())}
    # An edge between blocks should differ no more than its neighbours inside: 1 means that no block is visible.
    error = (again - films).abs()
    jump = (again - films).diff(dim=-1).abs().mean((0, 1, 2))
    border = torch.arange(len(jump)) % 16 == 15
    figures["block edge ratio"] = float(jump[border].mean() / jump[~border].mean())
    figures["mean absolute error"] = float(error.mean())
    labels = corpus.labels[rows]
    for name, seen in (("real", films), ("through", again)):
        scores = in_parts(pack.classifier.probabilities, seen)
        figures[f"classifier auc {name}"] = mean_auc(labels, scores)
        embedded = in_parts(pack.identity.embed, seen)
        figures[f"identity auc {name}"] = identity_figures(embedded, corpus.patients[rows], np.random.default_rng(0))[
            "auc"
        ]
    return figures


def bench_phantoms(pack: Pack, corpus: Corpus, rng: np.random.Generator, films: int = 64) -> Figures:
    """Nodule phantoms through the autoencoder."""
    rows = np.sort(rng.permutation(corpus.rows("val"))[:films])
    model: Any = pack.autoencoder
    return phantom_figures(lambda x: model.decode(model.encode(x)), films_of(corpus, rows), rng)


def bench_listening(
    pack: Pack, corpus: Corpus, rng: np.random.Generator, judge: ClassifierRole, pairs: int = 40, **options: Any
) -> Figures:
    """Films generated with and without each finding, by side and by size, scored by another network than the pack's."""
    rows = np.flatnonzero((corpus.splits != "train") & corpus.labelled())
    real = (films_of(corpus, rows), corpus.labels[rows]) if len(rows) else None
    return listening_figures(pack.generator, judge, FINDINGS, rng, pairs, real, **options)


def bench_classifier(pack: Pack, corpus: Corpus, rng: np.random.Generator) -> Figures:
    """AUC of each finding on validation films, all sources together, and on the test patients of ChestX-ray14."""
    figures: Figures = {}
    for split in ("val", "test"):
        rows = np.flatnonzero((corpus.splits == split) & corpus.labelled())
        if len(rows) == 0:
            continue
        scores = in_parts(pack.classifier.probabilities, films_of(corpus, rows))
        each = aucs(corpus.labels[rows], scores)
        figures[f"mean auc {split}"] = mean_auc(corpus.labels[rows], scores)
        figures[f"findings counted {split}"] = float((~np.isnan(each)).sum())
        if split == "val":
            figures.update({f"auc {n}": float(v) for n, v in zip(FINDINGS, each, strict=True) if v == v})
    return figures


def bench_identity(pack: Pack, corpus: Corpus, rng: np.random.Generator) -> Figures:
    """Verification and rank-1 on validation patients, and again with the test patients for a gallery of 400."""
    figures: Figures = {}
    unseen = np.flatnonzero(corpus.splits != "train")
    # Patients of single-film sources can only be impostors; the gallery takes those with a second film first.
    for name, rows in (("val", corpus.rows("val")), ("val and test", unseen)):
        embedded = in_parts(pack.identity.embed, films_of(corpus, rows))
        measured = identity_figures(embedded, corpus.patients[rows], np.random.default_rng(0))
        figures.update({f"{k} {name}": v for k, v in measured.items()})
    return figures


def bench_vlm(pack: Pack, corpus: Corpus, rng: np.random.Generator) -> Figures:
    rows = corpus.rows("val")
    vlm: Any = pack.vlm
    return vlm_figures(vlm, corpus, rows, film_features(vlm, corpus, rows))


def prompts_for(corpus: Corpus, rows: NDArray[np.int64], rng: np.random.Generator) -> list[str]:
    """What each film's report says, findings first, or its labels in words."""
    out = []
    for row in rows:
        own = corpus.sentences[row]
        out.append(" ".join(findings_first(own)) if own else compose(corpus.findings(row), str(corpus.views[row]), rng))
    return out


def generate_for(
    pack: Pack, corpus: Corpus, rows: NDArray[np.int64], rng: np.random.Generator, **options: Any
) -> Tensor:
    seeds = [int(s) for s in rng.integers(2**31, size=len(rows))]
    return pack.generator.generate(prompts_for(corpus, rows, rng), seeds, **options)


def bench_generator(
    pack: Pack, corpus: Corpus, rng: np.random.Generator, films: int = 320, made: Tensor | None = None, **options: Any
) -> Figures:
    """Whether the films show what their prompts ask for, and are distributed like real ones."""
    rows = rng.permutation(np.flatnonzero((corpus.splits == "val") & corpus.labelled()))
    half = min(films, len(rows) // 2)
    first, second = rows[:half], rows[half : 2 * half]
    classifier: Any = pack.classifier
    made = generate_for(pack, corpus, first, rng, **options) if made is None else made
    asked = corpus.labels[first]
    figures = {
        "films": float(half),
        "auc of prompt findings": mean_auc(asked, in_parts(classifier.probabilities, made)),
        "auc on the real films": mean_auc(asked, in_parts(classifier.probabilities, films_of(corpus, first))),
    }
    figures |= relative_power(made, films_of(corpus, rows))
    figures["auc ratio"] = figures["auc of prompt findings"] / figures["auc on the real films"]
    real = in_parts(classifier.features, films_of(corpus, first))
    other = in_parts(classifier.features, films_of(corpus, second))
    ours = in_parts(classifier.features, made)
    figures["FD-classifier real halves"] = frechet(real, other)
    figures["FD-classifier made"] = frechet(ours, other)
    figures["FD-classifier ratio"] = figures["FD-classifier made"] / figures["FD-classifier real halves"]
    return figures | outside_figures(films_of(corpus, first), made, corpus.patients[first])


@torch.no_grad()
def outside_figures(real: Tensor, made: Tensor, patients: NDArray[np.str_]) -> Figures:
    """Fréchet distance and coverage in features of networks trained on no film, where they are installed.

    VGG16 takes no part in any training. EfficientNet-Lite0 does: it is what the finisher's critic looks through.
    """
    looks: dict[str, Callable[[Tensor], Tensor]] = {}
    if has_trunk("vgg"):
        trunk = read_trunk(installed_weights("vgg"))

        def deep(films: Tensor) -> Tensor:
            smaller = functional.interpolate(films, 128, mode="bilinear", antialias=True)
            return torch.cat([m.mean((2, 3)) for m in trunk_features(smaller, trunk, "vgg")[2:]], 1)

        looks[VGG16] = deep
    if has_imagenet():
        network = imagenet_encoder(real.shape[-1])
        looks[IMAGENET] = network
    figures: Figures = {}
    for name, look in looks.items():
        ours, theirs = (in_parts(look, films) for films in (made, real))
        distance = frechet_without_bias(theirs, ours, patients, features=name, seed=0)
        found = precision_recall_density_coverage(theirs, ours, patients, patients, features=name, seed=0)
        coverage = found[-1]
        if distance.measured and coverage.measured:
            figures |= {
                f"FD-{name} without bias": distance.value,
                f"FD-{name} without bias, real halves": distance.detail["real_to_real"],
                f"coverage [{name}]": coverage.value,
                f"coverage [{name}] of real films": coverage.detail["expected"]["coverage"],
            }
    return figures


def bench_copies(
    pack: Pack,
    corpus: Corpus,
    rng: np.random.Generator,
    films: int = 320,
    picture: Path | None = None,
    made: Tensor | None = None,
    training: Codes | None = None,
    **options: Any,
) -> Figures:
    """Whether a generated film is nearer to a training film than an unseen real film is."""
    rows = rng.permutation(corpus.rows("val"))[:films]
    made = generate_for(pack, corpus, rows, rng, **options) if made is None else made
    identities, pictures = training or codes_of(pack, corpus, corpus.rows("train"))
    unseen_identities, unseen_pictures = codes_of(pack, corpus, rows)
    ours = {
        "identity": nearest(in_parts(pack.identity.embed, made), identities),
        "pixel": nearest(pixel_codes(made), pictures),
    }
    real = {"identity": nearest(unseen_identities, identities), "pixel": nearest(unseen_pictures, pictures)}
    figures: Figures = {}
    for space in ("identity", "pixel"):
        limit = float(np.quantile(real[space], 0.95))
        figures[f"{space} nearest, made, median"] = float(np.median(ours[space]))
        figures[f"{space} nearest, unseen real, median"] = float(np.median(real[space]))
        # 0.05 is what unseen real films score by construction.
        figures[f"{space} share above the real 95th percentile"] = float((ours[space] > limit).mean())
    if picture is not None:
        _histograms(ours, real, picture)
    return figures


@torch.no_grad()
def bench_membership(pack: Pack, corpus: Corpus, rng: np.random.Generator, patients: int = 200) -> Figures:
    """Whether the losses of generator and finisher on a patient's films, given their prompts, tell that they learned
    from them.

    Members and others are patients of the same sources; one score per patient, the mean over films and noise levels.
    """
    labelled, sources = corpus.labelled(), corpus.sources()
    unseen = "test" if (corpus.splits == "test").any() else "val"
    usable = labelled & np.isin(sources, np.unique(sources[labelled & (corpus.splits == unseen)]))
    generator: Any = pack.generator
    scores: dict[str, list[float]] = {}
    counts = []
    for split in ("train", unseen):
        people = rng.permutation(np.unique(corpus.patients[usable & (corpus.splits == split)]))[:patients]
        counts.append(len(people))
        for person in people:
            rows = np.flatnonzero(usable & (corpus.patients == person))[:4]
            films = films_of(corpus, rows)
            clean = generator.autoencoder.encode(films)
            # An attacker who holds the films and the pack knows what they show.
            condition = generator.settled_by(generator.condition(prompts_for(corpus, rows, rng)), films)

            def noised(level: float, clean: Tensor = clean) -> tuple[Tensor, Tensor, Tensor]:
                t = torch.full((len(clean),), level)
                noise = torch.from_numpy(rng.standard_normal(tuple(clean.shape), np.float32))
                return generator.add_noise(clean, noise, t), t, noise

            losses = []
            for level in (0.2, 0.35, 0.5, 0.65, 0.8):
                latents, t, noise = noised(level)
                losses.append(float((generator.noise(latents, t, condition) - noise).square().mean()))
            scores.setdefault("membership auc", []).append(-float(np.mean(losses)))
            if generator.finisher is not None:
                losses = []
                for level in (*generator.sampling.finish, 0.5):
                    made = generator.finish(noised(level)[0], condition, [level])
                    losses.append(float((made - clean).square().mean()))
                scores.setdefault("membership auc of the finisher", []).append(-float(np.mean(losses)))
    truth = np.arange(sum(counts)) < counts[0]
    figures: Figures = {"patients of the training": counts[0], "patients that were not": counts[1]}
    for name, held in scores.items():
        each, drawn = np.array(held), []
        for _ in range(1000):
            rows = np.concatenate([rng.choice(np.flatnonzero(side), int(side.sum())) for side in (truth, ~truth)])
            drawn.append(auc(truth[rows], each[rows]))
        low, high = np.quantile(drawn, [0.025, 0.975])
        figures |= {name: auc(truth, each), f"{name} low": float(low), f"{name} high": float(high)}
    return figures


def _histograms(ours: dict[str, NDArray[np.float32]], real: dict[str, NDArray[np.float32]], picture: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")  # pyplot would choose a backend for the whole process
    axes = figure.subplots(1, 2)
    for axis, space in zip(axes, ("identity", "pixel"), strict=True):
        both = np.concatenate([ours[space], real[space]])
        edges = np.linspace(both.min(), both.max(), 40)
        axis.hist(real[space], edges, alpha=0.6, label="unseen real films")
        axis.hist(ours[space], edges, alpha=0.6, label="generated films")
        axis.set_xlabel(f"similarity to the nearest training film ({space})")
        axis.set_ylabel("films")
        axis.legend(frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)


@torch.no_grad()
def bench_speed(pack: Pack, corpus: Corpus | None = None, rng: np.random.Generator | None = None) -> Figures:
    """32 films as the pack samples them unless asked otherwise, beside the convolution throughput of that minute."""
    from torch.utils.flop_counter import FlopCounterMode

    threads = torch.get_num_threads()
    prompts = ["The heart is enlarged. There is a pleural effusion."] * 32
    pack.generator.generate(prompts[:2], [0, 1], steps=2)
    counter = FlopCounterMode(display=False)
    with counter:
        pack.generator.generate(prompts[:2], [0, 1])
    per_film = counter.get_total_flops() / 2

    def convolution() -> float:
        layer: Any = torch.nn.Conv2d(192, 192, 3, padding=1)
        layer = layer.to(memory_format=torch.channels_last)
        x = torch.randn(64, 192, 16, 16).to(memory_format=torch.channels_last)
        layer(x)
        begun = time.perf_counter()
        for _ in range(10):
            layer(x)
        return 10 * 2 * x.numel() * 192 * 9 / (time.perf_counter() - begun)

    # The machine's speed drifts, so the throughput is measured before and after.
    before = convolution()
    begun = time.perf_counter()
    pack.generator.generate(prompts, list(range(32)))
    seconds = (time.perf_counter() - begun) / 32
    yardstick = (before + convolution()) / 2
    return {
        "threads": float(threads),
        "seconds per film": seconds,
        "GFLOP a film": per_film / 1e9,
        "GFLOP/s": per_film / seconds / 1e9,
        "convolution GFLOP/s": yardstick / 1e9,
        "share of convolution throughput": per_film / seconds / yardstick,
    }


def bench_useful(
    pack: Pack, corpus: Corpus, rng: np.random.Generator, films: int = 1000, steps: int = 150, **options: Any
) -> Figures:
    """A classifier trained on generated films alone, against one trained on as many real ones, tested on real films."""
    rows = rng.permutation(np.flatnonzero((corpus.splits == "train") & corpus.labelled()))[:films]
    made = generate_for(pack, corpus, rows, rng, **options)
    eight = (made[:, 0] * 255).round().byte().numpy()
    config = replace(PackConfig().classifier, steps=steps)
    vlm: Any = pack.vlm
    figures: Figures = {"films": float(len(rows)), "steps": float(steps)}
    validation = np.flatnonzero((corpus.splits == "val") & corpus.labelled())
    for name, pictures in (("real", corpus.films[rows]), ("generated", eight)):
        small = Corpus(
            films=np.concatenate([pictures, corpus.films[validation]]),
            patients=np.concatenate([corpus.patients[rows], corpus.patients[validation]]),
            splits=np.array(["train"] * len(rows) + ["val"] * len(validation)),
            views=np.concatenate([corpus.views[rows], corpus.views[validation]]),
            labels=np.concatenate([corpus.labels[rows], corpus.labels[validation]]),
            sentences=[[]] * (len(rows) + len(validation)),
            ids=np.concatenate([corpus.ids[rows], corpus.ids[validation]]),
        )
        with tempfile.TemporaryDirectory() as folder:
            figures[f"auc trained on {name}"] = _short_training(
                "classifier", small, config, vlm.image.size, 1.0, Path(folder)
            )
    figures["ratio"] = figures["auc trained on generated"] / figures["auc trained on real"]
    return figures


def _short_training(kind: str, corpus: Corpus, config: Any, size: int, share: float, folder: Path) -> float:
    """Validation AUC after a short training from ImageNet; `folder` keeps the maps of the frozen blocks."""
    from updp.models.backbone import EfficientNetLite0

    start = EfficientNetLite0()
    start.load_imagenet()
    make: Any = ClassifierStage if kind == "classifier" else IdentityStage
    stage = make(corpus, config, size, start, share=share, directory=folder)
    module = run_stage(stage, config, folder / f"{kind}-{share}", build=stage.build, say=lambda _: None)
    return float(stage.validate(module)["auc"])


def bench_curves(pack: Pack, corpus: Corpus, rng: np.random.Generator, steps: int = 150) -> Figures:
    """Validation AUC from ImageNet with ¼, ½ and all of the training patients, equal steps."""
    figures: Figures = {"steps": float(steps)}
    recipe = PackConfig()
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("classifier", "identity"):
            config = replace(getattr(recipe, kind), steps=steps)
            for share in (0.25, 0.5, 1.0):
                figures[f"{kind} auc at {share:g}"] = _short_training(
                    kind, corpus, config, recipe.encoder_size, share, Path(folder)
                )
    return figures


def bench_pack(
    pack: Pack | str | Path,
    sources: Sequence[str | Path] | Corpus,
    parts: Sequence[str] = QUICK,
    *,
    seed: int = 0,
    films: int = 320,
    judge: ClassifierRole | None = None,
    pairs: int = 40,
    cache: Path | None = None,
    pictures: Path | None = None,
    say: Say = print,
) -> dict[str, Figures]:
    """Measure a pack. `parts` of `PARTS`; `cache` keeps decoded films; `pictures` is where sheets and histograms go.

    `judge` is the classifier of the prompt adherence test (`listening`), which generates `pairs` films with and without
    each finding. It must share nothing with the pack: the generator may have learned what the pack's own classifier
    recognises.
    """
    if wrong := sorted(set(parts) - set(PARTS)):
        raise BadConfig(unknown("part", wrong[0], PARTS))
    if "listening" in parts and judge is None:
        raise BadConfig("prompt adherence (listening) needs a judge: a classifier that shares nothing with the pack")
    pack = pack if isinstance(pack, Pack) else load_pack(pack)
    if isinstance(sources, Corpus):
        corpus = sources
    else:
        folder = cache or Path(tempfile.mkdtemp(prefix="updp-bench-"))
        corpus = prepare_corpus(read_films(sources), folder, pack.info["size"], rule=rule_of(pack), reserved=True)
    results: dict[str, Figures] = {}
    for part in PARTS:
        if part not in parts:
            continue
        options: dict[str, Any] = {}
        if part in ("generator", "copies"):
            options["films"] = films
        if part == "listening":
            options |= {"judge": judge, "pairs": pairs}
        if part == "copies" and pictures is not None:
            options["picture"] = pictures / "pack-copies.png"
        begun = time.perf_counter()
        results[part] = globals()[f"bench_{part}"](
            pack, corpus, np.random.default_rng([seed, *part.encode()]), **options
        )
        say(f"{part} ({time.perf_counter() - begun:.0f} s)")
        for name, value in results[part].items():
            say(f"  {name:45s} {value:.4g}")
    if pictures is not None and "generator" in parts:
        sample_sheet(pack, pictures / "pack-samples.png")
    return results


def sample_sheet(pack: Pack, path: Path) -> None:
    """Sixteen films, four findings in rows, for inspection."""
    texts = [
        "No acute cardiopulmonary abnormality. PA view.",
        "The heart is enlarged. PA view.",
        "There is a pleural effusion. AP view.",
        "Hyperinflated lungs consistent with emphysema. PA view.",
    ]
    write_sheet(pack.generator.generate([t for t in texts for _ in range(4)], list(range(100, 116))), path)
