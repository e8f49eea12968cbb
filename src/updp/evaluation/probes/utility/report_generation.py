"""Report generation, the experiment of the UPDP paper: does a captioner write better reports for having the release.

Two hospitals are made of the training patients: one is local, the other transfers its films and reports, raw or
de-identified. A captioner learns in five regimes (local only; transferred raw; transferred de-identified; local with
each) at several sizes of "local", and always writes for real films of patients that no captioner learned from. The
paper prints one run without intervals; here every figure has one over patients. Which films a small hospital happens to
hold decides as much as what it is given, so the patients are shared out several times, each time with a captioner of
another seed: a figure is the mean over these sharings, and what each one alone says stands beside.

Reports alone teach a captioner to write, whatever film is beside them. Three controls say what the released films add:
the transferred reports with one another's released films (shuffled), with noise, and with a real film of another
transferring patient that has the same labels (donor).

What differs from the paper: the captioner is small (`captioner`), films have one view, and "raw" is the
real film with its real report, where the paper's is a film generated from the unfiltered report. `lora`
takes the large models.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from updp.core.cache import Cache, key_of
from updp.core.measurement import FEWEST_PATIENTS, Floats, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.probes.base import SCORED, Inquiry, Probe, with_detail
from updp.evaluation.probes.utility.base import Effort
from updp.evaluation.probes.utility.findings import findings_counts, findings_f1
from updp.evaluation.probes.utility.text_metrics import (
    R2Gen,
    Weights,
    bleu_counts,
    bleu_of_counts,
    rouge_l,
    text_measures,
    tokens_13a,
)
from updp.evaluation.statistics import averaged, mean, ratio
from updp.models.errors import MissingRequirement

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack

LOCAL, RAW, RELEASED = "local only", "transfer raw", "transfer de-identified"
LOCAL_RAW, LOCAL_RELEASED = "local + raw", "local + de-identified"
SHUFFLED, NOISE, DONOR = "local + shuffled films", "local + noise films", "local + donor films"
CONTROLS = (SHUFFLED, NOISE, DONOR)
#: Fewest films with a report that a captioner is trained on.
LEAST_FILMS = 4

Write = Callable[[Sequence["Pairs"], NDArray[Any], int], list[str]]


class Pairs(NamedTuple):
    """Films, as rows of one side of the exhibit, and their reports: what a captioner learns from."""

    side: str  # "real", "released" or "noise"
    rows: NDArray[Any]
    reports: list[str]


@dataclass(frozen=True)
class Regime:
    """What one captioner learns from."""

    name: str
    share: float | None  # of the local films; None where no local film is used
    pairs: tuple[Pairs, ...]

    @property
    def films(self) -> int:
        return sum(len(p.rows) for p in self.pairs)

    @property
    def label(self) -> str:
        return self.name if self.share is None else f"{self.name}, {self.share:.0%} of local"


def drawn(patients: NDArray[Any], *purpose: object) -> list[str]:
    """Patients in a random order; each has a random number of its own, so that one that is kept back moves no other."""

    def number(patient: str) -> bytes:
        return hashlib.sha256(repr((*purpose, patient)).encode()).digest()

    return sorted(map(str, np.unique(patients)), key=number)


def hospitals(exhibit: Exhibit, rows: NDArray[Any], seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows of the local and of the transferring hospital: half of the patients each."""
    patients = drawn(exhibit.patients[rows], "hospital", seed)
    ours = np.isin(exhibit.patients[rows], patients[: len(patients) // 2])
    return rows[ours], rows[~ours]


def share_of(exhibit: Exhibit, rows: NDArray[Any], share: float, seed: int) -> NDArray[Any]:
    """A share of the patients' rows; a smaller share is part of every larger one."""
    patients = drawn(exhibit.patients[rows], "share", seed)
    kept = patients[: max(1, round(share * len(patients)))]
    return rows[np.isin(exhibit.patients[rows], kept)]


def regimes(exhibit: Exhibit, rows: NDArray[Any], shares: Sequence[float], seed: int, quick: bool) -> list[Regime]:
    """Every regime at every size, controls at the smallest; a quick budget leaves out raw transfers and controls."""
    local, transfer = hospitals(exhibit, rows, seed)

    def pairs(side: str, of: NDArray[Any]) -> Pairs:
        texts = exhibit.real_texts if side == "real" else exhibit.released_texts
        return Pairs(side, of, [texts[i] for i in of])

    # What a method keeps back is missing from what is transferred, and from nothing else.
    given = exhibit.with_reports("released") & ~exhibit.kept_back
    raw, released = pairs("real", transfer), pairs("released", transfer[given[transfer]])
    out = [Regime(RAW, None, (raw,)), Regime(RELEASED, None, (released,))]
    for share in shares:
        ours = pairs("real", share_of(exhibit, local, share, seed))
        out += [Regime(LOCAL, share, (ours,)), Regime(LOCAL_RELEASED, share, (ours, released))]
        if not quick:
            out.append(Regime(LOCAL_RAW, share, (ours, raw)))
        if not quick and share == min(shares):
            out += [Regime(name, share, (ours, pairs)) for name, pairs in controls(exhibit, released, seed).items()]
    return out


def controls(exhibit: Exhibit, released: Pairs, seed: int) -> dict[str, Pairs]:
    """The transferred reports with films that are not their own."""
    rng = np.random.default_rng([seed, len(released.rows)])
    rows, owners = released.rows, exhibit.patients[released.rows]
    labels = np.nan_to_num(exhibit.labels[rows])
    donors = []
    for row, owner, own in zip(rows, owners, labels, strict=True):
        apart = np.abs(labels - own).sum(1) + np.where(owners == owner, np.inf, 0)
        nearest = rows[apart == apart.min()] if np.isfinite(apart).any() else np.array([row])
        donors.append(int(rng.choice(nearest)))
    return {
        SHUFFLED: released._replace(rows=rng.permutation(rows)),
        NOISE: released._replace(side="noise"),
        DONOR: Pairs("real", np.array(donors, np.intp), released.reports),
    }


class ReportGeneration(Probe):
    """The experiment; see the module."""

    name = "report generation"
    question = "utility"
    quick = False  # no bound reads it

    def __init__(self, beams: int = 3, java: bool = True) -> None:  # three, as R2Gen writes
        self.beams, self.java = beams, java

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        effort, exhibit = Effort.of(inquiry.budget), inquiry.originals
        real = exhibit.with_reports("real")
        train = np.flatnonzero(real & (exhibit.splits == "train"))
        scored = _some(exhibit, np.flatnonzero(real & np.isin(exhibit.splits, SCORED)), effort.generated)
        patients = len(np.unique(exhibit.patients[scored]))
        why = None
        if not (real & exhibit.with_reports("released")).any():
            why = "no film has a report on both sides"
        elif patients < FEWEST_PATIENTS:
            why = f"too few patients: {patients} with a report are scored, at least {FEWEST_PATIENTS} needed"
        elif len(train) < 2 * LEAST_FILMS or len(np.unique(exhibit.patients[train])) < 4:
            why = f"too few training films with a report: {len(train)}, at least {2 * LEAST_FILMS} of 4 patients needed"
        if why:
            return _headlines(effort.shares[0], why, patients)
        try:
            write = captioners(exhibit, inquiry.pack, effort, self.beams, inquiry.cache)
        except MissingRequirement as error:
            return _headlines(effort.shares[0], str(error), patients)
        # The smaller the local hospital, the more its figures depend on who is in it.
        plans = [
            regimes(exhibit, train, effort.shares if k == 0 else effort.shares[:1], k, effort.quick)
            for k in range(effort.sharings)
        ]
        java = self.java and not effort.quick
        return compare(exhibit, scored, train, plans, write, effort, inquiry.seed, java=java, cache=inquiry.cache)


def captioners(exhibit: Exhibit, pack: Pack, effort: Effort, beams: int, cache: Cache | None) -> Write:
    """A function that trains an embedded captioner on pairs and lets it write for real films."""
    from updp.evaluation.probes.utility.captioner import (
        EDITION,
        CaptionerConfig,
        Vocabulary,
        standardise,
        train_captioner,
    )
    from updp.evaluation.probes.utility.encoding import encode, encode_released

    maps = {"real": encode(exhibit.real, pack, cache).last, "released": encode_released(exhibit, pack, cache).last}
    config = CaptionerConfig(effort.steps)

    def seen(pairs: Pairs) -> NDArray[Any]:
        if pairs.side == "noise":
            shape = (len(pairs.rows), *exhibit.real.shape[1:])
            return encode(np.random.default_rng(0).integers(0, 256, shape, np.uint8), pack, cache).last
        found: NDArray[Any] = maps[pairs.side][pairs.rows]
        return found

    def enough(films: int) -> CaptionerConfig:
        """A captioner that stops early writes short reports; with more films to learn from, they are shorter."""
        passes = -(-effort.passes * films // config.batch)
        return replace(config, steps=max(effort.steps, min(passes, effort.most_steps)))

    def write(pairs: Sequence[Pairs], scored: NDArray[Any], seed: int) -> list[str]:
        reports = [report for p in pairs for report in p.reports]
        vocabulary = Vocabulary(pack.vlm.tokenizer, reports)
        learned = np.concatenate([standardise(seen(p)) for p in pairs])
        asked = standardise(maps["real"][scored])

        def texts() -> list[str]:
            captioner = train_captioner(learned, reports, vocabulary, enough(len(reports)), seed)
            return captioner.of_length(asked, reports, beams).write(asked, beams)

        # Kept is what it wrote, not what it learned: writing takes as long, and nothing else is asked of it.
        settings = (EDITION, asdict(enough(len(reports))), seed, beams, vocabulary.known)
        return keep_texts(key_of(*settings, reports, learned, asked), texts, cache)

    return write


def keep_texts(key: str, make: Callable[[], list[str]], cache: Cache | None) -> list[str]:
    """Texts under this key, made and kept if there are none; as bytes, since an array of strings pads each to the
    longest."""
    held = cache.get(key) if cache is not None else None
    if held is None:
        texts = make()
        if cache is not None:
            cache.put(key, {"texts": np.frombuffer(json.dumps(texts).encode(), np.uint8)})
        return texts
    found: list[str] = json.loads(held["texts"].tobytes())
    return found


def compare(
    exhibit: Exhibit,
    scored: NDArray[Any],
    train: NDArray[Any],
    plans: Sequence[Sequence[Regime]],
    write: Write,
    effort: Effort,
    seed: int,
    *,
    java: bool = True,
    cache: Cache | None = None,
    weights: Weights = Weights(),  # noqa: B008
) -> list[Measurement]:
    """Every regime's reports against the real ones, pooled over the sharings; ``write`` may be any captioner."""
    references, patients = [exhibit.real_texts[i] for i in scored], exhibit.patients[scored]
    normaliser = R2Gen.fit(exhibit.real_texts[i] for i in train)
    planned: dict[str, list[tuple[int, Regime]]] = {}
    for k, plan in enumerate(plans):
        for regime in plan:
            planned.setdefault(regime.label, []).append((k, regime))
    written: dict[str, list[str]] = {}
    out: list[Measurement] = []
    for label, sharings in planned.items():
        films = [regime.films for _, regime in sharings]
        if min(films) < LEAST_FILMS or not all(len(p.rows) for _, regime in sharings for p in regime.pairs):
            continue
        written[label] = [text for k, regime in sharings for text in write(regime.pairs, scored, k)]
        # Sharings are further rows of the same patients: a figure is the mean of theirs, an interval is over patients.
        truth, everyone = references * len(sharings), np.tile(patients, len(sharings))
        detail = {
            "local_share": sharings[0][1].share,
            "training_films": round(float(np.mean(films))),
            "sharings": len(sharings),
            "distinct_reports": len(set(written[label])) / len(truth),
        }
        options: dict[str, Any] = {"seed": seed, "draws": effort.draws, "repeats": len(films), "regime": label}
        how: dict[str, Any] = {"normaliser": normaliser, "java": java, "cache": cache, "detail": detail}
        found = text_measures(truth, written[label], everyone, **how, **options)
        f1 = findings_f1(truth, written[label], everyone, **options)
        further = weights.measures(truth, written[label], everyone, seed=seed, draws=effort.draws, regime=label)
        out += [*found, *(with_detail(m, **detail) for m in (f1, *further))]
    smallest = min((p.share for p in plans[0] if p.share is not None), default=None)
    if smallest is not None:
        ours, *others = (f"{name}, {smallest:.0%} of local" for name in (LOCAL_RELEASED, LOCAL, *CONTROLS))
        pairs = [(ours, other) for other in others if other in planned]
        gains = [_against(references, written, patients, pair, "minus", seed, effort.draws) for pair in pairs]
        out = [*(m for gain in gains for m in gain), *out]
    kept = _against(references, written, patients, (RELEASED, RAW), "relative to", seed, effort.draws)
    left_out = {"left_out": f"regimes {', '.join((LOCAL_RAW, *CONTROLS))}; METEOR"} if effort.quick else {}
    return [with_detail(m, **left_out) for m in (*kept, *out)]


def _rows(references: Sequence[str], hypotheses: Sequence[str]) -> dict[str, Floats]:
    theirs, ours = [tokens_13a(r) for r in references], [tokens_13a(h) for h in hypotheses]
    counts = bleu_counts(theirs, ours)
    return {
        "BLEU-1": counts,
        "BLEU-4": counts,
        "ROUGE-L COCO": np.array([rouge_l(r, h, 1.2) for r, h in zip(theirs, ours, strict=True)]),
        "findings F1": findings_counts(references, hypotheses),
    }


def _bleu(n: int) -> Callable[..., Any]:
    def statistic(counts: ArrayLike, weights: ArrayLike | None = None) -> Any:
        return bleu_of_counts(counts, n, weights)

    return statistic


def _f1(counts: ArrayLike, weights: ArrayLike | None = None) -> Any:
    rows = np.asarray(counts)
    return ratio(2 * rows[:, 0], rows[:, 1] + rows[:, 2], weights)


_STATISTICS: dict[str, Callable[..., Any]] = {
    "BLEU-1": _bleu(1),
    "BLEU-4": _bleu(4),
    "ROUGE-L COCO": mean,
    "findings F1": _f1,
}


def _against(
    references: Sequence[str],
    written: Mapping[str, list[str]],
    patients: NDArray[Any],
    pair: tuple[str, str],
    how: str,
    seed: int,
    draws: int,
) -> list[Measurement]:
    """One regime against another over the same films and resamples: a difference, or a ratio; and by each sharing."""
    chance = 0.0 if how == "minus" else None
    if absent := [label for label in pair if label not in written]:
        why = f"too few films for the regime {', '.join(absent)}"
        return [
            Measurement.missing(_metric(kind, how), why, chance=chance, seed=seed, regime=_regime(pair, how))
            for kind in _STATISTICS
        ]
    sharings = len(written[pair[0]]) // len(references)
    ours, theirs = (_rows(list(references) * sharings, written[label]) for label in pair)
    everyone = np.tile(patients, sharings)
    out = []
    for kind, statistic in _STATISTICS.items():
        width = 1 if ours[kind].ndim == 1 else ours[kind].shape[1]
        both = np.concatenate([ours[kind].reshape(-1, width), theirs[kind].reshape(-1, width)], axis=1)

        def compared(
            rows: ArrayLike,
            weights: ArrayLike | None = None,
            statistic: Callable[..., Any] = statistic,
            width: int = width,
            repeats: int = sharings,
        ) -> Any:
            first, second = (
                averaged(statistic, repeats)(t[:, 0] if width == 1 else t, weights=weights)
                for t in np.split(np.asarray(rows), 2, 1)
            )
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.subtract(first, second) if how == "minus" else np.divide(first, second)

        options: dict[str, Any] = {"better": "higher", "seed": seed, "draws": draws, "chance": chance}
        options["regime"] = _regime(pair, how)
        each = [float(compared(rows, repeats=1)) for rows in np.split(both, sharings)]
        detail = {"regimes": list(pair), "each_sharing": each}
        out.append(measure(_metric(kind, how), compared, everyone, both, detail=detail, **options))
    return out


def _metric(kind: str, how: str) -> str:
    return f"gain in {kind}" if how == "minus" else f"{kind} relative to real"


def _regime(pair: tuple[str, str], how: str) -> str:
    return f"{pair[0]} minus {pair[1]}" if how == "minus" else pair[0]


def _headlines(share: float, why: str, n: int) -> list[Measurement]:
    """What is said to be missing where the experiment cannot be run at all."""
    local, both = (f"{name}, {share:.0%} of local" for name in (LOCAL, LOCAL_RELEASED))
    pairs = (((RELEASED, RAW), "relative to"), ((both, local), "minus"))
    return [
        Measurement.missing(_metric(kind, how), why, n=n, regime=_regime(pair, how))
        for pair, how in pairs
        for kind in _STATISTICS
    ]


def _some(exhibit: Exhibit, rows: NDArray[Any], most: int) -> NDArray[Any]:
    """At most so many rows, one film of each patient before the second of any."""
    if len(rows) <= most:
        return rows
    turn = {patient: i for i, patient in enumerate(drawn(exhibit.patients[rows], "some"))}
    seen: dict[str, int] = {}
    visits = []
    for patient in map(str, exhibit.patients[rows]):
        seen[patient] = seen.get(patient, 0) + 1
        visits.append((seen[patient], turn[patient]))
    order = sorted(range(len(rows)), key=visits.__getitem__)
    kept: NDArray[Any] = np.sort(rows[order[:most]])
    return kept
