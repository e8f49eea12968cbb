"""`updp bench rate`: what the code of DCM-DeID reveals of findings and of identity, by its length in bits.

The code is cut after 1, 2, 4 … channels. At each rate a linear reader of every finding and a linking metric are fitted
to codes of one half of the patients, and scored on the other half: mean AUC of the findings that have enough films, and
AUC of films of one patient against films of two. A code that keeps medicine and drops identity has a high first curve
and a second one near one half. Both readers adapt: they are fitted to codes of the very rate they are scored at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.bench.tables import cell, panels, plot_intervals, save
from updp.core.global_state import limited
from updp.core.markdown import table_lines
from updp.domains.chest import METHOD_WEIGHTS, PACK
from updp.evaluation.cohort.load import private
from updp.evaluation.cohort.sample import NoSample, Sample, exhibit_of, make, take_sample
from updp.evaluation.cohort.settings import Setting
from updp.evaluation.cohort.unseen import unseen
from updp.evaluation.evaluate import pack_facts
from updp.evaluation.intervals import Interval, bootstrap
from updp.evaluation.statistics import auc

if TYPE_CHECKING:
    from updp.methods.dcm.method import DCMDeID

Say = Callable[[str], None]
#: Fewest films with and without a finding, in each half, for it to count.
_ENOUGH = 5
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """The code at one rate."""

    channels: int
    bits: Interval  # per film
    findings: Interval  # mean AUC
    identity: Interval  # AUC
    films: int


def bench_rate(
    source: Path,
    out: Path,
    *,
    pack: str = PACK,
    weights: str = METHOD_WEIGHTS,
    films: int = 1000,
    seed: int = 0,
    layout: str | None = None,
    say: Say = print,
) -> list[Row]:
    """Measure every rate; ``rate.json``, ``rate.md`` and a picture go to ``out``."""
    from updp.methods.dcm.method import DCMDeID

    method = DCMDeID(pack=pack, weights=weights)  # wrong weights end it here
    private(out)
    sample = take_sample(
        source, films, splits={"train": 0.5, "test": 0.5}, seed=seed, layout=layout, cache=out / ".cache" / "films",
        place=unseen([method.pack]),
    )  # fmt: skip
    facts = exhibit_of(sample, make(sample, Setting("keep"), seed))
    learned, scored = (np.flatnonzero(facts.splits == split) for split in ("train", "test"))
    if not len(learned) or not len(scored):
        raise NoSample("too few patients for both halves; give more films")
    codes, bits = _codes(method, sample)
    rows = []
    count = codes.shape[1]
    for kept in sorted({1, *(2**i for i in range(1, 12) if 2**i < count), count}):
        part = codes[:, :kept]
        rows.append(
            Row(
                kept,
                bootstrap(np.mean, facts.patients[scored], bits[scored, :kept].sum(1),
                          rng=np.random.default_rng(seed), fewest=2),
                _findings(part, facts.labels, facts.patients, learned, scored, seed),
                _identity(part, facts.patients, learned, scored, seed),
                len(scored),
            )
        )  # fmt: skip
        say(_line(rows[-1]))
    about = {"pack": pack_facts(method.pack), "films": len(scored), "patients": len(set(facts.patients[scored])),
             "seed": seed}  # fmt: skip
    save(out, "rate", about, markdown(rows), rows=[asdict(row) for row in rows])
    draw(rows, out / "rate.png")
    return rows


def _codes(method: DCMDeID, sample: Sample) -> tuple[Floats, Floats]:
    """Code of every film, and the bits of each of its channels."""
    import torch

    from updp.methods.learned import stacked

    network = method.network
    codes, bits = [], []
    with torch.no_grad(), limited(1):
        for first in range(0, len(sample), 32):
            rows = range(first, min(first + 32, len(sample)))
            studies = [sample.studies[i].but(pixels=sample.real[i].astype(np.float32) / 255) for i in rows]
            code = method.code(stacked(studies, method.size))
            codes.append(code.numpy())
            upto = [network.code.bits(code, kept).numpy() for kept in range(1, code.shape[1] + 1)]
            bits.append(np.diff(np.stack([np.zeros(len(code)), *upto]), axis=0).T)
    return np.concatenate(codes).astype(np.float64), np.concatenate(bits)


def _findings(
    codes: Floats, labels: Any, patients: Any, learned: NDArray[np.intp], scored: NDArray[np.intp], seed: int
) -> Interval:
    """Mean AUC of readers of the findings, one logistic regression each."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    said, truth = [], []
    for column in np.asarray(labels).T:
        there = [rows[~np.isnan(column[rows])] for rows in (learned, scored)]
        if any(min((column[rows] == 1).sum(), (column[rows] == 0).sum()) < _ENOUGH for rows in there):
            continue
        reader = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        reader.fit(codes[there[0]], column[there[0]] == 1)
        said.append(reader.decision_function(codes[scored]))
        truth.append(np.where(np.isnan(column[scored]), np.nan, column[scored]))
    if not said:
        return Interval(*[float("nan")] * 3)
    scores, known = np.stack(said, 1), np.stack(truth, 1)

    def mean_auc(rows: NDArray[np.intp]) -> float:
        found = []
        for k in range(scores.shape[1]):
            some = rows[~np.isnan(known[rows, k])]
            if 0 < known[some, k].sum() < len(some):
                found.append(float(auc(known[some, k] == 1, scores[some, k])))
        return float(np.mean(found)) if found else float("nan")

    return _over(patients[scored], mean_auc, seed)


def _identity(codes: Floats, patients: Any, learned: NDArray[np.intp], scored: NDArray[np.intp], seed: int) -> Interval:
    """AUC of films of one patient against films of two, in the space where patients of the other half differ most."""
    from scipy.linalg import eigh

    inner, outer = _scatter(codes[learned], patients[learned])
    scale = np.trace(inner) / len(inner) + 1e-9
    values, vectors = eigh(outer, inner + 1e-2 * scale * np.eye(len(inner)))
    shown = (codes[scored] - codes[learned].mean(0)) @ (vectors * np.sqrt(np.maximum(values, 0)))
    names = patients[scored]

    def linkage(rows: NDArray[np.intp]) -> float:
        apart = -np.square(shown[rows][:, None] - shown[rows][None]).sum(2)
        same = names[rows][:, None] == names[rows][None]
        upper = np.triu(np.ones_like(same), 1) & (rows[:, None] != rows[None])
        if not 0 < (same & upper).sum() < upper.sum():
            return float("nan")
        return float(auc(same[upper], apart[upper]))

    return _over(names, linkage, seed)


def _scatter(codes: Floats, patients: Any) -> tuple[Floats, Floats]:
    """Scatter of films around their patient, and of patients around the mean."""
    inner = np.zeros((codes.shape[1],) * 2)
    outer = np.zeros_like(inner)
    centre = codes.mean(0)
    for name in np.unique(patients):
        own = codes[patients == name]
        inner += (own - own.mean(0)).T @ (own - own.mean(0))
        outer += len(own) * np.outer(own.mean(0) - centre, own.mean(0) - centre)
    return inner, outer


def _over(patients: Any, statistic: Callable[[NDArray[np.intp]], float], seed: int, draws: int = 200) -> Interval:
    """A statistic of rows with its 95 % interval over patients drawn anew."""
    rng = np.random.default_rng(seed)
    names, place = np.unique(patients, return_inverse=True)
    own = [np.flatnonzero(place == i) for i in range(len(names))]
    value = statistic(np.arange(len(patients)))
    drawn = [statistic(np.concatenate([own[i] for i in rng.integers(0, len(own), len(own))])) for _ in range(draws)]
    kept = [v for v in drawn if np.isfinite(v)]
    low, high = np.quantile(kept, (0.025, 0.975)) if kept else (float("nan"),) * 2
    return Interval(value, float(low), float(high))


def _line(row: Row) -> str:
    figures = f"findings {cell(row.findings, 3)}, identity {cell(row.identity, 3)}"
    return f"{row.channels} channels: {cell(row.bits, 1)} bits, {figures}"


def markdown(rows: Sequence[Row]) -> str:
    """The curve as a table."""
    heads = ["channels", "bits per film", "findings, mean AUC", "identity, AUC"]
    cells = [[str(row.channels), cell(row.bits, 1), cell(row.findings, 3), cell(row.identity, 3)] for row in rows]
    return "\n".join(table_lines(heads, cells))


def draw(rows: Sequence[Row], path: Path) -> None:
    """Both AUCs against bits."""
    figure, (axes,) = panels(5, 3.4)
    bits = [row.bits.value for row in rows]
    plot_intervals(axes, bits, [row.findings for row in rows], "findings")
    plot_intervals(axes, bits, [row.identity for row in rows], "identity")
    axes.axhline(0.5, color="grey", linewidth=0.8)
    axes.set_xlabel("bits per film")
    axes.set_ylabel("AUC")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
