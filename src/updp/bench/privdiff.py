"""`updp bench privdiff`: where identity passes in PrivDiff-Net, and what its two parts can reach.

Suppression and guidance act on what cross-attention says of a patient. A film that is noised part of the way also
brings its own latent. Three experiments tell the two apart, for a frozen linking network:

- the parts taken away one by one, as published, at several strengths, and beside them guidance of the patient's film
  by the attributes of *another* patient. If identity passed through the condition, linkage would change with it;
- films drawn from pure noise towards the attributes of a patient: what the identity branch knows of patients at all.
  Guidance leads away from nothing else;
- the size of each branch against the whole estimate, by time: how far guidance can lead in one step.

Linkage is the share of other patients whose film is less like the released film than another film of the right
patient; 0.5 is guessing. ``moved`` is how far a setting moves films from those of the plain diffusion, as a share of
how far that moves them from the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from updp.bench.tables import cell, save
from updp.core.global_state import limited
from updp.core.markdown import table_lines
from updp.domains.chest import METHOD_WEIGHTS, PACK
from updp.evaluation.cohort.load import private
from updp.evaluation.cohort.sample import NoSample, Sample, take_sample
from updp.evaluation.cohort.unseen import unseen
from updp.evaluation.evaluate import pack_facts
from updp.evaluation.intervals import Interval, bootstrap
from updp.methods.learned import stacked
from updp.methods.privdiff.method import Attributes, Denoiser, PrivDiffNet, attributes
from updp.methods.privdiff.sas import Suppression
from updp.methods.privdiff.spg import BRANCHES, branches
from updp.models.samplers import alpha, ddim, sigma, time_grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

Say = Callable[[str], None]
STRENGTHS = (0.2, 0.4, 0.6, 0.8, 0.9)
#: The published ablation, the projection as printed, and guidance ten times as strong.
SETTINGS: dict[str, dict[str, Any]] = {
    "plain diffusion": {"sas": "off", "spg": False},
    "suppression (SAS)": {"spg": False},
    "guidance (SPG)": {"sas": "off"},
    "both": {},
    "both, SAS as printed": {"sas": "literal"},
    "both, guidance of 5 instead of 0.5": {"w_sensitive": 5.0},
}
SWAPPED = "both, attributes of another patient"
TOWARDS = "from noise towards the attributes"
#: Guidance towards the attributes, as large as that of the diagnosis.
_TOWARDS = 5.0
_TIMES = (0.1, 0.3, 0.5, 0.7, 0.9)
_AT_ONCE = 16


@dataclass(frozen=True)
class Row:
    """A setting at a strength."""

    strength: float
    setting: str
    film: Interval | None  # linkage to the patient of the film
    attributes: Interval | None  # linkage to the patient whose attributes were given, where it is another
    moved: float | None
    patients: int


@dataclass(frozen=True)
class Size:
    """How far each branch is from the one without a condition, against the size of that, at a time."""

    time: float
    diagnosis: float
    identity: float
    demographics: float
    kept: float  # share of the diagnosis' attention that suppression leaves


@dataclass(frozen=True)
class Cohort:
    """One film of each patient, another one to be linked with, and what is known of the patients."""

    films: Tensor
    others: Tensor  # identity of the other film
    who: Attributes
    patients: NDArray[np.str_]
    noise: Tensor

    def __len__(self) -> int:
        return len(self.patients)


def bench_privdiff(
    source: Path,
    out: Path,
    *,
    pack: str = PACK,
    weights: str = METHOD_WEIGHTS,
    patients: int = 64,
    strengths: Sequence[float] = STRENGTHS,
    steps: int = 12,
    seed: int = 0,
    layout: str | None = None,
    say: Say = print,
) -> tuple[list[Row], list[Size]]:
    """Measure all three; ``privdiff.json`` and ``privdiff.md`` go to ``out``."""
    method = PrivDiffNet(pack=pack, weights=weights, steps=steps)  # wrong weights end it here
    private(out)
    sample = take_sample(
        source, 2 * patients, splits={"test": 1.0}, seed=seed, layout=layout, cache=out / ".cache" / "films",
        place=_all_of(unseen([method.pack])), per_patient=2,
    )  # fmt: skip
    with torch.no_grad(), limited(1):
        cohort = _cohort(method, sample, seed)
        rows = []
        for row in _rows(method, cohort, strengths, seed):
            rows.append(row)
            say(f"{row.setting}, {row.strength:g}: {cell(row.film)} {cell(row.attributes)}")
        sizes = _sizes(method, cohort)
    about = {"pack": pack_facts(method.pack), "films": len(cohort), "patients": len(cohort), "seed": seed}
    figures = {"rows": [asdict(row) for row in rows], "sizes": [asdict(size) for size in sizes]}
    save(out, "privdiff", about, markdown(rows, sizes), **figures)
    return rows, sizes


def _all_of(place: Any) -> Any:
    """Nothing learns here, so every patient whom no model has seen is scored."""
    return lambda study, layout: None if place(study, layout) is None else "test"


def _cohort(method: PrivDiffNet, sample: Sample, seed: int) -> Cohort:
    """Patients with two films."""
    people = np.array([study.patient_id for study in sample.studies])
    pairs = [rows[:2] for name in np.unique(people) if len(rows := np.flatnonzero(people == name)) > 1]
    if len(pairs) < 3:
        raise NoSample("too few patients with two films; give more films")
    first, second = np.array(pairs).T
    films, others = (
        stacked([sample.studies[i].but(pixels=sample.real[i].astype(np.float32) / 255) for i in rows], method.size)
        for rows in (first, second)
    )
    labels = method.network.labels
    who = attributes([sample.studies[i] for i in first], _embedded(method, films), labels)
    shape = method.pack.autoencoder.encode(films[:1]).shape[1:]
    seeds = np.random.default_rng(seed).integers(2**62, size=len(first)).tolist()
    noise = torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(one)) for one in seeds])
    return Cohort(films, _embedded(method, others), who, people[first], noise)


def _embedded(method: PrivDiffNet, films: Tensor) -> Tensor:
    return torch.cat([method.pack.identity.embed(part) for part in torch.split(films, _AT_ONCE)])


def _rows(method: PrivDiffNet, cohort: Cohort, strengths: Sequence[float], seed: int) -> Iterator[Row]:
    network, coder = method.network, method.pack.autoencoder
    clean = torch.cat([coder.encode(part) for part in torch.split(cohort.films, _AT_ONCE)])
    another = _rolled(cohort.who)
    steps = method.options.steps

    def linkage(films: Tensor, shift: int = 0) -> Interval:
        return _linkage(_embedded(method, films), cohort.others.roll(shift, 0), cohort.patients, seed)

    yield Row(0.0, "the film itself", linkage(cohort.films), None, None, len(cohort))
    for strength in strengths:
        t = torch.tensor(strength)
        latents = alpha(t) * clean + sigma(t) * cohort.noise
        plain: Tensor | None = None
        for name, options in (*SETTINGS.items(), (SWAPPED, {})):
            swapped = name == SWAPPED
            guided = PrivDiffNet.of(network, steps=steps, **options)
            made = _decoded(coder, guided.denoise(latents, another if swapped else cohort.who, strength))
            plain = made if plain is None else plain
            moved = float((made - plain).abs().mean() / (plain - cohort.films).abs().mean())
            yield Row(strength, name, linkage(made), linkage(made, 1) if swapped else None, moved, len(cohort))
    latents = _towards(network, cohort.noise, cohort.who, steps)
    yield Row(1.0, TOWARDS, None, linkage(_decoded(coder, latents)), None, len(cohort))


def _decoded(coder: Any, latents: Tensor) -> Tensor:
    return torch.cat([coder.decode(part).clamp(0, 1) for part in torch.split(latents, _AT_ONCE)])


def _rolled(who: Attributes) -> Attributes:
    """The attributes of the next patient, with the findings of the film's own."""
    other = Attributes(*(part.roll(1, 0) for part in who))
    return other._replace(findings=who.findings, known=who.known)


def _towards(network: Denoiser, noise: Tensor, who: Attributes, steps: int) -> Tensor:
    """From pure noise, guided to identity, age and sex alone."""
    network.suppress(None)
    names = ("none", "identity", "demographics")

    def estimate(some: Attributes) -> Callable[[Tensor, Tensor], Tensor]:
        def predict(x: Tensor, t: Tensor) -> Tensor:
            none, identity, demographics = _noises(network, x, t, some, names)
            out = none + _TOWARDS * (identity - none) + _TOWARDS * (demographics - none)
            size, whole = (part.flatten(1).norm(dim=1)[:, None, None, None] for part in (identity, out))
            rescaled: Tensor = out * (size / whole).clamp_max(1)
            return rescaled

        return predict

    parts = [slice(i, i + _AT_ONCE) for i in range(0, len(noise), _AT_ONCE)]
    return torch.cat([ddim(noise[part], time_grid(steps, 1.0), estimate(who.rows(part))) for part in parts])


def _noises(network: Denoiser, x: Tensor, t: Tensor, who: Attributes, names: Sequence[str]) -> tuple[Tensor, ...]:
    """The noise that each branch sees."""
    many = x.repeat(len(names), 1, 1, 1)
    v = network(many, t.expand(len(many)), who.repeat(len(names)), branches(len(x), names))
    return torch.split(sigma(t) * many + alpha(t) * v, len(x))


def _linkage(released: Tensor, others: Tensor, patients: Any, seed: int) -> Interval:
    """For each released film the share of other patients who are less like it than its own."""
    like = (released @ others.T).numpy()
    own = np.diag(like)[:, None]
    above = (own > like) + 0.5 * (own == like)
    np.fill_diagonal(above, 0)
    return bootstrap(np.mean, patients, above.sum(1) / (len(like) - 1), rng=np.random.default_rng(seed), fewest=2)


def _sizes(method: PrivDiffNet, cohort: Cohort) -> list[Size]:
    network, coder = method.network, method.pack.autoencoder
    few = slice(0, _AT_ONCE)
    clean, noise, who = coder.encode(cohort.films[few]), cohort.noise[few], cohort.who.rows(few)
    out = []
    for time in _TIMES:
        t = torch.tensor(time)
        latents = alpha(t) * clean + sigma(t) * noise
        network.suppress(None)
        none, *others = _noises(network, latents, t, who, list(BRANCHES))
        shares = [float(((part - none).flatten(1).norm(dim=1) / none.flatten(1).norm(dim=1)).mean()) for part in others]
        watched = Suppression(network.groups, watch=True)
        network.suppress(watched)
        _noises(network, latents, t, who, ["diagnosis"])
        network.suppress(None)
        diagnosis, identity, demographics = shares
        out.append(Size(time, diagnosis, identity, demographics, float(np.mean(watched.kept))))
    return out


def markdown(rows: Sequence[Row], sizes: Sequence[Size]) -> str:
    """Linkage by strength and setting, and the sizes of the branches."""
    heads = ["strength", "setting", "linked to the film's patient", "linked to the patient of the attributes", "moved"]
    lines = [
        [f"{row.strength:g}", row.setting, cell(row.film), cell(row.attributes),
         "" if row.moved is None else f"{row.moved:.3f}"]
        for row in rows
    ]  # fmt: skip
    out = ["### Linkage by a frozen network", "", *table_lines(heads, lines)]
    heads = ["time", "diagnosis", "identity", "age and sex", "attention that suppression leaves"]
    lines = [
        [f"{s.time:g}", f"{s.diagnosis:.3f}", f"{s.identity:.3f}", f"{s.demographics:.3f}", f"{s.kept:.2f}"]
        for s in sizes
    ]
    out += ["### Size of each branch, against the estimate without a condition", "", *table_lines(heads, lines)]
    return "\n".join(out) + "\n"
